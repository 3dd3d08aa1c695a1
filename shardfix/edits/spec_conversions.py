"""From strings, tuples and lists to the code of the PartitionSpecs that they stand for.

A string is one axis, a tuple or list a spec, a tuple inside it one dimension over several axes. Where JAX takes a pytree
of specs a tuple is that pytree, unless a string in it shows that it is none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.edits import named
from shardfix.semantics.jax_api import Takes
from shardfix.semantics.readings import Kind, Leaf, Reading, leaves, read, substituted
from shardfix.semantics.structures import ARRAY, UNKNOWN_STRUCTURE, Structure

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.semantics.sharding_arguments import ShardingArgument

__all__ = ["Conversion", "Problem", "convert", "leaves_of"]

SPEC = named("jax.sharding.PartitionSpec")


@dataclass(frozen=True)
class Conversion:
    """A part of an argument that is to become a PartitionSpec."""

    node: ast.expr
    spec: str
    """The spec as code."""
    reading: Reading
    guard: str = ""
    """Code of a name that may be None, in which case it stays None."""
    raw: bool = False
    """Whether ``spec`` is the whole code, and no spec that a mesh could be given to."""

    def code(self, sharding: str) -> str:
        """The code that takes the place of ``node``, given that of its sharding."""
        return f"None if {self.guard} is None else {sharding}" if self.guard else sharding


@dataclass(frozen=True)
class Problem:
    """A part of an argument that is wrong, and cannot be converted."""

    node: ast.expr
    why: str
    reading: Reading


def convert(
    module: Module, expression: ast.expr, shape: Structure, argument: ShardingArgument
) -> Iterator[Conversion | Problem]:
    """The parts of ``expression`` that have to become specs, given what it is laid over."""
    for leaf in leaves_of(module, expression, argument):
        yield from _convert_leaf(module, leaf, shape, argument)


def leaves_of(module: Module, expression: ast.expr, argument: ShardingArgument) -> list[Leaf]:
    """The parts that may be the value of an argument, with all that is known of them."""
    return [
        Leaf(leaf.node, argument.readings[leaf.node]) if leaf.node in argument.readings else leaf
        for leaf in leaves(module, expression)
    ]


def _convert_leaf(
    module: Module, leaf: Leaf, shape: Structure, argument: ShardingArgument
) -> Iterator[Conversion | Problem]:
    node, reading = leaf.node, leaf.reading
    tree = argument.parameter.takes.tree
    if reading.kind is Kind.MAPPING:
        if tree and isinstance(node, ast.Dict):
            if _holds_text(module, node, reading):
                yield from _convert_elements(module, node.values, None, argument)
        elif not tree and isinstance(node, ast.Dict):
            yield Problem(node, "write the spec as P(...), one entry for each dimension of the array", reading)
        return
    if not reading.is_wrong:
        return
    if reading.kind is Kind.MIXED:
        yield Problem(
            node, "write P(...) where it is bound: what stands for a spec here differs from path to path", reading
        )
        return
    if reading.kind is Kind.TEXT:
        if reading.entries == ("",):
            yield Problem(node, "an empty string names no axis; P() is the spec of a replicated array", reading)
        else:
            yield _as_spec(module, leaf)
        return
    if not tree:
        yield from _convert_one(module, leaf)
        return
    yield from _convert_tree(module, leaf, shape, argument)


def _convert_one(module: Module, leaf: Leaf) -> Iterator[Conversion | Problem]:
    """A tuple or list where exactly one spec is wanted."""
    node, reading = leaf.node, leaf.reading
    if not reading.holds_leaves:
        yield _as_spec(module, leaf)
    elif isinstance(node, ast.Tuple | ast.List) and len(node.elts) == 1 and _is_spec_call(module, node.elts[0]):
        yield Conversion(node, "", reading)  # (P("x"),): its one element is what is meant
    elif isinstance(node, ast.Tuple | ast.List) and any(_is_nested_spec(module, element) for element in node.elts):
        yield Problem(
            node, "one array takes one spec, and an entry of a spec is an axis, a tuple of axes, or None", reading
        )
    elif isinstance(node, ast.Tuple | ast.List):
        yield Problem(node, "one array takes one spec, and this holds several values", reading)


def _is_spec_call(module: Module, node: ast.expr) -> bool:
    return read(module, node).kind is Kind.RIGHT


def _is_nested_spec(module: Module, node: ast.expr) -> bool:
    return read(module, node).is_sequence


def _convert_tree(
    module: Module, leaf: Leaf, shape: Structure, argument: ShardingArgument
) -> Iterator[Conversion | Problem]:
    """A tuple or list where a pytree of specs is wanted: JAX takes it for the pytree, so a string in it must show that it is none."""
    node, reading = leaf.node, leaf.reading
    display = node if isinstance(node, ast.Tuple | ast.List) else None
    elements = display.elts if display is not None else []
    count = len(shape.parts) if shape.parts is not None else None
    if reading.kind is Kind.LIST and argument.parameter.name == "in_specs" and shape.kind == "arguments":
        listed = _list_of_arguments(module, leaf, count, argument)
        if listed is not None:
            yield listed
            return
    if not _holds_text(module, node, reading):
        return
    if shape.is_array and _is_spec(reading):
        yield _as_spec(module, leaf)
    elif display is None:
        if not shape.is_array and _is_spec(reading):
            yield Problem(node, _ambiguous(argument, reading), reading)
    elif any(isinstance(element, ast.Starred) for element in elements):
        return
    elif shape.is_array or not _is_spec(reading):
        yield from _convert_elements(module, elements, shape.parts if count == len(elements) else None, argument)
    elif shape.kind == "arguments" and count == 1 and len(elements) > 1:
        yield _as_spec(module, leaf)  # one parameter: it can only be the spec of that
    elif count == len(elements):
        yield from _convert_elements(module, elements, shape.parts, argument)
    elif count is not None:
        things = "parameter" if shape.kind == "arguments" else "value"
        yield Problem(node, f"it has {len(elements)} entries, for {count} {things}{'s' if count != 1 else ''}", reading)
    elif len(elements) == 1 and (shape.kind == "arguments" or argument.parameter.takes is Takes.SPEC_TREE):
        yield from _convert_elements(module, elements, None, argument)
    else:
        yield Problem(node, _ambiguous(argument, reading), reading)


def _is_spec(reading: Reading) -> bool:
    """Whether a sequence reads as one spec: axis names, tuples of them, None."""
    return not reading.holds_leaves and reading.entries is not None and ... not in reading.entries


def _holds_text(module: Module, node: ast.expr, reading: Reading) -> bool:
    """Whether a string is certainly in a tuple or list, or in one inside it."""
    if isinstance(node, ast.Tuple | ast.List):
        return any(_holds_text(module, element, read(module, element)) for element in node.elts)
    if isinstance(node, ast.Dict):
        return any(_holds_text(module, value, read(module, value)) for value in node.values)
    if reading.kind is Kind.TEXT:
        return not reading.optional
    return reading.is_sequence and any(isinstance(entry, str | tuple) for entry in reading.entries or ())


def _list_of_arguments(module: Module, leaf: Leaf, count: int | None, argument: ShardingArgument) -> Conversion | None:
    """A list of specs, one for each argument: the arguments of a call are a tuple, and JAX wants one here too."""
    node = leaf.node
    if not isinstance(node, ast.List):
        return (
            Conversion(node, f"tuple({module.text(node)})", leaf.reading, raw=True)
            if leaf.reading.holds_leaves
            else None
        )
    if not node.elts or (count != len(node.elts) and not leaf.reading.holds_leaves):
        return None
    parts = list(_convert_elements(module, node.elts, None, argument))
    if any(isinstance(part, Problem) for part in parts):
        return None
    whole = substituted(module, node, {part.node: part.spec for part in parts if isinstance(part, Conversion)})
    inner = whole[1:-1]
    comma = "," if len(node.elts) == 1 and not inner.rstrip().endswith(",") else ""
    return Conversion(node, f"({inner}{comma})", leaf.reading, raw=True)


def _convert_elements(
    module: Module, elements: list[ast.expr], parts: tuple[Structure, ...] | None, argument: ShardingArgument
) -> Iterator[Conversion | Problem]:
    for index, element in enumerate(elements):
        shape = parts[index] if parts is not None and parts[index] != UNKNOWN_STRUCTURE else ARRAY
        reading = read(module, element)
        if shape.is_array and reading.is_sequence and _is_spec(reading) and not reading.axes:
            yield _as_spec(module, Leaf(element, reading))  # (None, None) and () beside strings are specs like them
        else:
            yield from convert(module, element, shape, argument)


def _ambiguous(argument: ShardingArgument, reading: Reading) -> str:
    count = len(reading.entries or ())
    over = {
        "in_specs": "the function's arguments",
        "in_shardings": "the function's arguments",
        "in_sharding": "the function's arguments",
        "out_specs": "the function's results",
        "out_shardings": "the function's results" if argument.api.endswith("jit") else "what is resharded",
        "out_sharding": "the function's results",
    }.get(argument.parameter.name, "what is placed")
    if count == 1:
        return f"P(...) for one array, or (P(...),) for a tuple: {over} are not in view"
    return f"one spec for an array, or {count} leaves of a tuple: {over} are not in view"


def _as_spec(module: Module, leaf: Leaf) -> Conversion:
    node, reading = leaf.node, leaf.reading
    text = module.text(node)
    guard = text if reading.optional else ""
    if isinstance(node, ast.Tuple | ast.List):
        inner = [(item, f"({_inside(module, item)})") for item in node.elts if isinstance(item, ast.List)]
        whole = substituted(module, node, dict(inner)) if inner else text
        return Conversion(node, f"{SPEC}({_without_brackets(whole)})", reading)
    star = "*" if reading.is_sequence else ""
    if isinstance(node, ast.Lambda | ast.IfExp | ast.NamedExpr | ast.Await | ast.BoolOp) and star:
        text = f"({text})"
    return Conversion(node, f"{SPEC}({star}{text})", reading, guard)


def _inside(module: Module, node: ast.List) -> str:
    inner = _without_brackets(module.text(node))
    return inner if len(node.elts) != 1 or inner.rstrip().endswith(",") else f"{inner},"


def _without_brackets(text: str) -> str:
    """The entries of a tuple or list display as arguments of a call."""
    if text[:1] in "([" and text[-1:] in ")]":
        inner = text[1:-1]
        return inner if "\n" in inner or "\r" in inner else inner.strip().removesuffix(",").rstrip()
    return text
