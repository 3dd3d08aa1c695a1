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
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Replace
from shardfix.semantics.meshes import mesh_view
from shardfix.semantics.reported import frames_in, jax_call, likeliest, reported

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.tracebacks import Evidence

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
            axes = _mapped_axes(module, evidence, call)
            choices = [*_renamed(module, call, evidence.axis, axes), *(() if axes else _without(module, call))]
            if choices:
                yield self.finding(
                    call, f"no enclosing map has the axis {evidence.axis or 'that is named'!r}", choices=choices
                )


def _renamed(module: Module, call: ast.Call, axis: str | None, axes: Sequence[str]) -> Iterator[Fix]:
    """The axes of the maps that run the function, in place of the one that is named; the likeliest first."""
    written = [
        node
        for argument in (*call.args, *(keyword.value for keyword in call.keywords))
        for node in ast.walk(argument)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and axis in (None, node.value)
    ]
    if len(written) != 1:
        return
    wrong = str(written[0].value)
    for name in likeliest(wrong, axes):
        yield Fix((Replace(Range.of(written[0]), f'"{name}"'),), Safety.UNSAFE, f"name the axis {name!r}")


def _mapped_axes(module: Module, evidence: Evidence, call: ast.Call) -> list[str]:
    """The axes of the maps that run the function which holds the call: here, or in the modules that the error came through."""
    axes: dict[str, None] = {}
    others = (module.project.module_at(frame.path) for frame in evidence.frames) if module.project else ()
    for other in {id(one): one for one in (module, *others) if one is not None}.values():
        lines = {frame.line for frame in frames_in(other, evidence)}
        for run in other.trace.maps:
            function = run.run.function if run.run is not None else None
            holds = function is not None and function.module is module and call in set(ast.walk(function.node))
            if holds or (other is not module and _is_called_at(other, run.site.call, lines)):
                mesh = run.site.mesh
                axes.update(dict.fromkeys(getattr(mesh, "axes", None) or sorted(run.site.axis_names or ())))
    return list(axes)


def _is_called_at(module: Module, call: ast.Call, lines: set[int]) -> bool:
    """Whether a map is made, or what it is bound to is used, at one of the lines."""
    statement = module.statement(call)
    names = {target.id for target in getattr(statement, "targets", ()) if isinstance(target, ast.Name)}
    nodes = [node for node in module.nodes(ast.Name) if node.id in names]
    return any(node.lineno in lines for node in (call, *nodes))


def _without(module: Module, call: ast.Call) -> Iterator[Fix]:
    """Outside of any map a reduction over devices is none."""
    name = next(iter(module.resolve(call.func)), "").rpartition(".")[2]
    if name in REDUCTIONS and call.args and not mesh_view(module).context(call).is_manual:
        edit = Replace(Range.of(call), module.text(call.args[0]))
        yield Fix((edit,), Safety.UNSAFE, "leave it out: under jit this is over the whole array already")
