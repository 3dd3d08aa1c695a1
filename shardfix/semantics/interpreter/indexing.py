"""Indexing, slicing and unpacking."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shardfix.semantics import rank_rules
from shardfix.semantics.interpreter.records import record_fields
from shardfix.semantics.interpreter.trace import Environment
from shardfix.semantics.interpreter.trees import leaf_of
from shardfix.semantics.values import (
    UNKNOWN,
    Array,
    BoundMethod,
    Constant,
    Dict,
    Instance,
    Sequence,
    Spec,
    Text,
    Tree,
    Value,
    as_array,
    join,
    join_all,
)

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter


def subscript(interpreter: Interpreter, node: ast.Subscript, environment: Environment) -> Value:
    owner = interpreter.evaluate(node.value, environment)
    if isinstance(owner, BoundMethod):
        updated = BoundMethod(leaf_of(owner.owner), owner.name)
        return rank_rules.index(updated, index_value(interpreter, node.slice, environment)) or UNKNOWN
    key = interpreter.evaluate(node.slice, environment) if not isinstance(node.slice, ast.Slice) else UNKNOWN
    match owner:
        case Sequence():
            if isinstance(node.slice, ast.Slice):
                return _sliced(interpreter, owner, node.slice, environment)
            return (
                element_of(owner, key.value)
                if isinstance(key, Constant) and isinstance(key.value, int)
                else (join_all(owner.items) if owner.items else owner.rest)
            )
        case Dict():
            found = owner.get(key.value) if isinstance(key, Constant | Text) else None
            return found if found is not None else UNKNOWN
        case Array():
            return rank_rules.index(owner, index_value(interpreter, node.slice, environment)) or Array(
                varying=owner.varying
            )
        case Tree():
            if isinstance(key, Text):
                return owner
            indexed = as_array(
                rank_rules.index(owner.leaf, index_value(interpreter, node.slice, environment))
                or Array(varying=owner.leaf.varying)
            )
            return Tree(as_array(join(indexed, owner.leaf)))
        case Instance() if isinstance(key, Constant) and isinstance(key.value, int):
            return element_of(owner, key.value)
        case Spec(entries=tuple() as entries) if isinstance(key, Constant) and isinstance(key.value, int):
            if -len(entries) <= key.value < len(entries) and entries[key.value] is not ...:
                return entry_value(entries[key.value])
    return UNKNOWN


def index_value(interpreter: Interpreter, node: ast.expr, environment: Environment) -> Value:
    """An index as a value: slices are ``Constant(slice)``, tuples keep their items."""
    match node:
        case ast.Slice():
            return Constant(slice(None))
        case ast.Tuple():
            if any(isinstance(element, ast.Starred) for element in node.elts):
                return UNKNOWN
            return Sequence(tuple(index_value(interpreter, element, environment) for element in node.elts))
    return interpreter.evaluate(node, environment)


def _sliced(interpreter: Interpreter, owner: Sequence, node: ast.Slice, environment: Environment) -> Value:
    bounds = [
        None if part is None else interpreter.evaluate(part, environment)
        for part in (node.lower, node.upper, node.step)
    ]
    if owner.items is None:
        return owner
    if all(bound is None or (isinstance(bound, Constant) and isinstance(bound.value, int | None)) for bound in bounds):
        parts = [None if bound is None else bound.value for bound in bounds]  # type: ignore[attr-defined]
        return replace(owner, items=owner.items[slice(*parts)])
    return Sequence(None, owner.kind, join_all(owner.items) if owner.items else UNKNOWN)


def element_of(value: Value, position: int) -> Value:
    """What unpacking or constant indexing gives."""
    match value:
        case Sequence(items=None):
            return value.rest
        case Sequence(items=tuple() as items):
            return items[position] if -len(items) <= position < len(items) else UNKNOWN
        case Array():
            return rank_rules.index(value, Constant(0)) or Array(varying=value.varying)
        case Tree():
            indexed = as_array(rank_rules.index(value.leaf, Constant(0)) or Array(varying=value.leaf.varying))
            return Tree(as_array(join(indexed, value.leaf)))
        case Instance():
            fields = record_fields(value.cls)
            if fields is not None and -len(fields) <= position < len(fields):
                return value.get(fields[position].name) or UNKNOWN
    return UNKNOWN


def entry_value(entry: Any) -> Value:
    if entry is None:
        return Constant(None)
    if isinstance(entry, tuple):
        return Sequence(tuple(Text(name) for name in entry))
    return Text(entry)
