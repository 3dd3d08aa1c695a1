"""Arguments that are not sharded as the function that they are passed to says. (Found from a traceback.)

What JAX says
    ValueError: in_specs passed to shard_map: P('x',) does not match the specs of the input: P(None,) for arg: float32[16].

    ValueError: Sharding passed to jit does not match the sharding on the respective arg.

Why
    On a mesh with Explicit axes shard_map checks the sharding of its arguments and does not change it; nor does jit where
    an array was put somewhere on purpose. Which of the two is wrong, the array or the function, text alone cannot tell.

Before
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType, PartitionSpec as P

    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    double = jax.shard_map(lambda block: block * 2, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    print(double(jnp.arange(16.0)))

After
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    double = jax.shard_map(lambda block: block * 2, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    print(double(jax.device_put(jnp.arange(16.0), NamedSharding(mesh, P("x")))))

When it does not fix
    It never does unasked: to move the argument costs time at each call, and the mesh may be what is wrong.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import RemoveArgument, Wrap, named
from shardfix.semantics.meshes import mesh_view
from shardfix.semantics.reported import applied_call, mesh_code, reported, spec_code

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.tracebacks import Evidence


class ArgumentShardings(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = ()
    evidence: ClassVar[frozenset[str]] = frozenset({"in-shardings-mismatch", "in-specs-mismatch"})

    def findings(self, module: Module) -> Iterator[Finding]:
        for evidence, frame in reported(module, *self.evidence):
            call = applied_call(module, frame)
            if call is None or not call.args or any(isinstance(argument, ast.Starred) for argument in call.args):
                continue
            wanted = evidence.spec or "what the function says"
            message = f"an argument is not sharded as {wanted}"
            yield self.finding(
                call, message, choices=[*_moves(module, evidence, call), *_without_shardings(module, evidence)]
            )


def _moves(module: Module, evidence: Evidence, call: ast.Call) -> Iterator[Fix]:
    """The argument is brought to where the function wants it."""
    spec, mesh = spec_code(evidence.spec_entries), mesh_code(module, call)
    if spec is None:
        return
    arguments = [Range.of(argument) for argument in _candidates(module, evidence, call)]
    if mesh is not None:
        sharding = f"{named('jax.sharding.NamedSharding')}({mesh}, {spec})"
        edits = tuple(Wrap(place, f"{named('jax.device_put')}(", f", {sharding})") for place in arguments)
        yield Fix(edits, Safety.UNSAFE, "put the argument where the function wants it")
    if evidence.kind == "in-specs-mismatch" and mesh_view(module).context(call).is_set:
        edits = tuple(Wrap(place, f"{named('jax.sharding.reshard')}(", f", {spec})") for place in arguments)
        yield Fix(edits, Safety.UNSAFE, "reshard the argument", needs_jax="0.7")


def _candidates(module: Module, evidence: Evidence, call: ast.Call) -> list[ast.expr]:
    """The arguments whose spec is the one that JAX names; all, where that is not known."""
    for run in module.trace.maps:
        specs = getattr(run.site.in_specs, "items", None)
        if run.call is call and specs is not None and len(specs) == len(call.args):
            same = [
                argument
                for argument, spec in zip(call.args, specs, strict=True)
                if getattr(spec, "entries", None) == evidence.spec_entries
            ]
            return same or call.args
    return call.args


def _without_shardings(module: Module, evidence: Evidence) -> Iterator[Fix]:
    """jit takes its arguments as they come."""
    if evidence.argument != "in_shardings":
        return
    calls = [
        call for call in module.calls_to("jax.jit") if (argument := call.argument("in_shardings")) and argument.direct
    ]
    if len(calls) == 1:
        edit = RemoveArgument(Range.of(calls[0].node), "in_shardings")
        yield Fix((edit,), Safety.UNSAFE, "leave in_shardings out: jit takes the argument as it comes")
