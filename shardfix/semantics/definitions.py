"""Functions and classes of a module: their parameters, calls, returned values and attributes, as they are written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.semantics.scopes import Binding

__all__ = [
    "FunctionNode",
    "argument_for",
    "attribute_names",
    "attributes_named",
    "bound_value",
    "class_attributes",
    "constructor_calls",
    "default_of",
    "direct_calls",
    "enclosing_functions",
    "exported_value",
    "follow",
    "imported_value",
    "is_static",
    "name_uses",
    "returns",
]

MAX_DEPTH = 12
SAME_ARGUMENTS = frozenset({"jax.jit", "jax.experimental.pjit.pjit", "jax.checkpoint", "jax.remat"})
"""Give a function that is called like the one they are given."""
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def follow(value: ast.expr, path: tuple[int, ...]) -> ast.expr | None:
    """The part of an unpacked tuple that a name gets."""
    for index in path:
        if not isinstance(value, ast.Tuple | ast.List) or index >= len(value.elts):
            return None
        value = value.elts[index]
    return value


def is_static(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method has no ``self``."""
    return any(
        isinstance(decorator, ast.Name) and decorator.id == "staticmethod" for decorator in function.decorator_list
    )


def default_of(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, argument: ast.arg) -> ast.expr | None:
    """The default of a parameter; None where it has none."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    if argument in positional:
        index = positional.index(argument) - (len(positional) - len(arguments.defaults))
        return arguments.defaults[index] if index >= 0 else None
    if argument in arguments.kwonlyargs:
        return arguments.kw_defaults[arguments.kwonlyargs.index(argument)]
    return None


def argument_for(
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, call: ast.Call, name: str, *, bound: bool = False
) -> ast.expr | None:
    """What a call gives for a parameter, its default included; None where that is not in view.

    ``bound`` says that the function is a method called through its instance: the first parameter is not in the call.
    """
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args][1 if bound else 0 :]
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    names = [argument.arg for argument in positional]
    if name in names:
        index = names.index(name)
        if any(isinstance(value, ast.Starred) for value in call.args[: index + 1]):
            return None
        if index < len(call.args):
            return call.args[index]
    if any(keyword.arg is None for keyword in call.keywords):
        return None
    for argument in [*positional, *arguments.kwonlyargs]:
        if argument.arg == name:
            return default_of(function, argument)
    return None


_READS: WeakKeyDictionary[Module, tuple[dict[str, list[ast.Name]], dict[str, list[ast.Attribute]]]] = (
    WeakKeyDictionary()
)


def _reads(module: Module) -> tuple[dict[str, list[ast.Name]], dict[str, list[ast.Attribute]]]:
    """The names that are read, and the attributes that are mentioned, by their name; in source order."""
    if module not in _READS:
        names: dict[str, list[ast.Name]] = {}
        attributes: dict[str, list[ast.Attribute]] = {}
        for name in module.nodes(ast.Name):
            if isinstance(name.ctx, ast.Load):
                names.setdefault(name.id, []).append(name)
        for attribute in module.nodes(ast.Attribute):
            attributes.setdefault(attribute.attr, []).append(attribute)
        _READS[module] = names, attributes
    return _READS[module]


def attributes_named(module: Module, name: str) -> list[ast.Attribute]:
    """The attributes ``.name`` of anything, read or set."""
    return _reads(module)[1].get(name, [])


def attribute_names(module: Module) -> frozenset[str]:
    """The names of all attributes that the module mentions."""
    return frozenset(_reads(module)[1])


def bound_value(binding: Binding) -> ast.expr | None:
    """The expression whose value a binding gives its name; None where it is no expression, or cut out of one unseen."""
    value = binding.value if binding.kind == "assignment" else None
    for position in binding.path:
        if not isinstance(value, ast.Tuple | ast.List) or any(isinstance(item, ast.Starred) for item in value.elts):
            return None
        value = value.elts[position] if position < len(value.elts) else None
    return value


def name_uses(module: Module, name: str, definition: ast.AST) -> list[ast.expr]:
    """The names that read the binding that ``definition`` (a function, a class, an assigned name) makes."""
    found: list[ast.expr] = []
    for node in _reads(module)[0].get(name, ()):
        known = module.scope_of(node).lookup(name)
        if known is not None and any(binding.node is definition for binding in known[1]):
            found.append(node)
    return found


def direct_calls(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.Call]:
    """The calls in this module that name the function, or the result of jit on it."""
    found: list[ast.Call] = []
    for use in name_uses(module, function.name, function):
        found += _calls_through(module, use, 0)
    return found


def _calls_through(module: Module, use: ast.expr, depth: int) -> list[ast.Call]:
    """The calls of a function that ``use`` gives: here, or of what jit makes of it, through a name."""
    parent = module.parent(use)
    match parent:
        case ast.Call() if parent.func is use:
            return [parent]
        case ast.Call(args=[first, *_]) if first is use and depth < 4 and module.resolve(parent.func) & SAME_ARGUMENTS:
            return _calls_through(module, parent, depth + 1)
        case ast.Assign(targets=[ast.Name() as target]) if depth:
            reads = name_uses(module, target.id, target)
            return [call for read in reads for call in _calls_through(module, read, depth + 1)] if depth < 4 else []
    return []


def enclosing_functions(module: Module, node: ast.AST) -> Iterator[FunctionNode]:
    """The functions and lambdas whose bodies hold ``node``, innermost first."""
    child = node
    for ancestor in module.ancestors(node):
        match ancestor:
            case ast.Lambda() if child is ancestor.body:
                yield ancestor
            case ast.FunctionDef() | ast.AsyncFunctionDef() if child in ancestor.body:
                yield ancestor
        child = ancestor


def constructor_calls(module: Module, cls: ast.ClassDef) -> list[ast.Call]:
    """The calls in this module that make an instance of a class."""
    found = []
    for use in name_uses(module, cls.name, cls):
        parent = module.parent(use)
        if isinstance(parent, ast.Call) and parent.func is use:
            found.append(parent)
    return found


def returns(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.Return]:
    """The return statements of a function, not those of functions inside it."""
    found: list[ast.Return] = []
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return):
            found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            stack.extend(ast.iter_child_nodes(node))
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


@lru_cache(maxsize=256)
def class_attributes(cls: ast.ClassDef) -> dict[str, list[tuple[ast.expr | None, ast.expr | None, ast.AST]]]:
    """What a class assigns to its attributes: value, annotation and place, in the class body and as ``self.name = ...``."""
    found: dict[str, list[tuple[ast.expr | None, ast.expr | None, ast.AST]]] = {}
    for statement in cls.body:
        match statement:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, []).append((value, None, statement))
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=default):
                found.setdefault(name, []).append((default, annotation, statement))
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not is_static(statement):
                arguments = [*statement.args.posonlyargs, *statement.args.args]
                if not arguments:
                    continue
                own = arguments[0].arg
                for node in ast.walk(statement):
                    match node:
                        case ast.Assign(targets=targets, value=value):
                            for target in targets:
                                for name, part in _self_targets(target, value, own):
                                    found.setdefault(name, []).append((part, None, node))
                        case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id=root), attr=name), value=part) if (
                            root == own
                        ):
                            found.setdefault(name, []).append((part, node.annotation, node))
    return found


def _self_targets(target: ast.expr, value: ast.expr, own: str) -> Iterator[tuple[str, ast.expr | None]]:
    match target:
        case ast.Attribute(value=ast.Name(id=root), attr=name) if root == own:
            yield name, value
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for index, element in enumerate(elements):
                part = (
                    value.elts[index] if isinstance(value, ast.Tuple | ast.List) and index < len(value.elts) else None
                )
                if (
                    isinstance(element, ast.Attribute)
                    and isinstance(element.value, ast.Name)
                    and element.value.id == own
                ):
                    yield element.attr, part


def imported_value(module: Module, binding: Binding) -> tuple[Module, ast.expr] | None:
    """The module of the project and the expression that an imported name is bound to there, if it is bound once."""
    if not binding.dotted:
        return None
    base, _, name = binding.dotted.rpartition(".")
    if binding.dotted.startswith(".") and not base.strip("."):
        base = binding.dotted[: len(binding.dotted) - len(name)]
    other = module.project.module(base, module.path) if base else None
    if other is None or other is module:
        return None
    return exported_value(other, name)


def exported_value(module: Module, name: str, depth: int = 0) -> tuple[Module, ast.expr] | None:
    """The expression that a module-level name is bound to, if it is bound once; re-exports are followed."""
    bindings = module.module_scope.bindings.get(name)
    if not bindings or len(bindings) != 1 or depth > MAX_DEPTH:
        return None
    binding = bindings[0]
    if binding.kind == "assignment" and binding.value is not None:
        value = follow(binding.value, binding.path)
        return (module, value) if value is not None else None
    if binding.kind == "import":
        return imported_value(module, binding)
    return None
