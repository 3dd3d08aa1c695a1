"""``jax.jit`` with shardings that are given by position.

What JAX says
    TypeError: jit() takes from 0 to 1 positional arguments but 3 were given

Why
    ``pjit(f, in_shardings, out_shardings)`` took them so; ``jax.jit`` takes only the function by position since JAX 0.7.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    rows = NamedSharding(Mesh(np.array(jax.devices()), ("i",)), P("i"))
    double = jax.jit(lambda x: x * 2, rows, rows)
    print(double(jnp.arange(16.0)))

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    rows = NamedSharding(Mesh(np.array(jax.devices()), ("i",)), P("i"))
    double = jax.jit(lambda x: x * 2, in_shardings=rows, out_shardings=rows)
    print(double(jnp.arange(16.0)))

When it does not fix
    With more than three positional arguments, or arguments that are spread with ``*``, what each is cannot be told.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range
from shardfix.edits import PositionalToKeyword

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

NAMES = ("fun", "in_shardings", "out_shardings")


class JitPositionalShardings(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = (rb"\bjit\(\s*(?:[\w.]+|lambda[^:\n]*:[^,\n]*)\s*,\s*[^=),]{1,80}?[,)]",)
    evidence: ClassVar[frozenset[str]] = frozenset({"positional-arguments"})
    deprecated = "0.6.0"
    removed = "0.7.0"

    def findings(self, module: Module) -> Iterator[Finding]:
        for call in module.calls_to("jax.jit"):
            arguments = call.node.args
            if call.is_partial or len(call.own_arguments) < 2 or module.is_compatibility_code(call.node):
                continue
            message = "jax.jit takes only the function by position"
            if len(arguments) > len(NAMES) or any(isinstance(argument, ast.Starred) for argument in arguments):
                yield self.finding(call.node, message, reason="give the other arguments their names")
                continue
            names = tuple((index, NAMES[index]) for index in range(1, len(arguments)))
            fix = Fix((PositionalToKeyword(Range.of(call.node), names),), title="give the shardings their names")
            yield self.finding(call.node, message, fix=fix)
