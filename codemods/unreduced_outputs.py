"""Outputs of ``jax.shard_map`` that still differ between devices where their spec says they do not.

What JAX says
    ValueError: shard_map applied to the function 'total' was given out_specs which require replication which can't be
    statically inferred given the mesh

    Outside ``jit`` the message names ``_rem_singleton`` instead of the function. With ``check_vma=False``
    (``check_rep=False``) JAX says nothing and returns the value of the first device: a silent wrong number.

Why
    A spec that leaves a mesh axis out (``P()`` leaves all out) promises that the value is the same along that axis.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    @jax.shard_map(mesh=mesh, in_specs=P("i"), out_specs=P())
    def total(block):
        return jnp.sum(block)

    total(jnp.arange(16.0))

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    @jax.shard_map(mesh=mesh, in_specs=P("i"), out_specs=P())
    def total(block):
        return jax.lax.psum(jnp.sum(block), "i")

    total(jnp.arange(16.0))

When it does not fix
    Never by itself: whether the parts belong summed (``psum``), averaged (``pmean``) or kept apart (a spec that names
    the axis) is for the author to say. The choices are listed. Where the check is off nothing is said after a gather or a
    permutation, which may have made the values equal unseen, along axes of one device, and in tests, which say
    themselves what numbers they expect.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Replace, Wrap, named
from shardfix.semantics.outputs import Output, locate, map_call, outputs, path_text, specs_node, varying_beyond_spec
from shardfix.semantics.values import Array, MapSite, Mesh, as_array, is_number
from shardfix.semantics.wording import axes_text, origin_text, spec_text

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

SIZE_ONE_FLAG = "remove_size_one_mesh_axis_from_type"
"""The option of JAX after which values never vary over mesh axes of size one."""
GATHERS = frozenset(
    "all_gather all_gather_invariant pbroadcast pswapaxes all_to_all broadcast_one_to_all ppermute pshuffle".split()
)
"""Collectives after which equal values may well stand on all devices, though their type still varies."""


class UnreducedOutputs(Codemod):
    triggers: ClassVar = (rb"\b(?:shard_map|smap)\b",)
    evidence: ClassVar[frozenset[str]] = frozenset({"output-replication"})

    def findings(self, module: Module) -> Iterator[Finding]:
        seen: set[tuple[ast.AST, ast.AST, tuple[str | int, ...]]] = set()
        for run in module.trace.maps:
            for output in outputs(run):
                place = _place(module, output)
                axes = _unreduced_axes(output) or _reported_axes(module, output)
                if place is None or not axes or module.is_compatibility_code(place):
                    continue
                key = (output.site.call, place, output.path)
                if key not in seen:
                    seen.add(key)
                    yield self._finding(module, output, place, axes)

    def _finding(self, module: Module, output: Output, place: ast.expr, axes: frozenset[str]) -> Finding:
        name = output.function.name if output.function is not None else "the mapped function"
        which = f"output {path_text(output.path)} of {name}" if output.path else f"the output of {name}"
        message = f"{which} varies over mesh axis {axes_text(axes)}, which its spec {spec_text(output.spec)} leaves out"
        if output.site.checked is False:
            message += ": with the replication check off, the result is silently that of the first device"
        elif isinstance(output.value, Array):
            message += origin_text(output.value, module)
        return self.finding(place, message, reason=_reason(output, axes), choices=_choices(module, output, axes))


def _unreduced_axes(output: Output) -> frozenset[str]:
    """The mesh axes over which the output certainly varies and which its spec leaves out."""
    if output.spec.special or not isinstance(output.value, Array) or is_number(output.value):
        return frozenset()
    entries = output.spec.entries
    array = as_array(output.value)
    if entries is not None and array.rank.high is not None and array.rank.high < len(entries):
        return frozenset()  # too small for its spec: rank0-outputs speaks of that first
    axes = varying_beyond_spec(output)
    if _may_drop_axes_of_size_one(output):
        return frozenset()
    if output.site.checked is True or not axes:
        return axes
    if output.site.checked is None or _gathers(output) or _is_tested(output.site):
        return frozenset()
    return axes - _axes_of_size_one(output.site)


def _is_tested(site: MapSite) -> bool:
    """Whether a map is made in a test: one that turns the check off says itself which numbers it expects."""
    name = os.path.basename(site.module.path)
    if not (name.startswith("test") or name.endswith("_test.py")):
        return False
    around = site.module.ancestors(site.call)
    return any(isinstance(node, ast.FunctionDef) and node.name.startswith("test") for node in around)


def _axes_of_size_one(site: MapSite) -> frozenset[str]:
    """Axes along which there is but one device, whose value is the whole."""
    mesh = site.mesh
    if not isinstance(mesh, Mesh) or mesh.axes is None or mesh.sizes is None:
        return frozenset()
    return frozenset(axis for axis, size in zip(mesh.axes, mesh.sizes, strict=True) if size == 1)


def _may_drop_axes_of_size_one(output: Output) -> bool:
    """Whether JAX is told to leave axes of size one out of types, and the mesh's sizes are not known here."""
    site = output.site
    if isinstance(site.mesh, Mesh) and site.mesh.sizes is not None:
        return False
    functions = [node for node in site.module.ancestors(site.call) if isinstance(node, ast.FunctionDef)]
    parts = [part for function in functions for part in (function, *function.decorator_list)]
    return any(SIZE_ONE_FLAG in site.module.text(part) for part in parts)


def _reported_axes(module: Module, output: Output) -> frozenset[str]:
    """The axes over which JAX has said that an output varies, of which too little is known to tell."""
    function = output.function.name if output.function is not None else None
    most = as_array(output.value).varying.at_most
    for evidence in module.evidence:
        if (
            evidence.kind == "output-replication"
            and evidence.function in (None, function)
            and evidence.spec_entries == output.spec.entries
            and (evidence.spec_path or "") == path_text(output.spec_path)
            and not is_number(output.value)
        ):
            return frozenset(evidence.axes) if most is None else frozenset(evidence.axes) & most
    return frozenset()


def _gathers(output: Output) -> bool:
    """Whether the run holds a collective, or code out of view, that may have made the devices agree unseen."""
    for call in output.run.operands:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in GATHERS:
            return True
    return False


def _reason(output: Output, axes: frozenset[str]) -> str:
    text = axes_text(axes)
    reason = (
        f"reduce it (jax.lax.psum over {text} for a sum, pmean for a mean), or let its spec name {text} if each device's "
        f"value is wanted"
    )
    if _gathers(output):
        reason += (
            "; a gathered value that is equal everywhere by construction: "
            'all_gather(..., to="invarying") (JAX 0.10), or check_vma=False'
        )
    return reason


def _choices(module: Module, output: Output, axes: frozenset[str]) -> tuple[Fix, ...]:
    """The repairs as edits, where they are in this file."""
    found: list[Fix] = []
    names = sorted(axes)
    axis_code = repr(names[0]) if len(names) == 1 else repr(tuple(names))
    if output.node is not None and output.function is not None and output.function.module is module:
        gathers = [node for node in ast.walk(output.node) if _is_gather(node)]
        for gather in gathers:
            from shardfix.edits import SetArgument

            edit = SetArgument(Range.of(gather), "to", '"invarying"')
            found.append(Fix((edit,), Safety.UNSAFE, "gather to an invariant value", needs_jax="0.10"))
        for name in ("psum", "pmean"):
            wrap = Wrap(Range.of(output.node), f"{named(f'jax.lax.{name}')}(", f", {axis_code})")
            found.append(Fix((wrap,), Safety.UNSAFE, f"reduce it with {name} over {axes_text(axes)}"))
    elif output.site.module is module and not output.path and (mapped := _mapped_argument(output)) is not None:
        function = module.text(mapped)
        for name in ("psum", "pmean"):
            code = f"lambda *args: {named(f'jax.lax.{name}')}({function}(*args), {axis_code})"
            title = f"reduce it with {name} over {axes_text(axes)} where it is mapped"
            found.append(Fix((Replace(Range.of(mapped), code),), Safety.UNSAFE, title))
    node = (
        specs_node(output.site, "out_specs") if output.site.module is module and output.site.api != "jax.smap" else None
    )
    node = locate(module, node, output.spec_path) if node is not None else None
    rank = as_array(output.value).rank
    entries = output.spec.entries
    if (
        node is not None
        and entries is not None
        and len(names) == 1
        and rank.low >= 1
        and (not entries or entries[0] is None)
    ):
        code = ", ".join(repr(entry) for entry in (names[0], *entries[1:]))
        replaced = Replace(Range.of(node), f"{named('jax.sharding.PartitionSpec')}({code})")
        found.append(Fix((replaced,), Safety.UNSAFE, f"let the spec name {axes_text(axes)}"))
    return tuple(found)


def _mapped_argument(output: Output) -> ast.expr | None:
    """The name of the mapped function, where the map is given it."""
    call = map_call(output.site)
    argument = call.argument("f", 0) if call is not None else None
    named_there = argument is not None and argument.direct and isinstance(argument.value, ast.Name | ast.Attribute)
    return argument.value if argument is not None and named_there else None


def _is_gather(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) == "all_gather"
    )


def _place(module: Module, output: Output) -> ast.expr | None:
    function = output.function
    if function is not None and function.module is module:
        return output.node or output.returned or (output.site.call if output.site.module is module else None)
    return output.site.call if output.site.module is module else None
