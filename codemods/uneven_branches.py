"""Branches of cond and switch of which one gives a value that varies between devices. (Found from a traceback.)

What JAX says
    TypeError: cond branches must have equal output types but they differ. ... The output of true_fun has type
    float32[2]{V:i} but the corresponding output of false_fun has type float32[2], so the manual axis types do not match.

Why
    Inside shard_map the type of a value says over which mesh axes it may differ, and branches must agree in type. (The
    branch that JAX's hint names is the wrong one: the one without ``{V:...}`` needs the cast.)

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    def body(x):
        first = jax.lax.axis_index("i") == 0
        return jax.lax.cond(first, lambda v: v, lambda v: jnp.zeros(2), x)

    print(jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i")))(jnp.arange(16.0)))

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    def body(x):
        first = jax.lax.axis_index("i") == 0
        return jax.lax.cond(first, lambda v: v, lambda v: jax.lax.pcast(jnp.zeros(2), "i", to="varying"), x)

    print(jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i")))(jnp.arange(16.0)))

When it does not fix
    It never does unasked: where both branches are meant to give the same on every device, a reduction is missing in one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Wrap, named
from shardfix.semantics.outputs import locate
from shardfix.semantics.reported import jax_call, reported

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.tracebacks import Evidence


class UnevenBranches(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = ()
    evidence: ClassVar[frozenset[str]] = frozenset({"branch-type"})

    def findings(self, module: Module) -> Iterator[Finding]:
        for evidence, frame in reported(module, *self.evidence):
            call = jax_call(module, frame, "cond", "switch")
            branch = _constant_branch(module, evidence, call) if call is not None else None
            axes = [f'"{axis}"' for axis in evidence.axes]
            if branch is None or not axes:
                continue
            code = axes[0] if len(axes) == 1 else f"({', '.join(axes)})"
            for result in _results(module, branch):
                path = tuple(int(key) for key in (evidence.key_path or "").strip("[]").split("][") if key.isdigit())
                value = locate(module, result, path)
                if value is not None:
                    wrap = Wrap(Range.of(value), f"{named('jax.lax.pcast')}(", f', {code}, to="varying")')
                    fix = Fix(
                        (wrap,), Safety.UNSAFE, "let the constant vary as the other branch does", needs_jax="0.8.2"
                    )
                    message = "one branch gives the same on every device, the other one does not"
                    yield self.finding(value, message, choices=[fix])


def _constant_branch(module: Module, evidence: Evidence, call: ast.Call) -> ast.expr | None:
    """The branch whose type has no varying axes."""
    known = evidence.known
    name = known.get("right", "") if "{" in known.get("before", "") else known.get("left", "")
    digits = "".join(character for character in name if character.isdigit())
    if name in ("true_fun", "false_fun"):
        position = 1 if name == "true_fun" else 2
        return call.args[position] if len(call.args) > position else None
    if digits and len(call.args) > 1 and isinstance(call.args[1], ast.List | ast.Tuple):
        branches = call.args[1].elts
        return branches[int(digits)] if int(digits) < len(branches) else None
    return None


def _results(module: Module, branch: ast.expr) -> Iterator[ast.expr]:
    """What a branch returns."""
    if isinstance(branch, ast.Lambda):
        yield branch.body
    elif (found := module.definition(branch)) is not None and found[0] is module:
        for node in module.nodes(ast.Return):
            if module.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda) is found[1] and node.value:
                yield node.value
