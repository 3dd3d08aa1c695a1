"""JAX's structured control flow: scan, loops, branches."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from shardfix.semantics.interpreter.special import SpecialCall
from shardfix.semantics.interpreter.trace import Carry
from shardfix.semantics.interpreter.trees import arrays, first_slices, stacked
from shardfix.semantics.values import (
    INVARIANT,
    UNKNOWN,
    UNKNOWN_VARYING,
    Array,
    Constant,
    Dict,
    Rank,
    Sequence,
    Value,
    Varying,
    as_array,
    is_number,
    join,
    join_all,
    map_leaves,
)


def _scan(call: SpecialCall) -> Value:
    function, init, xs = call.get("f", 0), call.get("init", 1), call.get("xs", 2)
    if function is None or init is None:
        return UNKNOWN
    element = Constant(None) if xs is None else first_slices(xs)
    carry, stacked = arrays(init), UNKNOWN
    for _ in range(3):
        result = call.apply(function, carry, element)
        after, stacked = pair(result)
        _note_disagreement(call, carry, arrays(after))
        widened = _join_types(carry, arrays(after))
        if widened == carry:
            break
        carry = widened
    else:
        carry = map_leaves(lambda leaf: UNKNOWN, carry)
        stacked = pair(call.apply(function, carry, element))[1]
    return Sequence((carry, stacked(stacked)))


def _note_disagreement(call: SpecialCall, before: Value, after: Value, path: tuple[str | int, ...] = ()) -> None:
    """Note where ``after`` certainly varies over a mesh axis that ``before`` certainly does not, inside a checked map."""
    if call.interpreter.checked is not True or not isinstance(call.node, ast.Call):
        return
    match before, after:
        case Sequence(items=tuple() as a), Sequence(items=tuple() as b) if len(a) == len(b):
            for position, (x, y) in enumerate(zip(a, b, strict=True)):
                _note_disagreement(call, x, y, (*path, position))
        case Dict(), Dict():
            for key, x in before.items:
                y = after.get(key)
                if y is not None and isinstance(key, str | int):
                    _note_disagreement(call, x, y, (*path, key))
        case Array(), Array() if before.varying.at_most is not None:
            axes = after.varying.at_least - before.varying.at_most
            if axes:
                api = call.name.rpartition(".")[2]
                call.interpreter.trace.carries.append(Carry(call.environment.module, call.node, api, path, axes))


def pair(value: Value) -> tuple[Value, Value]:
    if isinstance(value, Sequence) and value.items is not None and len(value.items) == 2:
        return value.items
    return UNKNOWN, UNKNOWN


def _join_types(carry: Value, after: Value) -> Value:
    """A carry before and after a step. JAX demands equal types, so what the step does not know is as it was before;
    what varies on either side may vary."""
    if after == UNKNOWN:
        return map_leaves(
            lambda leaf: replace(leaf, varying=UNKNOWN_VARYING) if isinstance(leaf, Array) else leaf, carry
        )
    return join(carry, after)


def _loop(call: SpecialCall) -> Value:
    if call.name.endswith("fori_loop"):
        body, init, lead = call.get("body_fun", 2), call.get("init_val", 3), (Array(Rank.exactly(0), INVARIANT),)
    else:
        body, init, lead = call.get("body_fun", 1), call.get("init_val", 2), ()
    if body is None or init is None:
        return UNKNOWN
    carry = arrays(init)
    for _ in range(3):
        after = arrays(call.apply(body, *lead, carry))
        _note_disagreement(call, carry, after)
        widened = _join_types(carry, after)
        if widened == carry:
            return carry
        carry = widened
    return map_leaves(lambda leaf: UNKNOWN, carry)


def _over(value: Value, predicate: Value | None) -> Value:
    """A branch's result may vary as the predicate does."""
    varying = as_array(predicate).varying if predicate is not None and not is_number(predicate) else INVARIANT
    if varying == INVARIANT:
        return value
    most = varying.at_most

    def widen(leaf: Value) -> Value:
        if not isinstance(leaf, Array):
            return leaf
        known = leaf.varying.at_most
        return replace(
            leaf, varying=Varying(leaf.varying.at_least, None if known is None or most is None else known | most)
        )

    return map_leaves(widen, value)


def _cond(call: SpecialCall) -> Value:
    predicate, on_true, on_false = call.get("pred", 0), call.get("true_fun", 1), call.get("false_fun", 2)
    if on_true is None or on_false is None or not call.exact:
        return UNKNOWN
    operands = call.arguments[3:]
    if "operand" in call.keywords:
        operands = (call.keywords["operand"],)
    results = [arrays(call.apply(branch, *operands)) for branch in (on_true, on_false)]
    _note_disagreement(call, results[0], results[1])
    _note_disagreement(call, results[1], results[0])
    return _over(join_all(results), predicate)


def _switch(call: SpecialCall) -> Value:
    branches = call.get("branches", 1)
    if not isinstance(branches, Sequence) or not branches.items or not call.exact:
        return UNKNOWN
    results = [arrays(call.apply(branch, *call.arguments[2:])) for branch in branches.items]
    return _over(join_all(results), call.get("index", 0))


def _lax_map(call: SpecialCall) -> Value:
    function, xs = call.get("f", 0), call.get("xs", 1)
    return stacked(call.apply(function, first_slices(xs))) if function is not None and xs is not None else UNKNOWN


def _associative_scan(call: SpecialCall) -> Value:
    return arrays(call.get("elems", 1) or UNKNOWN)


def _jvp(call: SpecialCall) -> Value:
    function, primals = call.get("fun", 0), call.get("primals", 1)
    if function is None or not isinstance(primals, Sequence) or primals.items is None or "has_aux" in call.keywords:
        return UNKNOWN
    value = arrays(call.apply(function, *primals.items))
    return Sequence((value, map_leaves(lambda leaf: _loosened(leaf), value)))


def _vjp(call: SpecialCall) -> Value:
    if not call.arguments or "has_aux" in call.keywords:
        return UNKNOWN
    return Sequence((arrays(call.apply(call.arguments[0], *call.arguments[1:])), UNKNOWN))


def _loosened(leaf: Value) -> Value:
    return replace(leaf, varying=Varying(frozenset(), None)) if isinstance(leaf, Array) else leaf


HANDLERS: dict[str, Callable[[SpecialCall], Value]] = {
    "jax.lax.scan": _scan,
    "jax.lax.while_loop": _loop,
    "jax.lax.fori_loop": _loop,
    "jax.lax.cond": _cond,
    "jax.lax.switch": _switch,
    "jax.lax.map": _lax_map,
    "jax.lax.associative_scan": _associative_scan,
    "jax.jvp": _jvp,
    "jax.vjp": _vjp,
}
"""What gives the result of a call, by the callee's name."""
