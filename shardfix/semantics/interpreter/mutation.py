"""Containers that are changed in place: what a change leaves of them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from shardfix.semantics.interpreter.trees import iterated
from shardfix.semantics.module import MUTATORS
from shardfix.semantics.values import (
    UNKNOWN,
    Constant,
    Dict,
    Instance,
    Sequence,
    Text,
    Value,
    join,
    join_all,
)

LONGEST = 64
"""Items of a list that are kept apart."""


@lru_cache(maxsize=1024)
def changes_outside(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    """Whether a function may change, in place, what is not an argument of its."""
    arguments = node.args
    own = {argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    for inner in ast.walk(node):
        match inner:
            case ast.Nonlocal() | ast.Global():
                return True
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                if _root(inner) not in own:
                    return True
            case ast.Call(func=ast.Attribute(attr=name) as method) if name in MUTATORS and _root(method) not in own:
                return True
    return False


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def with_item(container: Value, key: Value, value: Value) -> Value:
    """What ``container[key] = value`` leaves of a container."""
    match container:
        case Dict():
            if isinstance(key, Text) and key.value is not None:
                name: object = key.value
            elif isinstance(key, Constant) and isinstance(key.value, int | float | bool | None):
                name = key.value
            else:
                return Dict((), complete=False)
            kept = tuple((known, item) for known, item in container.items if known != name)
            return Dict((*kept, (name, value)), container.complete)
        case Sequence(items=tuple() as items):
            if isinstance(key, Constant) and isinstance(key.value, int) and -len(items) <= key.value < len(items):
                position = key.value % len(items)
                return replace(container, items=(*items[:position], value, *items[position + 1 :]))
            if isinstance(key, Constant) and isinstance(key.value, slice):
                return Sequence(None, container.kind)
            return replace(container, items=tuple(join(item, value) for item in items))
        case Sequence():
            return replace(container, rest=join(container.rest, value))
        case Instance():
            return Instance(container.cls, changed=True)
    return UNKNOWN


def with_attribute(instance: Instance, name: str, value: Value) -> Instance:
    """What ``instance.name = value`` leaves of an instance."""
    kept = tuple((known, item) for known, item in instance.attributes if known != name)
    return Instance(instance.cls, (*kept, (name, value)), instance.changed)


def changed_by_method(
    owner: Value, name: str, arguments: tuple[Value, ...], keywords: Mapping[str, Value], exact: bool
) -> tuple[Value, Value] | None:
    """What a method gives, and what it leaves of its owner; None for methods that change nothing."""
    given = arguments if exact else (*arguments, UNKNOWN, UNKNOWN)
    match owner:
        case Sequence(kind="list" | "set"):
            return _changed_sequence(owner, name, given)
        case Dict():
            return _changed_dict(owner, name, given, keywords, exact)
    return None


def _changed_sequence(owner: Sequence, name: str, given: tuple[Value, ...]) -> tuple[Value, Value] | None:
    nothing = Constant(None)
    items = owner.items
    match name, given:
        case "append", (item,) if items is not None and len(items) < LONGEST:
            return nothing, replace(owner, items=(*items, item))
        case "extend", (Sequence(items=tuple() as more),) if items is not None and len(items) + len(more) <= LONGEST:
            return nothing, replace(owner, items=(*items, *more))
        case ("append" | "add", (item, *_)) | ("insert", (_, item, *_)):
            return nothing, _of_any_length(owner, item)
        case (("extend" | "update"), _):
            return nothing, _of_any_length(owner, *map(iterated, given))
        case "pop", () if items:
            return items[-1], replace(owner, items=items[:-1])
        case "pop", _:
            return join_all(items or (owner.rest,)), _of_any_length(owner)
        case "clear", _:
            return nothing, replace(owner, items=())
        case "reverse", _ if items is not None:
            return nothing, replace(owner, items=items[::-1])
        case (("remove" | "discard" | "sort" | "reverse"), _):
            return nothing, _of_any_length(owner)
    return None


def _of_any_length(owner: Sequence, *more: Value) -> Sequence:
    known = (owner.rest,) if owner.items is None else owner.items
    return Sequence(None, owner.kind, join_all((*known, *more)))


def _changed_dict(
    owner: Dict, name: str, given: tuple[Value, ...], keywords: Mapping[str, Value], exact: bool
) -> tuple[Value, Value] | None:
    nothing = Constant(None)
    unknown = Dict((), complete=False)
    match name, given:
        case "update", () if exact:
            return nothing, Dict(tuple((dict(owner.items) | dict(keywords)).items()), owner.complete)
        case "update", (Dict(complete=True) as more,) if exact:
            entries = dict(owner.items) | dict(more.items) | dict(keywords)
            return nothing, Dict(tuple(entries.items()), owner.complete)
        case "setdefault", (Text(value=str() as key), *default):
            found = owner.get(key)
            if found is not None:
                return found, owner
            value = default[0] if default else nothing
            if owner.complete:
                return value, with_item(owner, given[0], value)
            return UNKNOWN, with_item(owner, given[0], UNKNOWN)
        case "pop", (Text(value=str() as key), *_):
            left = tuple((known, item) for known, item in owner.items if known != key)
            return owner.get(key) or UNKNOWN, Dict(left, owner.complete)
        case (("update" | "setdefault" | "pop" | "popitem"), _):
            return (nothing if name == "update" else UNKNOWN), unknown
        case "clear", _:
            return nothing, Dict(())
    return None
