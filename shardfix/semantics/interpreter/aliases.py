"""Which values hold a container that is changed in place.

Values are immutable; a list that grows is a new value that takes the place of the old one wherever that is held.
Two names of one list hold the same Python object, so that identity tells aliases apart from equals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from shardfix.semantics.values import (
    UNKNOWN,
    BoundMethod,
    Dict,
    Function,
    Instance,
    Partial,
    Sequence,
    Transformed,
    Value,
    join,
)

DEEPEST = 5
"""Containers inside containers that are looked into; what is deeper may hold anything."""
HOLDERS = frozenset({Sequence, Dict, Instance, BoundMethod, Partial, Function, Transformed})
CONTAINERS = frozenset({Sequence, Dict, Instance})
"""Those of them that may be changed in place (tuples besides)."""


def held(value: Value, part: Value, depth: int = 0) -> bool:
    """Whether ``part``, the very object, may be in ``value``."""
    if value is part:
        return True
    if value.__class__ not in HOLDERS:
        return False
    if depth == DEEPEST:
        return True
    depth += 1
    for inner in inner_values(value):  # noqa: SIM110 - asked of every variable at every change, and faster than any()
        if inner is part or (inner.__class__ in HOLDERS and held(inner, part, depth)):
            return True
    return False


def inner_values(value: Value) -> tuple[Value, ...]:
    """The values that ``value`` holds."""
    match value:
        case Sequence():
            return value.items if value.items is not None else (value.rest,)
        case Dict():
            return tuple([item for _, item in value.items])
        case Instance():
            return tuple([item for _, item in value.attributes])
        case BoundMethod():
            return (value.owner,)
        case Function():
            return () if value.bound_self is None else (value.bound_self,)
        case Transformed():
            return (value.function, *value.arguments)
        case Partial():
            return (value.function, *value.arguments, *[item for _, item in value.keywords])
    return ()


def of_its_kind(container: Value) -> Value:
    """What is known of a container that may have been changed in any way, and may be changed further unseen."""
    match container:
        case Sequence(kind="tuple") if not any(map(is_changeable, container.items or (container.rest,))):
            return container
        case Sequence():
            return Sequence(None, container.kind)
        case Dict():
            return Dict((), complete=False)
        case Instance():
            return Instance(container.cls, changed=True)
    return UNKNOWN


def is_changeable(value: Value) -> bool:
    """Whether a value may be changed in place."""
    return isinstance(value, Dict | Instance) or (isinstance(value, Sequence) and value.kind in ("list", "set"))


def substituted(value: Value, part: Value, new: Value, memo: dict[int, Value], depth: int = 0) -> Value:
    """``value`` with ``new`` in the place of ``part``, the very object. Under one ``memo`` aliases stay aliases."""
    if value is part:
        return new
    if not held(value, part, depth):
        return value
    if depth == DEEPEST:
        return UNKNOWN
    if id(value) not in memo:
        memo[id(value)] = _with_inner(value, part, new, memo, depth + 1)
    return memo[id(value)]


def _with_inner(value: Value, part: Value, new: Value, memo: dict[int, Value], depth: int) -> Value:
    def inner(item: Value) -> Value:
        return substituted(item, part, new, memo, depth)

    match value:
        case Sequence(items=None):
            return replace(value, rest=join(value.rest, inner(value.rest)))
        case Sequence(items=tuple() as items):
            return replace(value, items=tuple(map(inner, items)))
        case Dict():
            return replace(value, items=tuple((key, inner(item)) for key, item in value.items))
        case Instance():
            return replace(value, attributes=tuple((name, inner(item)) for name, item in value.attributes))
        case BoundMethod():
            return replace(value, owner=inner(value.owner))
        case Function(bound_self=Value() as owner):
            return replace(value, bound_self=inner(owner))
        case Transformed():
            return replace(value, function=inner(value.function), arguments=tuple(map(inner, value.arguments)))
        case Partial():
            keywords = tuple((name, inner(item)) for name, item in value.keywords)
            return Partial(inner(value.function), tuple(map(inner, value.arguments)), keywords)
    return UNKNOWN


def shared_containers(values: Iterable[Value]) -> frozenset[int]:
    """The ids of the containers that are held in more places than one."""
    places: Counter[int] = Counter()

    def visit(value: Value, depth: int) -> None:
        if value.__class__ not in HOLDERS or depth > DEEPEST:
            return
        if value.__class__ in CONTAINERS:
            places[id(value)] += 1
            if places[id(value)] > 1:
                return
        for inner in inner_values(value):
            visit(inner, depth + 1)

    for value in values:
        visit(value, 0)
    return frozenset(place for place, count in places.items() if count > 1)


def holds_any(value: Value, ids: frozenset[int], depth: int = 0) -> bool:
    """Whether a container of these is in ``value``."""
    if value.__class__ not in HOLDERS or depth > DEEPEST:
        return False
    return id(value) in ids or any(holds_any(inner, ids, depth + 1) for inner in inner_values(value))
