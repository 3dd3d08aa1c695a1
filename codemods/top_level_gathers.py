"""Calls of ``top_level_all_gather`` for a sharding that it cannot give. (Found from a traceback.)

What JAX says
    ValueError: multiple dimensions cannot be all_gathered since multi_dim=False passed to `top_level_all_gather`.

    ValueError: top_level_all_gather maintains `top_level_all_gather(x, ...) == x` property.

Why
    It undoes sharding: each array axis keeps the beginning of the spec that it has. What is gathered over a mesh axis is
    the same on all devices of it, which the target has to say with ``reduced``.

Before
    import jax
    import jax.numpy as jnp
    from jax._src.shard_map import top_level_all_gather
    from jax.sharding import AxisType, PartitionSpec as P

    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        x = jax.reshard(jnp.ones((8, 8)), P("x", "y"))
        print(top_level_all_gather(x, P(None, None, reduced={"x", "y"})))

After
    import jax
    import jax.numpy as jnp
    from jax._src.shard_map import top_level_all_gather
    from jax.sharding import AxisType, PartitionSpec as P

    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        x = jax.reshard(jnp.ones((8, 8)), P("x", "y"))
        print(top_level_all_gather(x, P(None, None, reduced={"x", "y"}), multi_dim=True))

When it does not fix
    Which part of the sharding is to stay is the author's choice; the nearest target that JAX takes is offered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Replace, SetArgument, named
from shardfix.semantics.reported import jax_call, reported
from shardfix.tracebacks.evidence import spec_entries

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.tracebacks import Evidence

NAME = "top_level_all_gather"


class TopLevelGathers(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = ()
    evidence: ClassVar[frozenset[str]] = frozenset({"output-replication", "top-level-all-gather"})

    def findings(self, module: Module) -> Iterator[Finding]:
        for evidence, frame in reported(module, *self.evidence):
            call = jax_call(module, frame, NAME)
            if call is None:
                continue
            message = f"{NAME} cannot give this sharding"
            if evidence.argument == "multi_dim":
                fix = Fix((SetArgument(Range.of(call), "multi_dim", "True"),), title="gather several axes at once")
                yield self.finding(call, message, fix=fix)
            elif len(call.args) == 2 and (code := _target(evidence)):
                fix = Fix((Replace(Range.of(call.args[1]), code),), Safety.UNSAFE, "the nearest target that JAX takes")
                yield self.finding(call, message, choices=[fix])


def _target(evidence: Evidence) -> str | None:
    """A target that keeps the first mesh axis of each array axis that asked for one, and gathers the rest."""
    spec = named("jax.sharding.PartitionSpec")
    if evidence.kind == "output-replication":  # P() for what is gathered: it only has to say so
        entries = evidence.spec_entries
        reduced = sorted(evidence.axes)
    else:
        actual = spec_entries(evidence.known.get("actual", ""))
        wanted = evidence.spec_entries
        if actual is None or wanted is None:
            return None
        kept = [_kept(old, new) for old, new in zip(actual, (*wanted, *[None] * len(actual)), strict=False)]
        entries = tuple(kept)
        reduced = sorted(set(_names(actual)) - set(_names(entries)))
    if entries is None:
        return None
    arguments = [*("None" if entry is None else repr(entry).replace("'", '"') for entry in entries)]
    if reduced:
        names = ", ".join(f'"{axis}"' for axis in reduced)
        arguments.append(f"reduced={{{names}}}")
    return f"{spec}({', '.join(arguments)})"


def _kept(old: Any, new: Any) -> Any:
    return None if new is None or old is None else (old[0] if isinstance(old, tuple) else old)


def _names(entries: tuple[Any, ...]) -> list[str]:
    return [name for entry in entries for name in (entry if isinstance(entry, tuple) else (entry,)) if name is not None]
