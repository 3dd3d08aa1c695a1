"""Who else uses a mapped function, and who calls the map."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardfix.semantics.outputs import function_references, map_call
from shardfix.semantics.values import Function, Mapped, MapSite, Partial, Transformed, Value

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.semantics.scopes import Scope

__all__ = ["calls_in_view", "is_named_at_map", "other_users"]


def other_users(function: Function, site: MapSite) -> list[ast.expr]:
    """The places, beside this map, that use the function: calls, transforms, other maps, other modules of the project.

    A function whose own decorator maps it has no users of its own: all see the mapped one.
    """
    module = function.module
    call = map_call(site)
    if call is not None and not isinstance(function.node, ast.Lambda) and call.node in function.node.decorator_list:
        return []
    mapped = _function_argument(site)
    inside = set(ast.walk(mapped)) if mapped is not None else set()
    others = [
        node
        for node in function_references(function)
        if node not in inside and not _is_recursive(module, node, function) and not _means_mapped(module, node, site)
    ]
    if not is_named_at_map(function, site):
        # The map's function is a parameter: what is handed on there is mapped there, unless it is also called on the way.
        others = [node for node in others if not _is_handed_to_project(module, node)]
        if not others and function.node in module.trace.called:
            others = [mapped] if mapped is not None else [site.call]
    if not others and _is_used_elsewhere(function):
        return [mapped] if mapped is not None else [site.call]
    return others


def is_named_at_map(function: Function, site: MapSite) -> bool:
    """Whether the map itself names the function: not a parameter that stands for different functions in different calls."""
    mapped = _function_argument(site)
    if mapped is None:
        return True
    known = site.module.value_of(mapped)
    return any(isinstance(value, Function) and value.node is function.node for value in _functions_behind(known))


def _functions_behind(value: Value) -> Iterator[Value]:
    """The functions that a value is, seen through partial and transforms."""
    while isinstance(value, Partial | Transformed):
        value = value.function
    yield value


def _is_handed_to_project(module: Module, node: ast.expr) -> bool:
    """Whether a reference is an argument of a call of a function of the project."""
    parent = module.parent(node)
    if isinstance(parent, ast.keyword):
        parent = module.parent(parent)
    return isinstance(parent, ast.Call) and parent.func is not node and module.definition(parent.func) is not None


def _means_mapped(module: Module, node: ast.expr, site: MapSite) -> bool:
    """Whether a name means what the map gives, because a decorator out of view maps the function."""
    known = module.value_of(node) if isinstance(node, ast.Name) else None
    while isinstance(known, Transformed | Partial):
        known = known.function
    return isinstance(known, Mapped) and known.site.call is site.call


def _is_recursive(module: Module, node: ast.expr, function: Function) -> bool:
    """A recursive call inside the function's own body."""
    return any(ancestor is function.node for ancestor in module.ancestors(node))


def _function_argument(site: MapSite) -> ast.expr | None:
    call = map_call(site)
    return call.value("f", 0) if call is not None else None


def _is_used_elsewhere(function: Function) -> bool:
    """Whether another module of the project imports the function, or the module says that it is public."""
    node, module = function.node, function.module
    if isinstance(node, ast.Lambda) or module.parent(node) is not module.tree:
        return False
    name = node.name
    for constant in module.nodes(ast.Constant):
        if constant.value == name and isinstance(module.statement(constant), ast.Assign):
            targets = module.statement(constant).targets  # type: ignore[attr-defined]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                return True
    return any(module.project.importers_of(module.path, name))


def calls_in_view(site: MapSite) -> bool:
    """Whether every call of the mapped function is seen: it is called where it is made, or bound to a local name that is only called."""
    module, call = site.module, map_call(site)
    if call is None:
        return False
    parent = module.parent(call.node)
    if isinstance(parent, ast.Call) and parent.func is call.node:
        return True
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        name = parent.targets[0].id
        scope = module.scope_of(parent)
        reads = [
            node
            for node in module.nodes(ast.Name)
            if node.id == name and isinstance(node.ctx, ast.Load) and _is_bound_in(module, node, scope)
        ]
        if scope.parent is None and not _is_private(module, name, reads):
            return False
        return bool(reads) and all(_is_called(module, node) for node in reads)
    return False


def _is_bound_in(module: Module, node: ast.Name, scope: Scope) -> bool:
    known = module.scope_of(node).lookup(node.id)
    return known is not None and known[0] is scope


def _is_called(module: Module, node: ast.expr) -> bool:
    parent = module.parent(node)
    return isinstance(parent, ast.Call) and parent.func is node


def _is_private(module: Module, name: str, reads: list[ast.Name]) -> bool:
    """Whether a global name is of no use to others: that of a script, or one that the module itself calls when it is loaded."""
    own = _is_script(module) or any(_runs_when_loaded(module, node) for node in reads)
    return own and not any(module.project.importers_of(module.path, name))


def _runs_when_loaded(module: Module, node: ast.AST) -> bool:
    functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    return not any(isinstance(ancestor, functions) for ancestor in module.ancestors(node))


def _is_script(module: Module) -> bool:
    return re.search(r"__name__\s*==\s*['\"]__main__['\"]", module.source) is not None
