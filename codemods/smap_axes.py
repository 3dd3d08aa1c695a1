"""Axes that `jax.smap` rejects, or misreads.

What JAX says
    TypeError: smap axis_name should be a `str` or a `Hashable`, but got ('i',)
    TypeError: smap in_axes must be an int, None, jax.sharding.Infer, or a tuple of entries corresponding to the positional
    arguments passed to the function, but got [0, None].

Why
    `smap` maps over one mesh axis, whose name is a string, and takes a tuple of axes, one for each argument. Negative axes are
    documented, but JAX up to 0.12 takes every one of them for 0, without a word: the wrong axis is mapped.

Before
    import jax
    import jax.numpy as jnp

    with jax.set_mesh(jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))):
        scale = jax.smap(lambda x, factor: x * factor, in_axes=[0, None], out_axes=0, axis_name=("i",))
        print(scale(jnp.arange(16.0), 2.0))

After
    import jax
    import jax.numpy as jnp

    with jax.set_mesh(jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))):
        scale = jax.smap(lambda x, factor: x * factor, in_axes=(0, None), out_axes=0, axis_name="i")
        print(scale(jnp.arange(16.0), 2.0))

When it does not fix
    Several axis names need one `smap` each, nested, or a `shard_map`. For a negative axis only the author knows whether the axis
    that was meant or the axis that is mapped now is right.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Replace, Wrap
from shardfix.semantics.values import Sequence, Spec

if TYPE_CHECKING:
    from shardfix.semantics.calls import Call
    from shardfix.semantics.module import Module


class SmapAxes(Codemod):
    """Writes one axis name, and a tuple of axes."""

    triggers: ClassVar[tuple[bytes, ...]] = (rb"smap\b",)
    evidence: ClassVar[frozenset[str]] = frozenset({"smap-axes"})
    replacement_since = "0.6.1"

    def findings(self, module: Module) -> Iterator[Finding]:
        for call in module.calls_to("jax.smap"):
            if not module.is_compatibility_code(call.node):
                yield from self._axis_name(module, call)
                yield from self._in_axes(module, call)
                yield from self._leaves(module, call)
                yield from self._negative_axes(call)

    def _axis_name(self, module: Module, call: Call) -> Iterator[Finding]:
        argument = call.argument("axis_name")
        if argument is None or argument.owner is not call.node:
            return
        message = "smap maps over one axis, whose name is a string"
        if not isinstance(argument.value, ast.Tuple | ast.List):
            known = module.value_of(argument.value)
            if isinstance(known, Sequence) and known.items is not None:
                name = " ".join(module.text(argument.value).split())
                fix = Fix((Wrap(Range.of(argument.value), "", "[0]"),), title="take the one name of it")
                if len(known.items) == 1 and isinstance(argument.value, ast.Name | ast.Attribute):
                    yield self.finding(argument.value, f"{message}, and `{name}` is a {known.kind}", fix=fix)
                else:
                    reason = "nest one smap for each axis, or use jax.shard_map"
                    yield self.finding(argument.value, f"{message}, and `{name}` is a {known.kind}", reason=reason)
            return
        names = argument.value.elts
        if len(names) == 1 and not isinstance(names[0], ast.Starred):
            edits = (Replace(Range.of(argument.value), module.text(names[0])),)
            yield self.finding(argument.value, message, fix=Fix(edits, title="name the axis itself"))
        else:
            yield self.finding(argument.value, message, reason="nest one smap for each axis, or use jax.shard_map")

    def _in_axes(self, module: Module, call: Call) -> Iterator[Finding]:
        argument = call.argument("in_axes")
        if argument is None or argument.owner is not call.node:
            return
        message = "the in_axes of smap are a tuple, one entry for each argument"
        if not isinstance(argument.value, ast.List):
            known = module.value_of(argument.value)
            if isinstance(known, Sequence) and known.kind == "list":
                fix = Fix((Wrap(Range.of(argument.value), "tuple(", ")"),), title="make it a tuple")
                yield self.finding(argument.value, message, fix=fix)
            return
        start, end = module.span(argument.value)
        inner = module.source[start + 1 : end - 1]
        comma = "," if len(argument.value.elts) == 1 and not inner.rstrip().endswith(",") else ""
        fix = Fix((Replace(Range.of(argument.value), f"({inner}{comma})"),), title="write a tuple")
        yield self.finding(argument.value, message, fix=fix)

    def _leaves(self, module: Module, call: Call) -> Iterator[Finding]:
        """Specs and names in the place of axes."""
        for name in ("in_axes", "out_axes"):
            argument = call.argument(name)
            if argument is None or argument.owner is not call.node:
                continue
            for node in _written_leaves(argument.value):
                message = f"an entry of smap's {name} is the number of an array axis, or None"
                value = module.value_of(node)
                if (
                    isinstance(value, Spec)
                    and value.entries is not None
                    and value.axes is not None
                    and len(value.axes) <= 1
                ):
                    split = [index for index, entry in enumerate(value.entries) if entry is not None]
                    fix = Fix((Replace(Range.of(node), str(split[0]) if split else "None"),), title="number the axis")
                    yield self.finding(node, message, fix=fix)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    fix = Fix((Replace(Range.of(node), "0"),), Safety.UNSAFE, "split it along its first axis")
                    yield self.finding(node, message, choices=[fix])

    def _negative_axes(self, call: Call) -> Iterator[Finding]:
        for name in ("in_axes", "out_axes"):
            argument = call.argument(name)
            if argument is None or argument.owner is not call.node:
                continue
            for node in ast.walk(argument.value):
                match node:
                    case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as axis)):
                        reason = f"write the axis counted from the front; 0 is what -{axis} does now"
                        yield self.finding(node, f"smap takes the negative axis -{axis} for 0", reason=reason)


def _written_leaves(node: ast.expr) -> Iterator[ast.expr]:
    """The entries of a tuple, list or dict of axes, as far as they are written out."""
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Dict(values=elements):
            for element in elements:
                yield from _written_leaves(element)
        case _:
            yield node
