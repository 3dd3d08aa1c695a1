"""Where the values are written that a name, an attribute or a subscript may give: through assignments, imports, loops over what
is written out, dict entries, namespaces, and the fields and attributes of classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardfix.semantics.definitions import (
    argument_for,
    class_attributes,
    constructor_calls,
    default_of,
    direct_calls,
    enclosing_functions,
    exported_value,
    follow,
    imported_value,
)

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

__all__ = ["values_behind"]

MAX_DEPTH = 10
"""Steps from a name to what is written."""


def values_behind(module: Module, expression: ast.expr, depth: int = 0) -> list[tuple[Module, ast.expr]] | None:
    """All expressions whose values a name, an attribute or a subscript may give; None where one may be out of view."""
    if depth > MAX_DEPTH:
        return None
    match expression:
        case ast.Name():
            return _behind_name(module, expression)
        case ast.Attribute():
            return _behind_attribute(module, expression, depth)
        case ast.Subscript(value=owner, slice=key):
            return _behind_item(module, owner, key, depth)
    return None


def _behind_name(module: Module, name: ast.Name) -> list[tuple[Module, ast.expr]] | None:
    bindings = module.reaching(name)
    if not bindings or name.id in module.mutated_names:
        return None
    found: list[tuple[Module, ast.expr]] = []
    for binding in bindings:
        if binding.kind == "assignment" and binding.value is not None:
            value = follow(binding.value, binding.path)
            if value is None:
                return None
            found.append((module, value))
        elif binding.kind == "import":
            imported = imported_value(module, binding)
            if imported is None:
                return None
            found.append(imported)
        elif binding.kind == "other":
            elements = _behind_loop(module, binding.node)
            if elements is None:
                return None
            found += elements
        else:
            return None
    return found


def _behind_loop(module: Module, target: ast.AST) -> list[tuple[Module, ast.expr]] | None:
    """What the variable of a loop or a comprehension runs through, where that is written out."""
    path: tuple[int, ...] = ()
    parent = module.parent(target)
    while isinstance(parent, ast.Tuple | ast.List):
        path = (parent.elts.index(target), *path)  # type: ignore[arg-type]
        target, parent = parent, module.parent(parent)
    if not isinstance(parent, ast.For | ast.comprehension) or parent.target is not target:
        return None
    return _elements(module, parent.iter, path)


def _elements(module: Module, iterated: ast.expr, path: tuple[int, ...]) -> list[tuple[Module, ast.expr]] | None:
    """The parts at ``path`` of the elements that an iterable gives."""
    match iterated:
        case ast.Call(func=ast.Attribute(value=owner, attr="items" | "values" as method), args=[]):
            if method == "items" and path[:1] != (1,):
                return None
            rest = path[1:] if method == "items" else path
            found: list[tuple[Module, ast.expr]] = []
            for where, container in values_behind(module, owner) or [(module, owner)]:
                if not isinstance(container, ast.Dict):
                    return None
                found += [(where, value) for value in container.values]
        case ast.Call(func=ast.Name(id="enumerate"), args=[inner]) if path[:1] == (1,):
            return _elements(module, inner, path[1:])
        case ast.Call(func=ast.Name(id="zip"), args=arguments) if path and path[0] < len(arguments):
            return _elements(module, arguments[path[0]], path[1:])
        case _:
            rest, found = path, []
            for where, container in values_behind(module, iterated) or [(module, iterated)]:
                if not isinstance(container, ast.Tuple | ast.List) or _has_star(container):
                    return None
                found += [(where, element) for element in container.elts]
    parts = [(where, follow(value, rest)) for where, value in found]
    return [(where, part) for where, part in parts if part is not None] if all(part for _, part in parts) else None


def _has_star(node: ast.Tuple | ast.List) -> bool:
    return any(isinstance(element, ast.Starred) for element in node.elts)


def _behind_attribute(module: Module, node: ast.Attribute, depth: int) -> list[tuple[Module, ast.expr]] | None:
    owners = module.resolve(node.value)
    if len(owners) == 1:
        other = module.project.module(next(iter(owners)), module.path)
        if other is not None and other is not module:
            value = exported_value(other, node.attr)
            return [value] if value is not None else None
        return None
    found: list[tuple[Module, ast.expr]] = []
    namespace = _namespace(module, node.value)
    if namespace is not None:
        given = [keyword.value for keyword in namespace.keywords if keyword.arg == node.attr]
        return [(module, given[0])] if given and not _is_set_elsewhere(module, node.attr) else None
    instances = list(_instances(module, node.value, depth))
    for instance in instances:
        if instance is None:
            return None
        where, cls, creation = instance
        values = _attribute_values(where, cls, node.attr, creation)
        if values is None:
            return None
        found += values
    if not instances or _is_set_elsewhere(module, node.attr):
        return None
    return found


def _namespace(module: Module, owner: ast.expr) -> ast.Call | None:
    """The ``SimpleNamespace(...)`` that a name is bound to."""
    bindings = module.reaching(owner) if isinstance(owner, ast.Name) else None
    if bindings and len(bindings) == 1 and isinstance(bindings[0].value, ast.Call) and not bindings[0].path:
        if module.resolve(bindings[0].value.func) == {"types.SimpleNamespace"}:
            return bindings[0].value
    return None


Creation = tuple["Module", ast.Call] | None


def _instances(module: Module, owner: ast.expr, depth: int) -> Iterator[tuple[Module, ast.ClassDef, Creation] | None]:
    """The classes that ``owner`` may be an instance of (or be itself), with the call that made it where that is in view."""
    if depth > MAX_DEPTH:
        yield None
        return
    definition = module.definition(owner)
    if definition is not None and isinstance(definition[1], ast.ClassDef):
        yield definition[0], definition[1], None
        return
    match owner:
        case ast.Call(func=function):
            made = module.definition(function)
            yield (
                (made[0], made[1], (module, owner)) if made is not None and isinstance(made[1], ast.ClassDef) else None
            )
        case ast.Name():
            bindings = module.reaching(owner)
            if not bindings:
                yield None
                return
            for binding in bindings:
                if binding.kind == "assignment" and binding.value is not None and not binding.path:
                    yield from _instances(module, binding.value, depth + 1)
                elif binding.kind == "parameter":
                    yield from _instances_of_parameter(module, binding.node, binding.statement, depth)
                else:
                    yield None
        case ast.Attribute():
            behind = _behind_attribute(module, owner, depth + 1)
            if behind is None:
                yield None
            for where, value in behind or ():
                yield from _instances(where, value, depth + 1)
        case _:
            yield None


def _instances_of_parameter(
    module: Module, argument: ast.AST, function: ast.AST, depth: int
) -> Iterator[tuple[Module, ast.ClassDef, Creation] | None]:
    assert isinstance(argument, ast.arg)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        yield None
        return
    cls = module.parent(function)
    positional = [*function.args.posonlyargs, *function.args.args]
    if isinstance(cls, ast.ClassDef) and positional and positional[0] is argument:
        creations = constructor_calls(module, cls)
        if creations:
            for call in creations:
                yield module, cls, (module, call)
        else:
            yield module, cls, None
        return
    calls = direct_calls(module, function) if not isinstance(cls, ast.ClassDef) else []
    if calls:
        for call in calls:
            given = argument_for(function, call, argument.arg)
            if given is None:
                yield None
            else:
                yield from _instances(module, given, depth + 1)
        return
    if argument.annotation is not None:
        annotation = argument.annotation
        if (
            isinstance(annotation, ast.Constant)
            and isinstance(annotation.value, str)
            and annotation.value.isidentifier()
        ):
            annotated = module.exported_definition(annotation.value)
        else:
            annotated = module.definition(annotation)
        if annotated is not None and isinstance(annotated[1], ast.ClassDef):
            yield annotated[0], annotated[1], None
            return
    default = default_of(function, argument)
    if default is not None and isinstance(default, ast.Call):
        yield from _instances(module, default, depth + 1)
        return
    yield None


def _attribute_values(
    module: Module, cls: ast.ClassDef, name: str, creation: Creation
) -> list[tuple[Module, ast.expr]] | None:
    """What the attribute of an instance may be: the argument of the call that made it, or what the class assigns."""
    assigned = class_attributes(cls).get(name)
    if assigned is None:
        for base in cls.bases:
            parent = module.definition(base)
            if parent is not None and isinstance(parent[1], ast.ClassDef):
                found = _attribute_values(parent[0], parent[1], name, creation)
                if found is not None:
                    return found
        return None
    is_field = any(annotation is not None for _, annotation, place in assigned if place in cls.body)
    init = next((node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), None)
    found = []
    for value, annotation, place in assigned:
        if place in cls.body and annotation is not None and init is None and is_field:
            given = _field_argument(cls, name, creation)
            if given is not None:
                return [given]
        if value is None:
            if annotation is not None and place in cls.body and len(assigned) > 1:
                continue
            return None
        if isinstance(value, ast.Call) and _called_name(value) == "field":
            default = next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None)
            factory = next((keyword.value for keyword in value.keywords if keyword.arg == "default_factory"), None)
            if default is None and isinstance(factory, ast.Lambda):
                default = factory.body
            if default is None:
                return None
            value = default
        if init is not None and isinstance(value, ast.Name) and init in module.ancestors(value):
            bindings = module.reaching(value)
            if bindings and len(bindings) == 1 and bindings[0].kind == "parameter":
                if creation is not None:
                    given_value = argument_for(init, creation[1], value.id, bound=True)
                    where = creation[0] if given_value is not None and given_value not in _defaults(init) else module
                else:
                    given_value, where = default_of(init, bindings[0].node), module  # type: ignore[arg-type]
                if given_value is None:
                    return None
                found.append((where, given_value))
                continue
        found.append((module, value))
    return found


def _defaults(function: ast.FunctionDef) -> list[ast.expr]:
    return [*function.args.defaults, *(default for default in function.args.kw_defaults if default is not None)]


def _field_argument(cls: ast.ClassDef, name: str, creation: Creation) -> tuple[Module, ast.expr] | None:
    """What a call gives for the field of a dataclass; None where it gives nothing (or hides what it gives)."""
    if creation is None:
        return None
    module, call = creation
    for keyword in call.keywords:
        if keyword.arg == name:
            return module, keyword.value
    fields = [
        node.target.id for node in cls.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    index = fields.index(name) if name in fields else len(call.args)
    if index < len(call.args) and not any(isinstance(value, ast.Starred) for value in call.args):
        return module, call.args[index]
    return None


def _called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_set_elsewhere(module: Module, name: str) -> bool:
    """Whether an attribute of this name is assigned on anything but ``self``, or changed in place."""
    for node in module.nodes(ast.Attribute):
        if node.attr == name and not isinstance(node.ctx, ast.Load):
            function = next(enclosing_functions(module, node), None)
            arguments = [*function.args.posonlyargs, *function.args.args] if function is not None else []
            if not arguments or not isinstance(node.value, ast.Name) or node.value.id != arguments[0].arg:
                return True
    return False


def _behind_item(module: Module, owner: ast.expr, key: ast.expr, depth: int) -> list[tuple[Module, ast.expr]] | None:
    """The entries of a dict, tuple or list that a subscript may give."""
    containers = (
        [(module, owner)]
        if isinstance(owner, ast.Dict | ast.Tuple | ast.List)
        else values_behind(module, owner, depth + 1)
    )
    if containers is None:
        return None
    found: list[tuple[Module, ast.expr]] = []
    for where, container in containers:
        match container:
            case ast.Dict(keys=keys, values=values):
                if any(name is None for name in keys):
                    return None
                if isinstance(key, ast.Constant):
                    exact = [
                        value
                        for name, value in zip(keys, values, strict=True)
                        if isinstance(name, ast.Constant) and name.value == key.value
                    ]
                    if len(exact) == 1:
                        found.append((where, exact[0]))
                        continue
                    return None
                found += [(where, value) for value in values]
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                if any(isinstance(element, ast.Starred) for element in elements):
                    return None
                if (
                    isinstance(key, ast.Constant)
                    and isinstance(key.value, int)
                    and -len(elements) <= key.value < len(elements)
                ):
                    found.append((where, elements[key.value]))
                else:
                    return None
            case _:
                return None
    return found or None
