"""Runs that need not be done again: of functions of a module, with arguments they were run with before.

A run may be left out only if it gives nothing but its result: it changed no container that lives outside it, was seen
mapping nothing, and was not cut short for want of depth. The result must be a value that has no identity, for two calls
that make a list make two lists.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from shardfix.semantics.interpreter.aliases import inner_values
from shardfix.semantics.interpreter.invocation import Arguments
from shardfix.semantics.values import (
    Array,
    Class,
    Constant,
    Dict,
    Function,
    Instance,
    JaxObject,
    Mesh,
    ModuleValue,
    Number,
    Sequence,
    Sharding,
    Spec,
    Text,
    Tree,
    Unknown,
    Value,
)

__all__ = ["NOWHERE", "OUTSIDE", "Repeats", "is_plain", "run_key", "value_key"]

OUTSIDE = -1
NOWHERE = 1 << 30
"""Numbers of frames for what lies around all of them, and for none."""
MOST = 20_000
"""Runs that are remembered."""
DEEPEST = 5
"""Values inside values that are looked into for what a run may depend on."""
LONGEST = 40
"""Links of the chain that says where an array comes from."""
WITHOUT_PARTS = frozenset({Unknown, Number, Text, Spec, Mesh, JaxObject, ModuleValue, Class})


@dataclass
class Repeats:
    """The results of earlier runs. What their keys name by identity is kept alive with them."""

    _known: dict[Hashable, tuple[tuple[Value, int], tuple[object, ...]]] = field(default_factory=dict)
    _too_dear: dict[Hashable, tuple[int, tuple[object, ...]]] = field(default_factory=dict)

    def result(self, key: Hashable) -> tuple[Value, int] | None:
        """The result of the run with this key and what it cost; None where there was none."""
        known = self._known.get(key)
        return None if known is None else known[0]

    def remember(self, key: Hashable, result: Value, cost: int, *alive: object) -> None:
        """Keep the result of a run whose only effect it is."""
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[key] = (result, cost), alive

    def more_than(self, key: Hashable) -> int:
        """What a run with this key costs at least, as far as earlier ones that were given up have shown."""
        known = self._too_dear.get(key)
        return 0 if known is None else known[0]

    def remember_too_dear(self, key: Hashable, spent: int, *alive: object) -> None:
        """Note that a run with this key was given up for want of budget when it had cost that much."""
        if len(self._too_dear) >= MOST:
            self._too_dear.clear()
        if spent > self.more_than(key):
            self._too_dear[key] = spent, alive


def run_key(function: Function, given: Arguments, *more: Hashable) -> Hashable | None:
    """What decides how a run goes; None where that is more than its arguments: variables that may change meanwhile."""
    around = function.environment
    if around is not None and not (around.kept and around.parent is None):
        return None
    if function.defaults:
        return None
    parts: list[Hashable] = [function.node, given.exact, len(given.positional), tuple(given.keywords), *more]
    for value in (function.bound_self, given.missing, *given.positional, *given.keywords.values()):
        part = None if value is None else value_key(value)
        if part is None and value is not None:
            return None
        parts.append(part)
    return tuple(parts)


def value_key(value: Value, depth: int = 0) -> Hashable | None:
    """A key that tells values apart as far as a run can, by identity where it may be changed in place."""
    kind = value.__class__
    if kind in WITHOUT_PARTS:
        return value
    match value:
        case Constant(value=constant):
            # 1, 1.0 and True are equal; what is not hashable is told apart by identity.
            return (constant.__class__, constant if constant.__hash__ else id(constant))
        case Array():
            return _array_key(value)
        case Tree(leaf=leaf):
            return (kind, _array_key(leaf))
        case Sharding(mesh=mesh, spec=spec) if depth < DEEPEST:
            parts = value_key(mesh, depth + 1), value_key(spec, depth + 1)
            return None if None in parts else (kind, parts)
        case Function(environment=around) if around is None or (around.kept and around.parent is None):
            return None if value.defaults or value.bound_self is not None else (kind, value.node)
        case Sequence(items=tuple() as items, kind="tuple") if depth < DEEPEST:
            keys = tuple(value_key(item, depth + 1) for item in items)
            return None if None in keys else (kind, keys)
        case Sequence() | Dict() | Instance():
            return (kind, id(value)) if _is_settled(value, depth) else None
    return None


def _array_key(array: Array) -> Hashable | None:
    chain: list[Hashable] = []
    origin = array.origin
    while origin is not None:
        chain.append((origin.path, origin.line, origin.note))
        origin = origin.cause
        if len(chain) > LONGEST:
            return None
    return (array, tuple(chain))


def _is_settled(value: Value, depth: int) -> bool:
    """Whether a run that reads ``value`` can only see what is in it now: nothing in it is a closure."""
    if value.__class__ in WITHOUT_PARTS or value.__class__ in (Constant, Array, Tree):
        return True
    if depth >= DEEPEST:
        return False
    match value:
        case Sequence() | Dict() | Instance():
            return all(_is_settled(item, depth + 1) for item in inner_values(value))
    return value_key(value, depth) is not None


def is_plain(value: Value, depth: int = 0) -> bool:
    """Whether ``value`` has no identity: it is no container that may be changed, and no function, and holds none."""
    kind = value.__class__
    if kind in WITHOUT_PARTS or kind in (Constant, Array, Tree):
        return True
    match value:
        case Sharding(mesh=mesh, spec=spec):
            return is_plain(mesh) and is_plain(spec)
        case Sequence(items=tuple() as items, kind="tuple") if depth < DEEPEST:
            return all(is_plain(item, depth + 1) for item in items)
    return False
