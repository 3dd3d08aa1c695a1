"""`jax.jit(device=...)` and `jax.jit(backend=...)`, which JAX warns of.

What JAX says
    DeprecationWarning: backend and device argument on jit is deprecated. You can use `jax.device_put(..., jax.local_devices("cpu")[0])`
    on the inputs to the jitted function to get the same behavior.

Why
    A jitted function runs where its arguments are; shardings say the rest. The two arguments are older than that, and both
    still work in JAX 0.12.

Before
    import jax
    import jax.numpy as jnp

    double = jax.jit(lambda x: x * 2, backend="cpu")
    print(double(jnp.arange(4)))

After
    import jax
    import jax.numpy as jnp

    double = jax.jit(lambda x: x * 2)
    print(double(jax.device_put(jnp.arange(4), jax.local_devices(backend="cpu")[0])))

When it does not fix
    Always: where the arguments come from is seldom in view, and only there can they be put on the device. For a function without
    array arguments (an initialiser) it is `with jax.default_device(device):` around the call. `device=None` and `backend=None` say
    nothing, are not warned of, and stay.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding

if TYPE_CHECKING:
    from shardfix.semantics.module import Module


class JitDevice(Codemod):
    """Reports the arguments with what takes their place."""

    triggers: ClassVar[tuple[bytes, ...]] = (rb"jit\b[^#]{0,300}?\b(?:device|backend)\s*=",)
    deprecated = "0.4.0"

    def findings(self, module: Module) -> Iterator[Finding]:
        reported: set[ast.expr] = set()
        for call in module.calls_to("jax.jit"):
            for name in ("device", "backend"):
                argument = call.argument(name)
                if argument is None or argument.name is None or argument.value in reported:
                    continue
                if isinstance(argument.value, ast.Constant) and argument.value.value is None:
                    continue
                if module.is_compatibility_code(call.node) or module.resolve(call.function) != {"jax.jit"}:
                    continue
                reported.add(argument.value)  # the arguments of a partial are those of its calls too
                where = module.text(argument.value)
                device = where if name == "device" else f"jax.local_devices(backend={where})[0]"
                reason = (
                    f"put the arguments there with jax.device_put(x, {device}), "
                    f"or call the function within `with jax.default_device({device}):`"
                )
                yield self.finding(argument.value, f"the argument {name}= of jax.jit is deprecated", reason=reason)
