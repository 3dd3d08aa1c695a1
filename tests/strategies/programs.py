"""The strategy: whole programs that map functions over meshes of eight devices."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from typing import Any

import jax
from hypothesis import strategies as st

from strategies.judge import Program
from strategies.statements import block
from strategies.writer import Book, Writer, indented, is_array, varying_axes

PRELUDE = """\
import dataclasses
import functools
import operator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P
{more}
SCALE = 2.0
KEEP = True
FLAGS = {{"deep": True}}
TABLE = [[1.0, 2.0], [3.0, 4.0]]
NUMPY_TABLE = np.arange(4.0)
AXIS_X, AXIS_Y, AXIS_Z = "x", "y", "z"
KEY = jax.random.key(0)
IDS = jnp.array([0, 1])
ROW = 0
"""
CLASSES = '''

class Pair(NamedTuple):
    left: jax.Array
    right: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    left: jax.Array
    right: jax.Array

    def total(self):
        return self.left.sum() + self.right.sum()

    @property
    def first(self):
        return self.left


def opaque(value):
    """Gives ``value`` back in a way that no analysis sees through."""
    return operator.itemgetter(0)([value])
'''
MESHES = (((8,), ("x",)), ((4, 2), ("x", "y")), ((2, 2, 2), ("x", "y", "z")))


@st.composite
def programs(draw: Any, checked: bool | None = None) -> Program:
    """Programs of one or two modules that JAX accepts, but for what the last map's ``out_specs`` may demand."""
    sizes, axes = draw(st.sampled_from(MESHES))
    check = draw(st.booleans()) if checked is None else checked
    helpers_text = PRELUDE.format(more="") + CLASSES
    main_text = PRELUDE.format(more="import helpers\n") + CLASSES
    mesh = f"MESH = jax.make_mesh({sizes}, {axes}, axis_types=(AxisType.Auto,) * {len(axes)})"
    main, helpers = types.ModuleType("main"), types.ModuleType("helpers")
    exec(helpers_text, helpers.__dict__)
    exec(main_text.replace("import helpers\n", "") + mesh, main.__dict__)
    main.__dict__["helpers"] = helpers
    book = Book(draw, axes, main, helpers)
    writer = Writer(book, dict(main.__dict__), ())

    def generate() -> None:
        for _ in range(draw(st.sampled_from((1, 1, 2)))):
            if not mapping(writer, dict(zip(axes, sizes, strict=True)), check):
                return

    sys.modules["helpers"] = helpers
    try:
        jax.eval_shape(generate)
    finally:
        del sys.modules["helpers"]
    main_code = "\n".join([main_text + mesh, *book.main_code, "", "def main():", *indented(writer.lines), ""])
    LAST_BOOK.append(book)
    del LAST_BOOK[:-1]
    return Program((("helpers.py", "\n".join([helpers_text, *book.helpers_code, ""])), ("main.py", main_code)), check)


LAST_BOOK: list[Book] = []
"""The book of the last program, for those who ask how many statements JAX rejected."""


def mapping(w: Writer, sizes: dict[str, int], check: bool) -> bool:
    """Write a function, map it over the mesh, and call it; says whether JAX takes the call."""
    draw = w.draw
    axes = tuple(sizes)
    partial_manual = len(axes) > 1 and w.chance(5) and check
    manual = tuple(draw(st.permutations(axes)))[: w.integer(1, len(axes) - 1)] if partial_manual else axes
    taken = inputs(w, sizes, manual)
    in_specs = f"({', '.join(taken.specs)}{',' if len(taken.specs) == 1 else ''})"
    if len(taken.specs) == 1 and taken.specs[0].startswith("P(") and w.chance(2):
        in_specs = taken.specs[0]
    extra = f", axis_names={{{', '.join(map(repr, manual))}}}" if partial_manual else ""
    found: list[tuple[list[str], str, str]] = []
    local = w.chance(3)

    def generate(*values: Any) -> tuple[()]:
        bound = dict(zip(taken.parameters, values, strict=True))
        inner = w.child(**bound) if local else w.outside(w.module, **bound)
        inner.try_lines(taken.opening)
        inner.own = list(taken.blocks)
        inner.depth = 1
        inner.manual = manual
        block(inner, 3, 7)
        found.append((inner.lines, *returned(inner, axes)))
        return ()

    jax.shard_map(
        generate,
        mesh=w.namespace["MESH"],
        in_specs=eval(in_specs, w.namespace),
        out_specs=(),
        check_vma=check,
        **({"axis_names": set(manual)} if partial_manual else {}),
    )(*(eval(code, w.namespace) for code in taken.arguments))
    lines, result, out_specs = found[0]
    body, mapped, output = w.new("body"), w.new("mapped"), w.new("out")
    checking = "" if check and w.chance(2) else f", check_vma={check}"
    options = f"mesh=MESH, in_specs={in_specs}, out_specs={out_specs}{checking}{extra}"
    parameters = ", ".join(taken.parameters)
    if w.chance(6):
        lines.insert(0, f"({parameters},) = blocks")
        parameters = "*blocks"
    definition = [f"def {body}({parameters}):", *indented(lines), f"    return {result}"]
    form = w.one_of(("plain", "plain", "decorator", "partial", "inline", "jit", "lambda"))
    if form == "decorator":
        definition.insert(0, f"@jax.shard_map({options})" if w.chance(2) else f"@partial(jax.shard_map, {options})")
        after = f"{mapped} = {body}"
    elif form == "partial":
        after = f"{mapped} = partial(jax.shard_map, {options})({body})"
    elif form == "jit":
        after = f"{mapped} = jax.jit(jax.shard_map({body}, {options}))"
    elif form == "lambda":
        after = f"{mapped} = jax.shard_map(lambda *args: {body}(*args), {options})"
    else:
        after = f"{mapped} = jax.shard_map({body}, {options})"
    call = f"{output} = {mapped}({', '.join(taken.arguments)})"
    if local:
        text = [*definition, after, call]
    else:
        w.define(body, definition)
        w.define(mapped, [after])
        text = [call]
    if not w.try_lines(text):
        w.lines += text  # JAX does not take what it gives as it is specified; what it gives is judged all the same
        return False
    if is_array(w.namespace[output]):
        w.own.append(output)
    return True


@dataclass
class Inputs:
    """What a mapped function is called with, and what it sees of it."""

    arguments: list[str]
    specs: list[str]
    parameters: list[str]
    opening: list[str]
    """The lines of the function that bind the names of its blocks, where they come in containers."""
    blocks: list[str]


def inputs(w: Writer, sizes: dict[str, int], manual: tuple[str, ...]) -> Inputs:
    """One to three arrays to be mapped over, the first two perhaps in one container."""
    pairs = [argument(w, sizes, manual) for _ in range(w.integer(1, 3))]
    names, specs = [name for name, _ in pairs], [spec for _, spec in pairs]
    blocks = [w.new("a") for _ in names]
    if len(names) == 1 or not w.chance(3):
        return Inputs(names, specs, list(blocks), [], blocks)
    parameter = w.new("a")
    if w.chance(2):
        whole = Inputs([f"({names[0]}, {names[1]})"], [f"({specs[0]}, {specs[1]})"], [parameter], [], blocks)
        whole.opening.append(f"{blocks[0]}, {blocks[1]} = {parameter}")
    else:
        whole = Inputs(
            [f"{{'k': {names[0]}, 'l': {names[1]}}}"],
            [f"{{'k': {specs[0]}, 'l': {specs[1]}}}"],
            [parameter],
            [],
            blocks,
        )
        whole.opening += [f"{blocks[0]} = {parameter}['k']", f"{blocks[1]} = {parameter}['l']"]
    if specs[0] == specs[1]:
        whole.specs = [specs[0]]  # one spec for all leaves
    whole.arguments += names[2:]
    whole.specs += specs[2:]
    whole.parameters += blocks[2:]
    return whole


def argument(w: Writer, sizes: dict[str, int], manual: tuple[str, ...]) -> tuple[str, str]:
    """Bind an array to be mapped over; gives its name and its spec."""
    rank = w.integer(0, 3)
    free = list(manual)
    entries: list[str] = []
    shape: list[int] = []
    for _ in range(rank):
        size = 4
        count = min(len(free), w.one_of((0, 0, 1, 1, 2)))
        taken = [free.pop(w.integer(0, len(free) - 1)) for _ in range(count)]
        for axis in taken:
            size *= sizes[axis]
        shape.append(size)
        entries.append(
            "None" if not taken else repr(taken[0]) if len(taken) == 1 else f"({', '.join(map(repr, taken))})"
        )
    while entries and entries[-1] == "None" and not w.chance(3):
        entries.pop()
    spec = f"P({', '.join(entries)})"
    name = w.new("x")
    count = 1
    for size in shape:
        count *= size
    text = f"jnp.sin(jnp.arange({count}.0)).reshape({tuple(shape)})" if rank else f"jnp.float32({w.integer(1, 9)})"
    if w.chance(4):
        text = f"opaque({text})"
    known = w.array(lambda value: value.shape == tuple(shape))
    if known is not None and w.chance(2):
        return known, spec
    w.try_lines([f"{name} = {text}"])
    return name, spec


def returned(w: Writer, axes: tuple[str, ...]) -> tuple[str, str]:
    """What the function gives, and specs that JAX takes for it (if there are such)."""
    names = [name for name in w.own if w.chance(3) or name == w.own[-1]] or w.own[-1:]
    names = list(dict.fromkeys(names[-8:]))
    specs = [spec_of(w.namespace[name], axes) for name in names]
    if len(names) == 1 and w.chance(2):
        return names[0], specs[0]
    if w.chance(3):
        pairs = zip(names, specs, strict=True)
        entries = [(f"'{name}': {name}", f"'{name}': {spec}") for name, spec in pairs]
        return f"{{{', '.join(a for a, _ in entries)}}}", f"{{{', '.join(b for _, b in entries)}}}"
    trail = "," if len(names) == 1 else ""
    return f"({', '.join(names)}{trail})", f"({', '.join(specs)}{trail})"


def spec_of(value: Any, axes: tuple[str, ...]) -> str:
    """A spec for an output; for a pytree one that all its leaves may have."""
    leaves = [leaf for leaf in jax.tree.leaves(value) if is_array(leaf)]
    varying = {axis for leaf in leaves for axis in varying_axes(leaf)}
    if not varying or not leaves or not all(leaf.ndim for leaf in leaves):
        return "P()"
    ordered = [axis for axis in axes if axis in varying]
    return f"P('{ordered[0]}')" if len(ordered) == 1 else f"P(({', '.join(map(repr, ordered))}))"
