"""Results of which only the shape is said: shape structs, kernels of Pallas, abstract evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardfix.semantics import rank_rules
from shardfix.semantics.interpreter.invocation import Invocation
from shardfix.semantics.interpreter.names import LIKE
from shardfix.semantics.interpreter.trees import arrays, loosened
from shardfix.semantics.values import ANY_RANK, UNKNOWN, Array, Sequence, Transformed, Value, as_array, map_leaves


def _shape_struct(call: Invocation) -> Value:
    """``jax.ShapeDtypeStruct(shape, dtype)``, which stands for an array of that shape."""
    shape = call.get("shape", 0)
    made = rank_rules.call("jax.numpy.zeros", (shape,), {}) if shape is not None and call.exact else None
    return Array(as_array(made).rank if made is not None else ANY_RANK)


def _pallas_call(call: Invocation) -> Value:
    """A kernel gives what its ``out_shape`` says, whatever it is called with."""
    function, shapes = call.get("kernel", 0), call.get("out_shape", 1)
    if function is None or shapes is None or not call.exact:
        return UNKNOWN
    if isinstance(shapes, Sequence) and shapes.kind == "list":
        shapes = replace(shapes, kind="tuple")
    return Transformed(LIKE, function, (map_leaves(loosened, shapes),))


def _eval_shape(call: Invocation) -> Value:
    if not call.arguments or not call.exact or call.keywords:
        return UNKNOWN
    function, *arguments = call.arguments
    return map_leaves(loosened, arrays(call.apply(function, *arguments)))


HANDLERS: dict[str, Callable[[Invocation], Value]] = {
    "jax.ShapeDtypeStruct": _shape_struct,
    "jax.experimental.pallas.pallas_call": _pallas_call,
    "jax.eval_shape": _eval_shape,
}
"""What gives the result of a call, by the callee's name."""
