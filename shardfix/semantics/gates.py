"""Compatibility code: what runs only on some versions of JAX, and is right as it stands."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardfix.semantics.definitions import class_attributes, returns

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

__all__ = ["is_gated", "is_in_main_block", "is_main_guard", "is_provoked"]

MISSING_MODULE = frozenset({"ImportError", "ModuleNotFoundError"})
MISSING_NAME = frozenset({"AttributeError"})
MAY_BE_ANYTHING = frozenset({"TypeError", "ValueError", "Exception", "BaseException"})
PROBES = frozenset({"hasattr", "getattr", "find_spec", "signature", "getfullargspec", "import_module", "dir", "vars"})
SKIPS = frozenset({"skipif", "skipunless"})
VERSION_WORDS = ("__version__", "__version_info__", "version_info", "jax_version", "jax_ver")


def is_gated(module: Module, node: ast.AST) -> bool:
    """Whether ``node`` runs under a test of what this JAX has."""
    name = node.attr if isinstance(node, ast.Attribute) else ""
    child: ast.AST = node
    for ancestor in module.ancestors(node):
        match ancestor:
            case ast.Try() | ast.TryStar():
                if _catches_missing_names(module, ancestor) and child not in ancestor.finalbody:
                    return True
            case ast.If() if child is not ancestor.test:
                if _asks(module, ancestor.test, name):
                    return True
            case ast.IfExp() if child is not ancestor.test:
                if _asks(module, ancestor.test, name):
                    return True
            case ast.Match() if child is not ancestor.subject:
                if _asks(module, ancestor.subject, name):
                    return True
            case ast.With() | ast.AsyncWith() if child in ancestor.body:
                if any(_suppresses_missing_names(module, item.context_expr, ancestor.body) for item in ancestor.items):
                    return True
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if child in ancestor.body:
                if any(_skips_by_probe(module, decorator) for decorator in ancestor.decorator_list):
                    return True
            case ast.BoolOp() if child in ancestor.values:
                if any(_asks(module, value, name) for value in ancestor.values[: ancestor.values.index(child)]):
                    return True
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(ancestor, block, None)
            if isinstance(statements, list) and child in statements:
                if any(_leaves_under_probe(module, earlier, name) for earlier in statements[: statements.index(child)]):
                    return True
        child = ancestor
    return False


def _leaves_under_probe(module: Module, statement: ast.stmt, name: str) -> bool:
    """``if <probe>: return ...``: what follows runs only on the other versions.

    An error for a JAX that is too old says nothing of what follows; one for a JAX that is too new does.
    """
    match statement:
        case ast.If(test=test, body=[*_, ast.Return() | ast.Continue()]):
            return _asks(module, test, name)
        case ast.If(test=test, body=[*_, ast.Raise()]):
            return _asks_for_version(module, test, (ast.Gt, ast.GtE))
        case ast.Assert(test=test):
            return _asks_for_version(module, test, (ast.Lt, ast.LtE))
    return False


def _asks(module: Module, test: ast.expr, name: str) -> bool:
    """Whether a test asks which JAX this is, or whether some object has the attribute ``name``."""
    return _is_probe(module, test) or (bool(name) and any(_asks_for_name(node, name) for node in ast.walk(test)))


def _asks_for_name(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="hasattr" | "getattr"), args=[_, ast.Constant(value=asked), *_]):
            return bool(asked == name)
    return False


def _asks_for_version(module: Module, test: ast.expr, comparisons: tuple[type[ast.cmpop], ...]) -> bool:
    """Whether a test compares the version of JAX, on its left, in one of these ways."""
    match test:
        case ast.Compare(left=left, ops=[comparison], comparators=[_]):
            return isinstance(comparison, comparisons) and _is_probe(module, left)
    return False


def _skips_by_probe(module: Module, decorator: ast.expr) -> bool:
    """``@pytest.mark.skipif(<probe>)``, ``@unittest.skipUnless(<probe>, ...)``; what only an older JAX skips is no such code."""
    match decorator:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[test, *_]) if name.lower() in SKIPS:
            if _asks_for_version(module, test, (ast.Gt, ast.GtE, ast.Lt, ast.LtE)):
                newer = (ast.Gt, ast.GtE) if name.lower() == "skipif" else (ast.Lt, ast.LtE)
                return _asks_for_version(module, test, newer)
            return _is_probe(module, test)
    return False


def _suppresses_missing_names(module: Module, context: ast.expr, body: list[ast.stmt]) -> bool:
    """``with contextlib.suppress(ImportError):`` around an import."""
    if not isinstance(context, ast.Call) or module.resolve(context.func) != {"contextlib.suppress"}:
        return False
    caught = {kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", "") for kind in context.args}
    return bool(caught & MISSING_NAME) or (bool(caught & MISSING_MODULE) and any(map(_imports, body)))


def _catches_missing_names(module: Module, statement: ast.Try | ast.TryStar) -> bool:
    """Whether a try asks if names of JAX are there: not one that guards the program against all that may go wrong."""
    for handler in statement.handlers:
        caught = _caught_names(handler)
        if caught & MISSING_NAME:
            return True
        if caught & MISSING_MODULE and any(_imports(inner) for inner in statement.body):
            return True
        if caught & MAY_BE_ANYTHING and (_uses_jax(module, handler) or any(map(_is_import, statement.body))):
            return True
    return False


def _caught_names(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", "") for kind in kinds}


def _is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _imports(node: ast.AST) -> bool:
    return any(_is_import(inner) for inner in ast.walk(node))


def _uses_jax(module: Module, handler: ast.ExceptHandler) -> bool:
    for node in ast.walk(handler):
        if _is_import(node):
            return True
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            if any(name.partition(".")[0] == "jax" for name in module.resolve(node)):
                return True
    return False


def _is_probe(module: Module, test: ast.expr, depth: int = 0) -> bool:
    """Whether an expression asks which JAX this is, or what it has."""
    for node in ast.walk(test):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if (
                name in PROBES or "version" in name.lower()
            ):
                if any(_is_of_jax(module, argument) for argument in node.args[:1]):
                    return True
            case ast.Compare(left=ast.Constant() as name, comparators=[where]) if _is_of_jax(module, name):
                if module.resolve(where) == {"sys.modules"}:
                    return True
            case ast.Call(func=function, args=[], keywords=[]) if depth < 3 and _returns_probe(module, function, depth):
                return True
            case ast.Attribute(attr=name) | ast.Name(id=name) if any(word in name.lower() for word in VERSION_WORDS):
                return True
            case ast.Name() if depth < 3:
                bindings = module.reaching(node) or []
                for binding in bindings:
                    if binding.value is not None and _is_probe(module, binding.value, depth + 1):
                        return True
                    if binding.kind == "assignment" and _set_in_import_guard(module, binding.node):
                        return True
                    if binding.kind == "import" and binding.dotted and _is_probe_of_project(module, binding.dotted):
                        return True
            case ast.Attribute() if depth < 3 and _is_probe_of_class(module, node, depth):
                return True
    return False


def _returns_probe(module: Module, function: ast.expr, depth: int) -> bool:
    """Whether a function of the project tells which JAX this is."""
    home, definition = module.definition(function) or (module, None)
    if not isinstance(definition, ast.FunctionDef):
        return False
    return any(value.value is not None and _is_probe(home, value.value, depth + 1) for value in returns(definition))


def _is_probe_of_project(module: Module, dotted: str) -> bool:
    """Whether an imported name is a flag that another module of the project sets by asking which JAX this is."""
    base, _, name = dotted.rpartition(".")
    if not base.strip("."):
        base = dotted[: len(dotted) - len(name)]
    other = module.project.module(base, module.path) if base else None
    if other is None or other is module:
        return False
    bindings = other.module_scope.bindings.get(name, ())
    return any(
        (binding.value is not None and _is_probe(other, binding.value, depth=2))
        or (binding.kind == "assignment" and _set_in_import_guard(other, binding.node))
        for binding in bindings
    )


def _is_probe_of_class(module: Module, node: ast.Attribute, depth: int) -> bool:
    """Whether ``self.flag``, ``cls.flag`` or ``Class.flag`` is set in the class by asking which JAX this is."""
    if not isinstance(node.value, ast.Name):
        return False
    owner = module.enclosing(node, ast.ClassDef)
    if not isinstance(owner, ast.ClassDef) or node.value.id not in ("self", "cls", owner.name):
        return False
    values = [value for value, _, _ in class_attributes(owner).get(node.attr, ())]
    return any(value is not None and _is_probe(module, value, depth + 1) for value in values)


def _is_of_jax(module: Module, node: ast.expr) -> bool:
    """Whether an argument of a probe is JAX, something of it, or its name."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.partition(".")[0] in ("jax", "jaxlib")
    if isinstance(node, ast.Call):
        return _is_of_jax(module, node.func) or any(_is_of_jax(module, argument) for argument in node.args)
    return any(name.partition(".")[0] in ("jax", "jaxlib") for name in module.resolve(node))


def _set_in_import_guard(module: Module, node: ast.AST) -> bool:
    """``try: import jax.x; HAVE = True / except ImportError: HAVE = False``."""
    statement = module.enclosing(node, ast.Try)
    return (
        isinstance(statement, ast.Try)
        and _catches_missing_names(module, statement)
        and any(_is_import_of_jax(inner) for inner in ast.walk(statement))
    )


def _is_import_of_jax(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(alias.name.partition(".")[0] in ("jax", "jaxlib") for alias in names)
        case ast.ImportFrom(module=str() as source, level=0):
            return source.partition(".")[0] in ("jax", "jaxlib")
        case ast.ImportFrom(level=level):
            return level > 0  # of the project, which may be its own layer over JAX
    return False


def _fails_without_error(statement: ast.Try | ast.TryStar) -> bool:
    """Whether a try ends in a failure where its body raises nothing: ``else: raise``, ``else: assert False``, ``self.fail()``."""
    match (statement.orelse or statement.body)[-1]:
        case ast.Raise() | ast.Assert(test=ast.Constant(value=False)):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="fail") | ast.Name(id="fail"))):
            return True
    return False


def is_provoked(module: Module, node: ast.AST, *, caught: bool = False) -> bool:
    """Whether an error is expected: in a ``with pytest.raises(...)`` or ``assertRaises``, or in a try that fails without one;
    with ``caught`` also in any try that catches it."""
    child: ast.AST = node
    for ancestor in module.ancestors(node):
        match ancestor:
            case ast.With() | ast.AsyncWith():
                for item in ancestor.items:
                    called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
                    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                    if name in ("raises", "suppress") or name.startswith("assertRaises"):
                        return True
            case ast.Try() | ast.TryStar() if child in ancestor.body:
                if (caught or _fails_without_error(ancestor)) and any(
                    _caught_names(handler) & (MAY_BE_ANYTHING | {"AssertionError"}) for handler in ancestor.handlers
                ):
                    return True
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return False
        child = ancestor
    return False


def is_main_guard(statement: ast.If) -> bool:
    """Whether a statement is ``if __name__ == "__main__":``."""
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))


def is_in_main_block(module: Module, statement: ast.stmt) -> bool:
    """Whether a statement stands in the body of ``if __name__ == "__main__":`` itself."""
    parent = module.parent(statement)
    if not isinstance(parent, ast.If) or not isinstance(module.parent(parent), ast.Module):
        return False
    return is_main_guard(parent) and statement in parent.body
