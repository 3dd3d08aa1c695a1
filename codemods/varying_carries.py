"""Loop carries and branches inside ``jax.shard_map`` that mix invariant and varying values.

What JAX says
    TypeError: scan body function carry input and carry output must have equal types, but they differ: ... so the manual
    axis types do not match

    The same for ``while_loop`` and ``fori_loop``; ``cond branches must have equal output types but they differ`` for
    ``cond``.

Why
    Since JAX 0.6 the type of a value inside ``shard_map`` says over which mesh axes it varies. A carry that starts
    as ``jnp.zeros(...)``, the same on all devices, and comes back mixed with a block does not keep its type.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    @jax.shard_map(mesh=mesh, in_specs=P("i", None), out_specs=P("i"))
    def column_sums(block):
        total, _ = jax.lax.scan(lambda carry, row: (carry + row, None), jnp.zeros(3), block)
        return total

    column_sums(jnp.ones((16, 3)))

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    @jax.shard_map(mesh=mesh, in_specs=P("i", None), out_specs=P("i"))
    def column_sums(block):
        total, _ = jax.lax.scan(lambda carry, row: (carry + row, None), jax.lax.pcast(jnp.zeros(3), 'i', to="varying"), block)
        return total

    column_sums(jnp.ones((16, 3)))

When it does not fix
    The fix is unsafe (``--unsafe``): it says that the value is meant to differ between devices from the start, which
    is nearly always so, but a missing ``psum`` in the loop looks the same. Where the initial value is not one
    expression it is only reported.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Wrap, named
from shardfix.semantics.outputs import locate, path_text
from shardfix.semantics.wording import axes_text

if TYPE_CHECKING:
    from shardfix.semantics.interpreter import Carry
    from shardfix.semantics.module import Module

INITIAL = {"scan": ("init", 1), "while_loop": ("init_val", 2), "fori_loop": ("init_val", 3)}


class VaryingCarries(Codemod):
    triggers: ClassVar = (rb"\b(?:shard_map|smap)\b",)
    evidence: ClassVar[frozenset[str]] = frozenset({"branch-type", "carry-type"})
    replacement_since = "0.8.2"

    def findings(self, module: Module) -> Iterator[Finding]:
        seen: set[tuple[ast.AST, tuple[str | int, ...]]] = set()
        for carry in module.trace.carries:
            key = (carry.call, carry.path)
            place = _place(module, carry)
            if place is not None and key not in seen and not module.is_compatibility_code(place):
                seen.add(key)
                yield self._finding(module, carry, place)

    def _finding(self, module: Module, carry: Carry, place: ast.expr) -> Finding:
        axes = axes_text(carry.axes)
        if carry.api in ("cond", "switch"):
            return self.finding(
                place,
                f"one branch of {carry.api} gives a value that varies over mesh axis {axes}, the other one that does not"
                f"{_at(module, carry)}",
                reason=f'give both the same type: jax.lax.pcast(value, {_axes_code(carry)}, to="varying") in the branch that does not vary',
            )
        initial = _initial(module, carry) if carry.module is module else None
        message = (
            f"the carry of {carry.api}{_at(module, carry)} starts the same on all devices and comes back varying over "
            f"mesh axis {axes}"
        )
        if initial is None:
            return self.finding(
                place,
                message,
                reason=f'start with a varying value: jax.lax.pcast(init, {_axes_code(carry)}, to="varying"), or one made like the data',
            )
        edit = Wrap(Range.of(initial), f"{named('jax.lax.pcast')}(", f', {_axes_code(carry)}, to="varying")')
        fix = Fix((edit,), Safety.UNSAFE, "start with a varying value", needs_jax="0.8.2")
        return self.finding(
            initial,
            message,
            fix=fix,
            reason="right if each device is to have its own total; if one total is meant, the psum is missing",
        )


def _initial(module: Module, carry: Carry) -> ast.expr | None:
    call = module.call_of(carry.call)
    if call is None:
        return None
    name, index = INITIAL[carry.api]
    argument = call.argument(name, index)
    return locate(module, argument.value, carry.path) if argument is not None and argument.direct else None


def _place(module: Module, carry: Carry) -> ast.expr | None:
    """Where to report: at the loop, or where the function that calls it is mapped."""
    if carry.module is module:
        return carry.call
    return carry.site.call if carry.site is not None and carry.site.module is module else None


def _at(module: Module, carry: Carry) -> str:
    part = f" at {path_text(carry.path)}" if carry.path else ""
    return part if carry.module is module else f"{part} ({os.path.basename(carry.module.path)}:{carry.call.lineno})"


def _axes_code(carry: Carry) -> str:
    names = sorted(carry.axes)
    return repr(names[0]) if len(names) == 1 else repr(tuple(names))
