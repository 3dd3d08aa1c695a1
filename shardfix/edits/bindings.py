"""What names mean at a place, as the importer needs to know it: surely bound there, or free to be bound."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.semantics.scopes import Binding, Scope

__all__ = [
    "canonical",
    "function_around",
    "is_for_type_checking",
    "is_free",
    "is_surely_bound",
    "preceding",
    "runs_later",
]

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

_SAME_OBJECT = {
    "jax._src.mesh.Mesh": "jax.sharding.Mesh",
    "jax._src.named_sharding.NamedSharding": "jax.sharding.NamedSharding",
    "jax._src.partition_spec.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax._src.sharding_impls.NamedSharding": "jax.sharding.NamedSharding",
    "jax._src.sharding_impls.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax.P": "jax.sharding.PartitionSpec",
    "jax.NamedSharding": "jax.sharding.NamedSharding",
    "jax.experimental.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax.experimental.maps.Mesh": "jax.sharding.Mesh",
    "jax.experimental.pjit.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax.interpreters.pxla.Mesh": "jax.sharding.Mesh",
    "jax.interpreters.pxla.PartitionSpec": "jax.sharding.PartitionSpec",
}


def canonical(dotted: str) -> str:
    """The one full name for objects of JAX that have several."""
    return _SAME_OBJECT.get(dotted, dotted)


def function_around(module: Module, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost ``def`` whose body holds ``node`` (its decorators and defaults are not in its body)."""
    scope: Scope | None = module.scope_of(node)
    while scope is not None:
        if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return scope.node
        scope = scope.parent
    return None


def runs_later(module: Module, node: ast.AST, home: Scope) -> bool:
    """Whether ``node`` stands in a function or lambda within ``home``, so that it runs when that is called."""
    scope: Scope | None = module.scope_of(node)
    while scope is not None and scope is not home:
        if isinstance(scope.node, FUNCTIONS):
            return True
        scope = scope.parent
    return False


def preceding(module: Module, node: ast.AST, until: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    """The statements that have run when ``node`` runs, block by block, innermost first, up to the body of ``until``."""
    child = node
    for ancestor in module.ancestors(node):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(ancestor, name, None)
            if not isinstance(block, list):
                continue
            for index, statement in enumerate(block):
                if statement is child:
                    yield block[:index]
                    if isinstance(ancestor, ast.Try | ast.TryStar) and name == "orelse":
                        yield ancestor.body
        if ancestor is until:
            return
        child = ancestor


def is_surely_bound(module: Module, name: str, home: Scope, node: ast.AST) -> bool:
    """Whether the scope ``home`` has bound ``name`` on every path when ``node`` runs."""
    if any(_binds(statement, name) for block in preceding(module, node, home.node) for statement in block):
        return True
    return (
        isinstance(home.node, ast.Module)
        and runs_later(module, node, home)
        and any(_binds(statement, name) for statement in home.node.body)
    )


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether ``name`` is bound, by an import or a plain assignment, once the statement is done."""
    match statement:
        case ast.Import():
            return any((alias.asname or alias.name.partition(".")[0]) == name for alias in statement.names)
        case ast.ImportFrom():
            return any((alias.asname or alias.name) == name for alias in statement.names)
        case ast.Assign():
            return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)
        case ast.AnnAssign():
            return (
                isinstance(statement.target, ast.Name) and statement.target.id == name and statement.value is not None
            )
        case ast.If():
            return _block_binds(statement.body, name) and _block_binds(statement.orelse, name)
        case ast.Try() | ast.TryStar():
            done = any(_binds(inner, name) for inner in [*statement.body, *statement.orelse])
            return any(_binds(inner, name) for inner in statement.finalbody) or (
                done and all(_block_binds(handler.body, name) for handler in statement.handlers)
            )
        case ast.With() | ast.AsyncWith():
            return any(_binds(inner, name) for inner in statement.body)
    return False


def _block_binds(block: Sequence[ast.stmt], name: str) -> bool:
    return any(_binds(inner, name) for inner in block) or (
        bool(block) and isinstance(block[-1], ast.Raise | ast.Return | ast.Continue | ast.Break)
    )


def is_free(module: Module, name: str, home: Scope, node: ast.AST, *, throughout: bool = False) -> bool:
    """Whether an import may bind ``name`` in ``home`` and be meant by that name at ``node``, and nothing else changes.

    Args:
        throughout: whether it must not be bound to anything else in any scope of the file either.
    """
    if hasattr(builtins, name) or module.scope_of(node).lookup(name) is not None or name in home.bindings:
        return False
    scopes = list(module.scopes.values())
    if any(name in scope.globals for scope in scopes):
        return False
    if throughout and any(name in scope.bindings for scope in scopes):
        return False
    inside = home.node
    for reference in module.nodes(ast.Name):
        if reference.id == name:
            known = module.scope_of(reference).lookup(name)
            within = isinstance(inside, ast.Module) or any(
                ancestor is inside for ancestor in module.ancestors(reference)
            )
            if within and (known is None or not _is_within(known[0], home)):
                return False  # bound by a star import, or by nothing that is known: it would change its meaning
    return True


def _is_within(scope: Scope, home: Scope) -> bool:
    current: Scope | None = scope
    while current is not None:
        if current is home:
            return True
        current = current.parent
    return False


def is_for_type_checking(module: Module, binding: Binding) -> bool:
    """Whether the binding stands under ``if TYPE_CHECKING``, and so binds nothing when the program runs."""
    for ancestor in module.ancestors(binding.node):
        if isinstance(ancestor, ast.If):
            for part in ast.walk(ancestor.test):
                if getattr(part, "id", getattr(part, "attr", None)) == "TYPE_CHECKING":
                    return True
    return False
