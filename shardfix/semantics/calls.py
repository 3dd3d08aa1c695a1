"""Calls of JAX's functions, with their arguments wherever they are written: positional, keyword, partial, ``**dict``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

__all__ = ["Argument", "Call", "collect_calls"]

PARTIALS = frozenset({"functools.partial", "jax.tree_util.Partial"})


@dataclass(frozen=True, eq=False)
class Argument:
    """One argument of a call."""

    name: str | None
    """The keyword; None for a positional argument."""
    index: int | None
    """The position among the callee's positional arguments; None for a keyword."""
    value: ast.expr
    owner: ast.Call | ast.Dict
    """Where it is written: the call, an earlier ``partial(...)``, or the dict that ``**`` spreads."""
    direct: bool = True
    """Whether it is written in the call node itself."""


@dataclass(frozen=True, eq=False)
class Call:
    """A call, as written, of something outside the project."""

    module: Module = field(repr=False)
    node: ast.Call
    """The call as it is written; ``partial(f, ...)`` itself where ``is_partial``."""
    dotted: str
    function: ast.expr
    """The expression that names the callee (the first argument of a partial)."""
    is_partial: bool = False
    earlier: Call | None = None
    """The partial that this call completes."""

    @property
    def is_plain(self) -> bool:
        """Whether all that reaches the callee is written in this node: no partial before or in it, no ``*`` and no ``**``."""
        spreads = any(isinstance(value, ast.Starred) for value in self.node.args)
        return not (self.is_partial or self.earlier or spreads or any(one.arg is None for one in self.node.keywords))

    @property
    def own_arguments(self) -> list[ast.expr]:
        """The positional arguments written in this node that reach the callee."""
        return self.node.args[1:] if self.is_partial else self.node.args

    def arguments(self) -> Iterator[Argument]:
        """All arguments that are known, those of an earlier partial first."""
        index = 0
        if self.earlier is not None:
            for argument in self.earlier.arguments():
                if argument.index is not None:
                    index = max(index, argument.index + 1)
                yield Argument(argument.name, argument.index, argument.value, argument.owner, direct=False)
        for value in self.own_arguments:
            if isinstance(value, ast.Starred):
                break
            yield Argument(None, index, value, self.node)
            index += 1
        for keyword in self.node.keywords:
            if keyword.arg is not None:
                yield Argument(keyword.arg, None, keyword.value, self.node)
            else:
                yield from self._spread(keyword.value)

    def _spread(self, value: ast.expr) -> Iterator[Argument]:
        """The entries of ``**value`` where it is a dict display or ``dict(...)`` in view, written once and never changed."""
        found = spread_dict(self.module, value)
        if isinstance(found, ast.Dict):
            for key, item in zip(found.keys, found.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield Argument(key.value, None, item, found, direct=False)
        elif isinstance(found, ast.Call):
            for keyword in found.keywords:
                if keyword.arg is not None:
                    yield Argument(keyword.arg, None, keyword.value, found, direct=False)

    def argument(self, name: str, index: int | None = None) -> Argument | None:
        """The argument given as keyword ``name``, or at position ``index``; the last one wins, as in Python."""
        found = None
        for argument in self.arguments():
            if argument.name == name or (index is not None and argument.index == index):
                found = argument
        return found

    def value(self, name: str, index: int | None = None) -> ast.expr | None:
        """The expression given for an argument."""
        argument = self.argument(name, index)
        return None if argument is None else argument.value

    @property
    def has_hidden_arguments(self) -> bool:
        """Whether ``*`` or ``**`` pass arguments that are not in view."""
        if any(isinstance(value, ast.Starred) for value in self.node.args):
            return True
        if self.earlier is not None and self.earlier.has_hidden_arguments:
            return True
        return any(
            keyword.arg is None and not _fully_known(spread_dict(self.module, keyword.value))
            for keyword in self.node.keywords
        )


def spread_dict(module: Module, value: ast.expr, depth: int = 0) -> ast.Dict | ast.Call | None:
    """The dict display or ``dict(...)`` call that ``value`` is bound to, if it is bound once and nothing changes it."""
    if depth > 8:
        return None
    if isinstance(value, ast.Dict):
        return value
    if isinstance(value, ast.Call) and module.resolve(value.func) == {"builtins.dict"} and not value.args:
        return value
    if isinstance(value, ast.Name):
        bindings = module.reaching(value)
        known = module.scope_of(value).lookup(value.id)
        if not bindings or known is None or len(known[1]) != 1 or bindings[0].value is None or bindings[0].path:
            return None
        if bindings[0].kind != "assignment" or _is_changed(module, value.id):
            return None
        return spread_dict(module, bindings[0].value, depth + 1)
    return None


def _is_changed(module: Module, name: str) -> bool:
    """Whether anything in the file may change the dict called ``name`` in place, or lets it out of sight."""
    for node in module.nodes(ast.Name):
        if node.id != name or isinstance(node.ctx, ast.Store):
            continue
        parent = module.parent(node)
        match parent:
            case ast.Subscript(ctx=ast.Load()) | ast.keyword(arg=None) | ast.Dict():
                continue
            case ast.Attribute(attr="get" | "items" | "keys" | "values" | "copy"):
                continue
        return True
    return False


def _fully_known(found: ast.Dict | ast.Call | None) -> bool:
    if isinstance(found, ast.Dict):
        return all(isinstance(key, ast.Constant) for key in found.keys)
    return isinstance(found, ast.Call) and all(keyword.arg is not None for keyword in found.keywords)


def collect_calls(module: Module) -> dict[str, list[Call]]:
    """All calls of things outside the project by the callee's dotted name, in source order."""
    found: dict[str, list[Call]] = {}
    partials: dict[ast.Call, list[Call]] = {}

    def add(call: Call) -> None:
        found.setdefault(call.dotted, []).append(call)

    for node in module.nodes(ast.Call):
        names = module.resolve(node.func)
        for dotted in names:
            add(Call(module, node, dotted, node.func))
        if names & PARTIALS and node.args:
            calls = [Call(module, node, dotted, node.args[0], True) for dotted in module.resolve(node.args[0])]
            partials[node] = calls
            for call in calls:
                add(call)
    if partials:
        for node in module.nodes(ast.Call):
            origin = _partial_behind(module, node.func, partials)
            for call in partials.get(origin, ()) if origin is not None else ():
                add(Call(module, node, call.dotted, call.function, False, call))
        for calls in found.values():
            calls.sort(key=lambda call: (call.node.lineno, call.node.col_offset, -(call.node.end_col_offset or 0)))
    return found


def _partial_behind(module: Module, function: ast.expr, partials: dict[ast.Call, list[Call]]) -> ast.Call | None:
    """The ``partial(...)`` that a called expression is: written on the spot, or bound to a name once."""
    for _ in range(8):
        if isinstance(function, ast.Call):
            return function if function in partials else None
        if not isinstance(function, ast.Name):
            return None
        bindings = module.reaching(function)
        if not bindings or len(bindings) != 1 or bindings[0].kind != "assignment" or bindings[0].path:
            return None
        if bindings[0].value is None:
            return None
        function = bindings[0].value
    return None
