"""What is written where JAX wants a sharding: a string, a tuple, a list, or something that is right.

A reading follows names, attributes, dict entries, conditional expressions, dataclass fields and constants of sibling
modules to the places where the values are written. It keeps the difference that :mod:`shardfix.semantics.values` does
not need: between a value that is certainly wrong and one that only may be.
"""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from shardfix.semantics.definitions import FunctionNode, returns
from shardfix.semantics.values import Dict, JaxObject, Mesh, Sequence, Sharding, Spec, Text
from shardfix.semantics.written_values import values_behind

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

__all__ = ["Kind", "Leaf", "Reading", "joined", "leaf_nodes", "leaves", "read", "substituted"]

Entry = str | None | tuple[str, ...] | EllipsisType
MAX_DEPTH = 10
SPECS = frozenset(
    {"jax.sharding.PartitionSpec", "jax.P", "jax.experimental.PartitionSpec", "jax.interpreters.pxla.PartitionSpec"}
)
SHARDINGS = frozenset(
    {
        "jax.sharding.NamedSharding",
        "jax.NamedSharding",
        "jax.sharding.SingleDeviceSharding",
        "jax.sharding.PositionalSharding",
        "jax.sharding.make_single_device_sharding",
        "jax.experimental.layout.Format",
    }
)


class Kind(enum.StrEnum):
    """What an expression gives, where that is certain."""

    TEXT = "string"
    TUPLE = "tuple"
    LIST = "list"
    MAPPING = "dict"
    MIXED = "string or tuple"
    """One or the other, by the path taken."""
    NONE = "None"
    RIGHT = "right"
    """A PartitionSpec, a sharding, a device, or anything else that is neither string nor container."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Reading:
    """What is known of an expression that stands where JAX wants a sharding."""

    kind: Kind
    entries: tuple[Entry, ...] | None = None
    """For strings and sequences: the entries of the spec they stand for; ``...`` for one that is not known."""
    optional: bool = False
    """Whether the value may also be None."""
    holds_leaves: bool = False
    """For sequences: whether an element is itself a spec, a sharding or a container of them (it is a pytree)."""

    @property
    def is_sequence(self) -> bool:
        return self.kind in (Kind.TUPLE, Kind.LIST)

    @property
    def is_wrong(self) -> bool:
        """Whether JAX takes it for neither a sharding nor a spec."""
        return self.kind in (Kind.TEXT, Kind.MIXED) or self.is_sequence

    @property
    def axes(self) -> frozenset[str] | None:
        """The mesh axes that the spec would name; None where one is not known."""
        if self.entries is None or ... in self.entries:
            return None
        names: set[str] = set()
        for entry in self.entries:
            names.update(entry if isinstance(entry, tuple) else [entry] if isinstance(entry, str) else [])
        return frozenset(names)


UNKNOWN = Reading(Kind.UNKNOWN)
RIGHT = Reading(Kind.RIGHT)
NONE = Reading(Kind.NONE)
MIXED = Reading(Kind.MIXED)


_READINGS: WeakKeyDictionary[Module, dict[ast.expr, Reading]] = WeakKeyDictionary()


def read(module: Module, expression: ast.expr, depth: int = 0) -> Reading:
    """What ``expression`` gives where it stands."""
    known = _READINGS.setdefault(module, {})
    if expression not in known:
        reading = _read(module, expression, depth)
        if depth:
            return reading  # it may have been cut short
        known[expression] = reading
    return known[expression]


def _read(module: Module, expression: ast.expr, depth: int) -> Reading:
    match expression:
        case ast.Constant(value=str() as text):
            return Reading(Kind.TEXT, (text,))
        case ast.Constant(value=None):
            return NONE
        case ast.Constant():
            return RIGHT
        case ast.JoinedStr():
            return Reading(Kind.TEXT, (...,))
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return _read_display(module, expression, elements, depth)
        case ast.Dict() | ast.DictComp():
            return Reading(Kind.MAPPING)
        case ast.ListComp():
            return Reading(Kind.LIST, None, holds_leaves=_may_hold_leaves(module, expression.elt, depth))
        case ast.IfExp(body=body, orelse=orelse):
            return joined([read(module, body, depth + 1), read(module, orelse, depth + 1)])
        case ast.NamedExpr(value=value):
            return read(module, value, depth + 1)
        case ast.BoolOp(op=ast.Or(), values=[*firsts, last]):
            readings = [replace(read(module, first, depth + 1), optional=False) for first in firsts]
            return joined(
                [*(first for first in readings if first.kind is not Kind.NONE), read(module, last, depth + 1)]
            )
        case ast.BinOp():
            return _read_operation(module, expression, depth)
        case ast.Call():
            return _read_call(module, expression, depth)
        case ast.Name() if _is_star_parameter(module, expression):
            return Reading(Kind.TUPLE)
        case ast.Name() | ast.Attribute() | ast.Subscript() if depth < MAX_DEPTH:
            behind = values_behind(module, expression, depth)
            if behind:
                return joined([read(where, value, depth + 1) for where, value in behind])
    return _read_value(module, expression)


def _is_star_parameter(module: Module, name: ast.Name) -> bool:
    """Whether a name is the ``*`` parameter of a function: a tuple, always."""
    bindings = module.reaching(name) or []
    return bool(bindings) and all(
        binding.kind == "parameter"
        and isinstance(binding.statement, FunctionNode)
        and binding.node is binding.statement.args.vararg
        for binding in bindings
    )


def _read_display(module: Module, node: ast.expr, elements: list[ast.expr], depth: int) -> Reading:
    kind = Kind.TUPLE if isinstance(node, ast.Tuple) else Kind.LIST
    entries: list[Entry] | None = []
    leaves_inside = False
    for element in elements:
        if isinstance(element, ast.Starred):
            entries = None
            continue
        inner = read(module, element, depth + 1)
        entry: Entry = ...
        match inner:
            case Reading(kind=Kind.TEXT, entries=(name,), optional=False):
                entry = name
            case Reading(kind=Kind.NONE):
                entry = None
            case Reading(kind=Kind.TUPLE | Kind.LIST, entries=tuple() as parts, optional=False) if (
                not inner.holds_leaves
            ):
                if all(isinstance(part, str) for part in parts):
                    entry = tuple(part for part in parts if isinstance(part, str))
                elif any(part is None or isinstance(part, tuple) for part in parts):
                    leaves_inside = True  # ("x", None) inside a tuple is no entry: it is a spec of its own
            case Reading(kind=Kind.RIGHT | Kind.MAPPING):
                leaves_inside = True
        if entries is not None:
            entries.append(entry)
    return Reading(kind, None if entries is None else tuple(entries), holds_leaves=leaves_inside)


def _may_hold_leaves(module: Module, element: ast.expr, depth: int) -> bool:
    return read(module, element, depth + 1).kind not in (Kind.TEXT, Kind.NONE)


def _read_operation(module: Module, node: ast.BinOp, depth: int) -> Reading:
    left, right = read(module, node.left, depth + 1), read(module, node.right, depth + 1)
    match node.op:
        case ast.Add() if left.kind == right.kind and left.is_sequence and not left.optional and not right.optional:
            entries = left.entries + right.entries if left.entries is not None and right.entries is not None else None
            return Reading(left.kind, entries, holds_leaves=left.holds_leaves or right.holds_leaves)
        case ast.Add() | ast.Mod() if left.kind is Kind.TEXT and not left.optional:
            return Reading(Kind.TEXT, (...,))
        case ast.Mult() if left.is_sequence and not left.optional:
            count = node.right.value if isinstance(node.right, ast.Constant) else None
            known = isinstance(count, int) and left.entries is not None and count <= 16
            return replace(left, entries=left.entries * count if known and left.entries is not None else None)  # type: ignore[operator]
    return _read_value(module, node)


def _read_call(module: Module, node: ast.Call, depth: int) -> Reading:
    names = module.resolve(node.func)
    if names & (SPECS | SHARDINGS):
        return RIGHT
    if names == {"builtins.tuple"} or names == {"builtins.list"}:
        kind = Kind.TUPLE if names == {"builtins.tuple"} else Kind.LIST
        if len(node.args) != 1:
            return Reading(kind, ())
        inner = read(module, node.args[0], depth + 1)
        if inner.is_sequence:
            return Reading(kind, inner.entries, holds_leaves=inner.holds_leaves)
        element = node.args[0].elt if isinstance(node.args[0], ast.GeneratorExp) else None
        return Reading(kind, None, holds_leaves=element is not None and _may_hold_leaves(module, element, depth))
    if names == {"builtins.str"}:
        return Reading(Kind.TEXT, (...,))
    definition = module.definition(node.func)
    function = definition[1] if definition is not None else None
    if definition is not None and isinstance(function, ast.FunctionDef) and depth < MAX_DEPTH:
        other = definition[0]
        if not function.decorator_list and not any(
            isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(function)
        ):
            results = [statement.value for statement in returns(function)]
            if results and all(result is not None for result in results) and not _falls_through(function):
                return joined([read(other, result, depth + 1) for result in results if result is not None])
        return UNKNOWN
    return _read_value(module, node)


def _falls_through(function: ast.FunctionDef) -> bool:
    last = function.body[-1]
    return not isinstance(last, ast.Return | ast.Raise) and not (
        isinstance(last, ast.If)
        and last.orelse
        and all(isinstance(block[-1], ast.Return | ast.Raise) for block in (last.body, last.orelse))
    )


def _read_value(module: Module, expression: ast.expr) -> Reading:
    """What the interpreter knows."""
    match module.value_of(expression):
        case Text(value=text):
            return Reading(Kind.TEXT, (text if text is not None else ...,))
        case Sequence(items=None, kind="tuple" | "list" as kind, rest=rest):
            return Reading(Kind(kind), None, holds_leaves=not isinstance(rest, Text))
        case Sequence(items=tuple() as items, kind="tuple" | "list" as kind):
            entries: list[Entry] = []
            inside = False
            for item in items:
                match item:
                    case Text(value=str() as name):
                        entries.append(name)
                    case Sequence(items=tuple() as parts) if all(
                        isinstance(part, Text) and part.value for part in parts
                    ):
                        entries.append(tuple(part.value or "" for part in parts if isinstance(part, Text)))
                    case Spec() | Sharding() | Dict() | Sequence():
                        inside = True
                        entries.append(...)
                    case value:
                        entries.append(
                            None if getattr(value, "value", ...) is None and not isinstance(value, Text) else ...
                        )
            return Reading(Kind(kind), tuple(entries), holds_leaves=inside)
        case Dict():
            return Reading(Kind.MAPPING)
        case Spec() | Sharding() | Mesh() | JaxObject():
            return RIGHT
    return UNKNOWN


def joined(readings: list[Reading]) -> Reading:
    """What holds of all; None beside one other kind makes it optional."""
    if any(reading.kind is Kind.UNKNOWN for reading in readings):
        return UNKNOWN
    optional = any(reading.kind is Kind.NONE or reading.optional for reading in readings)
    rest = [reading for reading in readings if reading.kind is not Kind.NONE]
    if not rest:
        return NONE
    if any(reading.kind is not rest[0].kind for reading in rest):
        return MIXED if all(reading.is_wrong for reading in rest) else UNKNOWN
    entries = rest[0].entries if all(reading.entries == rest[0].entries for reading in rest) else None
    if rest[0].kind is Kind.TEXT and entries is None:
        entries = (...,)
    return Reading(rest[0].kind, entries, optional, any(reading.holds_leaves for reading in rest))


# Parts of an expression that can be rewritten where they stand


@dataclass(frozen=True, eq=False)
class Leaf:
    """A part of an expression that gives its value on some path."""

    node: ast.expr
    reading: Reading


def leaves(module: Module, expression: ast.expr) -> list[Leaf]:
    """The parts of conditional expressions and of ``and``/``or`` that may be the value of ``expression``."""
    return [Leaf(node, read(module, node)) for node in leaf_nodes(expression)]


def leaf_nodes(expression: ast.expr) -> list[ast.expr]:
    """The expressions of :func:`leaves`."""
    match expression:
        case ast.IfExp(body=body, orelse=orelse):
            return leaf_nodes(body) + leaf_nodes(orelse)
        case ast.BoolOp(op=ast.Or(), values=values):
            return [node for value in values for node in leaf_nodes(value)]
        case ast.BoolOp(op=ast.And(), values=values):
            return leaf_nodes(values[-1])
        case ast.NamedExpr():
            return []
    return [expression]


def substituted(module: Module, expression: ast.expr, replacements: dict[ast.expr, str]) -> str:
    """The text of ``expression`` with the text of some of its parts replaced."""
    start, end = module.span(expression)
    pieces: list[str] = []
    position = start
    for node, code in sorted(replacements.items(), key=lambda item: module.span(item[0])):
        first, last = module.span(node)
        pieces += [module.source[position:first], code]
        position = last
    pieces.append(module.source[position:end])
    return "".join(pieces)
