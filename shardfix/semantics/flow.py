"""Where an imported function goes within its module, and whether other modules take it from there.

A function that moves to a new home with a new signature can only move together with its calls. This module tells which
calls these are, and where the function goes out of sight.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfix.semantics.calls import PARTIALS, Call

if TYPE_CHECKING:
    from shardfix.semantics.module import ImportedName, Module
    from shardfix.semantics.scopes import Binding

__all__ = ["Escape", "Flow", "flows", "importers", "names_in_all", "readers", "settled_bindings"]


@dataclass(frozen=True, eq=False)
class Escape:
    """A place where the function goes out of sight."""

    node: ast.expr | ast.alias
    why: str
    """What happens there, as a clause ("is passed on as a value")."""
    partial: Call | None = None
    """The ``partial(...)`` that goes out of sight, where it is one."""


@dataclass(eq=False)
class Flow:
    """One way by which a function comes into a module, and all that is done with it there."""

    dotted: str
    imported: ImportedName | None
    """The import that binds the function or its module; None for a dotted use such as ``jax.experimental.m.f``, and for
    ``from jax.experimental.m import *``."""
    loads: ImportedName | None = None
    """The ``import a.b`` that loads the module of a dotted use, where nothing else needs it."""
    spelled: list[ast.expr] = field(default_factory=list)
    """The expressions that mean the function in terms of the import: a name, or ``module.function``."""
    calls: list[Call] = field(default_factory=list)
    """Its calls: direct ones, ``partial(...)``, and the calls that complete a partial."""
    decorated: list[ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=list)
    """The functions that it decorates as it is, without arguments."""
    escapes: list[Escape] = field(default_factory=list)
    other_uses: list[ast.expr] = field(default_factory=list)
    """Uses of the imported module that are not uses of the function."""
    gated: bool = False
    """Whether some of it runs only on some versions of JAX."""
    names: set[str] = field(default_factory=set)
    """The module-level names that the function is bound to."""


def settled_bindings(module: Module, name: ast.Name) -> list[Binding]:
    """The bindings that ``name`` may refer to; from within a function, an outer name that is bound anew counts as it is in the end."""
    bindings = module.reaching(name) or []
    known = module.scope_of(name).lookup(name.id)
    if known is None or known[0] is module.scope_of(name):
        return bindings
    for index in range(len(bindings) - 1, 0, -1):
        if not bindings[index].conditional:
            return bindings[index:]
    return bindings


def readers(module: Module, node: ast.AST, name: str) -> Iterator[tuple[ast.Name, bool]]:
    """The reads of the binding made by ``node`` (an alias, or a name that is assigned to), and whether it is their only one."""
    for use in module.nodes(ast.Name):
        if use.id == name and isinstance(use.ctx, ast.Load):
            bindings = settled_bindings(module, use)
            if any(binding.node is node for binding in bindings):
                yield use, len(bindings) == 1


def flows(module: Module, dotted: str) -> list[Flow]:
    """Every way by which the function ``dotted`` comes into ``module``, in source order.

    Uses that may mean something else on another path are no part of any flow, and taint the one that they belong to.
    """
    home = dotted.rpartition(".")[0]
    found: list[Flow] = []
    covered: set[ast.expr] = set()
    for imported in module.imports:
        direct = imported.dotted == dotted
        if not direct and not (dotted.startswith(f"{imported.dotted}.") and _binds_itself(imported)):
            continue
        if not direct and imported.dotted.count(".") < 1:
            continue  # ``import jax``: its dotted uses stand for themselves
        flow = Flow(dotted, imported, gated=module.is_compatibility_code(imported.statement))
        _follow_binding(module, flow, imported.alias, imported.bound, imported.dotted)
        if direct or flow.spelled or flow.gated:
            if not direct or module.scope_of(imported.statement) is module.module_scope:
                flow.names.add(imported.bound)
            found.append(flow)
            covered.update(flow.spelled)
    if home in module.module_scope.star_imports:
        star = Flow(dotted, None)
        for use in module.uses_of(dotted):
            if isinstance(use, ast.Name) and module.scope_of(use).lookup(use.id) is None:
                _add(module, star, use, True)
        found += [star] if star.spelled else []
    if f"{home.rpartition('.')[2]}.{dotted.rpartition('.')[2]}" not in module.source:
        return found  # looking up every name of a module is the dear part
    loads = _loads(module, home)
    for use in module.uses_of(dotted):
        if isinstance(use, ast.Attribute) and use not in covered and module.resolve(use.value) == {home}:
            flow = Flow(dotted, None, loads, spelled=[use], gated=module.is_compatibility_code(use))
            _follow(module, flow, use)
            found.append(flow)
    return found


def _loads(module: Module, home: str) -> ImportedName | None:
    """``import jax.experimental.m``, if another import binds ``jax`` and nothing else of ``jax.experimental`` is used by its dots."""
    plain = [name for name in module.imports if isinstance(name.statement, ast.Import) and name.alias.asname is None]
    root = home.partition(".")[0]
    package = home.rpartition(".")[0]
    for name in plain:
        if name.dotted == home and len(name.statement.names) == 1:
            others = any(other is not name and other.bound == root for other in plain)
            leans = any(
                isinstance(node.value, ast.Attribute)
                and module.resolve(node.value) == {package}
                and node.attr not in home
                for node in module.nodes(ast.Attribute)
            )
            return name if others and not leans else None
    return None


def _binds_itself(imported: ImportedName) -> bool:
    """Whether the bound name means what is imported: not so for ``import a.b``, which binds ``a``."""
    return isinstance(imported.statement, ast.ImportFrom) or imported.alias.asname is not None


def _follow_binding(module: Module, flow: Flow, node: ast.AST, name: str, means: str) -> None:
    rest = flow.dotted[len(means) + 1 :].split(".") if means != flow.dotted else []
    for use, sure in readers(module, node, name):
        outer: ast.expr = use
        for attribute in rest:
            parent = module.parent(outer)
            if isinstance(parent, ast.Attribute) and parent.attr == attribute:
                outer = parent
            else:
                flow.other_uses.append(use)
                break
        else:
            _add(module, flow, outer, sure)


def _add(module: Module, flow: Flow, use: ast.expr, sure: bool) -> None:
    flow.spelled.append(use)
    if module.is_compatibility_code(use):
        flow.gated = True
    elif not sure:
        flow.escapes.append(Escape(use, "may be bound to something else"))
    else:
        _follow(module, flow, use)


def _follow(module: Module, flow: Flow, use: ast.expr) -> None:
    """Add what is done with the function where ``use`` means it."""
    parent = module.parent(use)
    match parent:
        case ast.Call() if parent.func is use:
            _add_calls(module, flow, parent, [call for call in module.calls_at(parent) if call.function is use])
        case ast.Call() if parent.args and parent.args[0] is use and module.resolve(parent.func) & PARTIALS:
            calls = [call for call in module.calls_at(parent) if call.is_partial and call.function is use]
            _add_calls(module, flow, parent, calls)
            for call in calls:
                _follow_partial(module, flow, call, call.node)
        case ast.FunctionDef() | ast.AsyncFunctionDef() if use in parent.decorator_list:
            flow.decorated.append(parent)
        case ast.Assign() | ast.AnnAssign() if parent.value is use:
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            for target in targets:
                if not isinstance(target, ast.Name):
                    flow.escapes.append(Escape(use, "is stored out of view"))
                    continue
                if module.scope_of(target) is module.module_scope:
                    flow.names.add(target.id)
                for name, sure in readers(module, target, target.id):
                    if module.is_compatibility_code(name):
                        flow.gated = True
                    elif not sure:
                        flow.escapes.append(Escape(name, "may be bound to something else"))
                    else:
                        _follow(module, flow, name)
        case _:
            flow.escapes.append(Escape(use, "is passed on as a value, to be called out of view"))


def _add_calls(module: Module, flow: Flow, node: ast.Call, calls: list[Call]) -> None:
    home = flow.dotted.rpartition(".")[0]  # what the name was before ``shard_map = shard_map.shard_map``
    ours = [call for call in calls if call.dotted == flow.dotted]
    if ours and all(call.dotted in (flow.dotted, home) for call in calls):
        flow.calls.extend(ours)
    else:
        flow.escapes.append(Escape(node, "may be bound to something else"))


def _follow_partial(module: Module, flow: Flow, partial: Call, use: ast.expr) -> None:
    """Add the calls that complete ``partial`` where ``use`` means it."""
    parent = module.parent(use)
    match parent:
        case ast.Call() if parent.func is use:
            calls = [call for call in module.calls_at(parent) if call.earlier and call.earlier.node is partial.node]
            _add_calls(module, flow, parent, calls)
        case ast.FunctionDef() | ast.AsyncFunctionDef() if use in parent.decorator_list:
            pass
        case ast.Assign(targets=[ast.Name() as target]) | ast.AnnAssign(target=ast.Name() as target):
            if module.scope_of(target) is module.module_scope:
                flow.names.add(target.id)
            for name, sure in readers(module, target, target.id):
                if sure:
                    _follow_partial(module, flow, partial, name)
                else:
                    flow.escapes.append(Escape(name, "may be bound to something else", partial))
        case _:
            flow.escapes.append(Escape(use, "is completed out of view", partial))


def names_in_all(module: Module) -> set[str]:
    """The names that ``__all__`` lists."""
    found: set[str] = set()
    for statement in module.tree.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                | ast.AugAssign(target=ast.Name(id="__all__"), value=value)
            ):
                found.update(
                    node.value
                    for node in ast.walk(value)
                    if isinstance(node, ast.Constant) and isinstance(node.value, str)
                )
    return found


def importers(module: Module, names: set[str]) -> list[str]:
    """The files of the project that take one of the module-level ``names`` from ``module``."""
    found = []
    own = os.path.abspath(module.path)
    for name in sorted(names):
        for path in module.project.mentioning(name):
            if os.path.abspath(path) == own or path in found:
                continue
            other = module.project.module_at(path)
            if other is not None and _takes(other, name, own):
                found.append(path)
    return found


def _takes(other: Module, name: str, path: str) -> bool:
    find = other.project.find
    for imported in other.imports:
        if isinstance(imported.statement, ast.ImportFrom):
            base = "." * imported.statement.level + (imported.statement.module or "")
            if imported.alias.name in (name, "*") and find(base, other.path) == path:
                return True
        if find(imported.dotted, other.path) == path and any(
            node.attr == name and module_of(node.value) == imported.bound for node in other.nodes(ast.Attribute)
        ):
            return True
    return False


def module_of(node: ast.expr) -> str | None:
    """The name that a dotted expression starts with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
