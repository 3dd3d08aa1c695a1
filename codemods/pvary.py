"""`jax.lax.pvary`, which became `jax.lax.pcast(..., to="varying")`.

What JAX says
    AttributeError: jax.lax.pvary was deprecated in JAX v0.8.2 and removed in JAX v0.10.0;
    use `jax.lax.pcast(..., to='varying')`
    AttributeError: module 'jax.lax' has no attribute 'pvary'

Why
    Inside `shard_map` JAX keeps track of the mesh axes that a value varies over. `pvary` marked a value that is the same on all
    devices as varying; since 0.8.2 `pcast` makes this and the other conversions, and `to` says which. The values are the same.

Before
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(jax.devices(), ("x",))


    @jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def running_sum(block):
        zero = lax.pvary(jnp.zeros(()), "x")
        return lax.scan(lambda carry, row: (carry + row, carry + row), zero, block)[1]


    print(running_sum(jnp.ones(16)))

After
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(jax.devices(), ("x",))


    @jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def running_sum(block):
        zero = lax.pcast(jnp.zeros(()), "x", to="varying")
        return lax.scan(lambda carry, row: (carry + row, carry + row), zero, block)[1]


    print(running_sum(jnp.ones(16)))

When it does not fix
    `pcast` is there since JAX 0.8.2: for code that must run on an older JAX the finding is reported. Code that asks which of
    the two there is stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range
from shardfix.edits import DropImport
from shardfix.edits.replacing import is_exported, replace_callable, uses_of_import, written_uses

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

OLD = "jax.lax.pvary"


class Pvary(Codemod):
    """Writes ``pcast(..., to="varying")``."""

    triggers: ClassVar[tuple[bytes, ...]] = (rb"pvary\b",)
    evidence: ClassVar[frozenset[str]] = frozenset({"deprecated-name", "removed-name"})
    deprecated = "0.8.2"
    removed = "0.10.0"
    replacement_since = "0.8.2"

    def findings(self, module: Module) -> Iterator[Finding]:
        message = f"{OLD} is gone since JAX {self.removed}: jax.lax.pcast takes its place"
        for use in written_uses(module, OLD):
            if not module.is_compatibility_code(use):
                edits = replace_callable(module, use, OLD, "jax.lax.pcast", {"to": '"varying"'})
                fix = Fix(edits, title='take pcast(..., to="varying")', needs_jax=self.replacement_since)
                yield self.finding(use, message, fix=fix)
        for name in module.imports_of(OLD):
            if module.is_compatibility_code(name.statement) or uses_of_import(module, name):
                continue
            if is_exported(module, name.bound):
                yield self.finding(
                    name.alias, message, reason="other modules import it from here, and pcast takes an argument more"
                )
            else:
                edits = (DropImport(Range.of(name.statement), name.bound),)
                yield self.finding(name.alias, message, fix=Fix(edits, title="drop the import, which nothing uses"))
