"""Gradients of a custom_vjp that differ between devices, of an argument that does not. (Found from a traceback.)

What JAX says
    ValueError: Custom VJP bwd rule must produce an output with the same type as the args tuple of the primal function,
    ... so the manual axis types do not match

Why
    The gradient of an argument that is the same on every device is the sum of what all devices contribute. JAX's own
    rules add that sum; a hand-written ``bwd`` must do it itself.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    @jax.custom_vjp
    def scale(w, x):
        return w * x

    def scale_fwd(w, x):
        return w * x, (w, x)

    def scale_bwd(residuals, g):
        w, x = residuals
        return (g * x).sum(), g * w

    scale.defvjp(scale_fwd, scale_bwd)
    f = jax.shard_map(scale, mesh=mesh, in_specs=(P(), P("i")), out_specs=P("i"))
    print(jax.grad(lambda w, x: f(w, x).sum())(jnp.float32(2.0), jnp.arange(16.0)))

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    @jax.custom_vjp
    def scale(w, x):
        return w * x

    def scale_fwd(w, x):
        return w * x, (w, x)

    def scale_bwd(residuals, g):
        w, x = residuals
        return jax.lax.psum((g * x).sum(), "i"), g * w

    scale.defvjp(scale_fwd, scale_bwd)
    f = jax.shard_map(scale, mesh=mesh, in_specs=(P(), P("i")), out_specs=P("i"))
    print(jax.grad(lambda w, x: f(w, x).sum())(jnp.float32(2.0), jnp.arange(16.0)))

When it does not fix
    It never does unasked: ``bwd`` names the axis from then on, and works under no other map.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Wrap, named
from shardfix.semantics.outputs import locate

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.tracebacks import Evidence


class ReplicatedGradients(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = ()
    evidence: ClassVar[frozenset[str]] = frozenset({"custom-vjp-type"})

    def findings(self, module: Module) -> Iterator[Finding]:
        for evidence in module.evidence:
            if evidence.kind in self.evidence and "{" not in evidence.known.get("before", "{"):
                for bwd in _backward_rules(module, evidence):
                    yield from self._returns(module, evidence, bwd)

    def _returns(self, module: Module, evidence: Evidence, bwd: ast.FunctionDef) -> Iterator[Finding]:
        position = (evidence.key_path or "").strip("[]")
        axes = [f'"{axis}"' for axis in evidence.axes]
        code = axes[0] if len(axes) == 1 else f"({', '.join(axes)})"
        for node in module.nodes(ast.Return):
            if module.enclosing(node, ast.FunctionDef) is bwd and position.isdigit() and axes:
                gradient = locate(module, node.value, (int(position),))
                if gradient is not None:
                    wrap = Wrap(Range.of(gradient), f"{named('jax.lax.psum')}(", f", {code})")
                    fix = Fix((wrap,), Safety.UNSAFE, "sum the gradient over the devices")
                    message = "the gradient of an argument that is the same on every device differs between them"
                    yield self.finding(gradient, message, choices=[fix])


def _backward_rules(module: Module, evidence: Evidence) -> Iterator[ast.FunctionDef]:
    """The functions given as bwd to ``defvjp``: that of the function that JAX names, if it names one."""
    functions = {node.name: node for node in module.nodes(ast.FunctionDef)}
    for call in module.nodes(ast.Call):
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "defvjp" or len(call.args) < 2:
            continue
        if evidence.function and module.text(call.func.value).rpartition(".")[2] != evidence.function:
            continue
        name = call.args[1]
        if isinstance(name, ast.Name) and name.id in functions:
            yield functions[name.id]
