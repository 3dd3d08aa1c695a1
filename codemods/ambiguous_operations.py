"""Operations whose result JAX does not know how to shard. (Found from a traceback.)

What JAX says
    ShardingTypeError: Contracting dimensions are sharded and it is ambiguous how the output should be sharded.

    ShardingTypeError: Use `.at[...].get(out_sharding=)` to provide output PartitionSpec for the gather indexing

    ShardingTypeError: add got incompatible shardings for broadcasting: ('x', None), ('y', None).

Why
    On a mesh with Explicit axes every operation derives the sharding of its result from its operands, and where several
    results are possible, or one that needs communication, JAX asks instead of choosing.

Before
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType, PartitionSpec as P

    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        a = jax.reshard(jnp.ones((8, 8)), P(None, "x"))
        b = jax.reshard(jnp.ones((8, 8)), P("x", None))
        print(a @ b)

After
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType, PartitionSpec as P

    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        a = jax.reshard(jnp.ones((8, 8)), P(None, "x"))
        b = jax.reshard(jnp.ones((8, 8)), P("x", None))
        print(jnp.matmul(a, b, out_sharding=P()))

When it does not fix
    It never does unasked: ``P()``, the result whole on every device, is always possible and seldom the best.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Edit, Replace, SetArgument, Wrap, named
from shardfix.semantics.jax_api import out_sharding_parameter
from shardfix.semantics.reported import calls_at, reported

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.tracebacks import Evidence, Frame

WHOLE = f"{named('jax.sharding.PartitionSpec')}()"
METHODS = frozenset("dot reshape ravel flatten get set add multiply mul min max divide power subtract".split())
"""Methods of arrays, and of ``x.at[...]``, that take ``out_sharding``."""


class AmbiguousOperations(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = ()
    evidence: ClassVar[frozenset[str]] = frozenset({"ambiguous-operation"})

    def findings(self, module: Module) -> Iterator[Finding]:
        for evidence, frame in reported(module, *self.evidence):
            for node, edit, title in _edits(module, evidence, frame):
                fix = Fix((edit,), Safety.UNSAFE, title)
                yield self.finding(node, "JAX cannot tell how the result is to be sharded", choices=[fix])
                break


def _edits(module: Module, evidence: Evidence, frame: Frame) -> Iterator[tuple[ast.expr, Edit, str]]:
    """The ways to say how, the nearest to the failing place first."""
    whole = "the result is whole on every device"
    if evidence.api in ("dot_general", "gather", "reshape", "scatter", "broadcast_to", None) or evidence.known.get(
        "method"
    ):
        for item in _at(module, frame, ast.Subscript) if evidence.api == "gather" else ():
            if isinstance(item.ctx, ast.Load) and not isinstance(item.value, ast.Call):
                code = f"{module.text(item.value)}.at[{module.text(item.slice)}].get(out_sharding={WHOLE})"
                yield item, Replace(Range.of(item), code), whole
        for call in calls_at(module, frame):
            names = module.resolve(call.func)
            takes = any(out_sharding_parameter(name) for name in names) if names else _is_method(call)
            if takes and not any(keyword.arg == "out_sharding" for keyword in call.keywords):
                yield call, SetArgument(Range.of(call), "out_sharding", WHOLE), whole
        for product in _at(module, frame, ast.BinOp):
            if isinstance(product.op, ast.MatMult):
                left, right = module.text(product.left), module.text(product.right)
                code = f"{named('jax.numpy.matmul')}({left}, {right}, out_sharding={WHOLE})"
                yield product, Replace(Range.of(product), code), whole
    for operation in _at(module, frame, ast.BinOp):
        left = module.text(operation.left)
        before, after = f"{named('jax.sharding.reshard')}(", f", {named('jax.typeof')}({left}).sharding)"
        yield (
            operation.right,
            Wrap(Range.of(operation.right), before, after),
            "reshard the right operand as the left one is",
        )


def _is_method(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in METHODS


def _at(module: Module, frame: Frame, kind: type[ast.expr]) -> list:  # type: ignore[type-arg]
    """The expressions of a kind at a line: the one that carets mark, or all that begin there, outermost first."""
    nodes = [node for node in module.nodes(kind) if node.lineno == frame.line]
    marked = [node for node in nodes if frame.marked and module.text(node) == frame.marked]
    return marked or nodes
