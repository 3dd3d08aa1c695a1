"""Collectives over an axis that no enclosing map has. (Found from a traceback.)

What JAX says
    NameError: Found an unbound axis name: i. To fix this, please call psum under `jax.shard_map`.

    AssertionError, without a word, inside of shard_map

Why
    A collective talks to the other devices along an axis that shard_map, smap, or vmap and pmap with an axis name have
    bound. Outside of them there is nothing to talk to, and under jit a reduction is over the whole array anyway.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))
    total = jax.shard_map(lambda x: jax.lax.psum(x.sum(), "data"), mesh=mesh, in_specs=P("i"), out_specs=P())
    print(total(jnp.arange(16.0)))

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))
    total = jax.shard_map(lambda x: jax.lax.psum(x.sum(), "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
    print(total(jnp.arange(16.0)))

When it does not fix
    It never does unasked: the function may be right, and the map that it runs under wrong.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Replace
from shardfix.semantics.meshes import mesh_view
from shardfix.semantics.reported import jax_call, reported

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

REDUCTIONS = ("psum", "pmean", "pmax", "pmin")
OTHERS = ("all_gather", "all_to_all", "axis_index", "axis_size", "pcast", "ppermute", "psum_scatter", "pvary")


class UnboundAxes(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = ()
    evidence: ClassVar[frozenset[str]] = frozenset({"unbound-axis"})

    def findings(self, module: Module) -> Iterator[Finding]:
        for evidence, frame in reported(module, *self.evidence):
            call = jax_call(module, frame, *REDUCTIONS, *OTHERS)
            if call is None:
                continue
            choices = [*_renamed(module, call, evidence.axis), *_without(module, call)]
            if choices:
                yield self.finding(
                    call, f"no enclosing map has the axis {evidence.axis or 'that is named'!r}", choices=choices
                )


def _renamed(module: Module, call: ast.Call, axis: str | None) -> Iterator[Fix]:
    """The axes of the maps that run the function, in place of the one that is named."""
    written = [
        node
        for argument in (*call.args, *(keyword.value for keyword in call.keywords))
        for node in ast.walk(argument)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and axis in (None, node.value)
    ]
    if len(written) != 1:
        return
    for name in _mapped_axes(module, call):
        if name != written[0].value:
            yield Fix((Replace(Range.of(written[0]), f'"{name}"'),), Safety.UNSAFE, f"name the axis {name!r}")


def _mapped_axes(module: Module, call: ast.Call) -> list[str]:
    """The axes of the maps whose function holds the call."""
    axes: dict[str, None] = {}
    for run in module.trace.maps:
        function = run.run.function if run.run is not None else None
        if function is not None and function.module is module and call in set(ast.walk(function.node)):
            mesh = run.site.mesh
            axes.update(dict.fromkeys(getattr(mesh, "axes", None) or sorted(run.site.axis_names or ())))
    return list(axes)


def _without(module: Module, call: ast.Call) -> Iterator[Fix]:
    """Outside of any map a reduction over devices is none."""
    name = next(iter(module.resolve(call.func)), "").rpartition(".")[2]
    if (
        name in REDUCTIONS
        and call.args
        and not _mapped_axes(module, call)
        and not mesh_view(module).context(call).is_manual
    ):
        edit = Replace(Range.of(call), module.text(call.args[0]))
        yield Fix((edit,), Safety.UNSAFE, "leave it out: under jit this is over the whole array already")
