"""Which values hold a container that is changed in place.

Values are immutable; a list that grows is a new value that takes the place of the old one wherever that is held.
Two names of one list hold the same Python object, so that identity tells aliases apart from equals.
"""

from __future__ import annotations

from dataclasses import replace

from shardfix.semantics.values import UNKNOWN, BoundMethod, Dict, Instance, Partial, Sequence, Value, join

DEEPEST = 4
"""Containers inside containers that are looked into."""


def held(value: Value, part: Value, depth: int = 0) -> bool:
    """Whether ``part``, the very object, is in ``value``."""
    if value is part:
        return True
    if value.__class__ not in HOLDERS or depth == DEEPEST:
        return False
    depth += 1
    for inner in inner_values(
        value
    ):  # asked of every variable at every change: most hold nothing, and are not called for
        if inner is part or (inner.__class__ in HOLDERS and held(inner, part, depth)):
            return True
    return False


HOLDERS = frozenset({Sequence, Dict, Instance, BoundMethod, Partial})


def inner_values(value: Value) -> tuple[Value, ...]:
    """The values that ``value`` holds."""
    match value:
        case Sequence():
            return value.items if value.items is not None else (value.rest,)
        case Dict():
            return tuple(item for _, item in value.items)
        case Instance():
            return tuple(item for _, item in value.attributes)
        case BoundMethod():
            return (value.owner,)
        case Partial():
            return (value.function, *value.arguments, *(item for _, item in value.keywords))
    return ()


def substituted(value: Value, part: Value, new: Value) -> Value:
    """``value`` with ``new`` in the place of ``part``, the very object."""
    if value is part:
        return new
    if not held(value, part):
        return value

    def inner(item: Value) -> Value:
        return substituted(item, part, new)

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
        case Partial():
            keywords = tuple((name, inner(item)) for name, item in value.keywords)
            return Partial(inner(value.function), tuple(map(inner, value.arguments)), keywords)
    return UNKNOWN
