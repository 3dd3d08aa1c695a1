"""Constraints, moves and casts where JAX has none: inside shard_map, on an Explicit mesh. (Found from a traceback.)

What JAX says
    AssertionError: `with_sharding_constraint` acts as an assert when all axes of mesh are of type `Explicit`.

    ValueError: Axes mentioned in `manual_axis_type` field of ShapedArray should be of type `Manual`.

    ValueError: device_put with explicit device not allowed within shard_map-decorated functions

    ValueError: Unsupported pcast from=varying, to='varying'

Why
    Inside shard_map each device holds its own shard, and there is nothing left to constrain or to move; on an Explicit
    mesh ``with_sharding_constraint`` only asserts, and ``reshard`` is what moves data.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    def double(x):
        return jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("i")))

    print(jax.shard_map(double, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(jnp.arange(16.0)))

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    def double(x):
        return x * 2

    print(jax.shard_map(double, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(jnp.arange(16.0)))

When it does not fix
    ``device_put`` to a chosen device may have had a purpose, and an Auto mesh may be what was meant on an Explicit one:
    these are offered, not made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Edit, RemoveStatement, Replace, named
from shardfix.semantics.reported import jax_call, reported

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.tracebacks import Evidence

CASTS = ("pcast", "pvary")


class MisplacedConstraints(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = ()
    evidence: ClassVar[frozenset[str]] = frozenset(
        {"auto-axes", "device-put-in-map", "explicit-constraint", "manual-constraint", "pcast-unsupported"}
    )

    def findings(self, module: Module) -> Iterator[Finding]:
        for evidence, frame in reported(module, *self.evidence):
            names = CASTS if evidence.kind == "pcast-unsupported" else ("with_sharding_constraint", "device_put")
            call = jax_call(module, frame, *names)
            if call is not None and call.args and not isinstance(call.args[0], ast.Starred):
                yield from self._finding(module, evidence, call)

    def _finding(self, module: Module, evidence: Evidence, call: ast.Call) -> Iterator[Finding]:
        value = module.text(call.args[0])
        without = _no_assignment(module, call) or Replace(Range.of(call), value)
        match evidence.kind:
            case "manual-constraint":
                fix = Fix((without,), title="leave the constraint out: each device has its own shard here")
                yield self.finding(call, "a constraint inside a mapped function", fix=fix)
            case "pcast-unsupported" if (evidence.old, evidence.new) == ("varying", "varying"):
                fix = Fix((without,), title="leave the cast out: the value varies already")
                yield self.finding(call, "a cast of a value that varies already", fix=fix)
            case "device-put-in-map":
                fix = Fix((without,), Safety.UNSAFE, "leave the shard where it is")
                yield self.finding(call, "a shard is moved to another device inside a mapped function", choices=[fix])
            case "explicit-constraint" | "auto-axes" if len(call.args) == 2 and not call.keywords:
                if evidence.known.get("axis_type", "Explicit") == "Explicit":
                    code = f"{named('jax.sharding.reshard')}({value}, {module.text(call.args[1])})"
                    fix = Fix((Replace(Range.of(call), code),), Safety.UNSAFE, "reshard the array", needs_jax="0.7")
                    message = "with_sharding_constraint moves nothing on an Explicit mesh"
                    yield self.finding(call, message, choices=[fix])


def _no_assignment(module: Module, call: ast.Call) -> Edit | None:
    """``x = pcast(x, ...)`` goes with its statement: ``x = x`` would say nothing."""
    statement = module.statement(call)
    if not isinstance(statement, ast.Assign) or statement.value is not call or len(statement.targets) != 1:
        return None
    end = module.span(statement)[1]
    alone = not module.source[end : module.source.find("\n", end)].strip()
    same = module.text(statement.targets[0]) == module.text(call.args[0])
    return RemoveStatement(Range.of(statement)) if same and alone else None
