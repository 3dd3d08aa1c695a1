"""JAX's structured control flow: scan, loops, branches."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from shardfix.semantics.interpreter.invocation import Invocation
from shardfix.semantics.interpreter.names import LIKE
from shardfix.semantics.interpreter.records import FieldName, leaf_names
from shardfix.semantics.interpreter.repeats import OUTSIDE
from shardfix.semantics.interpreter.trace import Carry
from shardfix.semantics.interpreter.trees import array_leaf, arrays, first_slices, loosened, same_types, stacked
from shardfix.semantics.values import (
    INVARIANT,
    UNKNOWN,
    Array,
    Constant,
    Dict,
    Instance,
    Rank,
    Sequence,
    Transformed,
    Tree,
    Value,
    Varying,
    as_array,
    is_number,
    map_leaves,
)

ROUNDS = 6
"""Steps after which a carry whose varying axes still grow is taken to vary over any."""


def _scan(call: Invocation) -> Value:
    function, init, xs = call.get("f", 0), call.get("init", 1), call.get("xs", 2)
    if function is None or init is None:
        return UNKNOWN
    element = Constant(None) if xs is None else first_slices(xs)
    carry, outputs = _settled(call, arrays(init), lambda carry: pair(call.apply(function, carry, element)))
    return Sequence((carry, stacked(outputs)))


def _settled(call: Invocation, carry: Value, step: Callable[[Value], tuple[Value, Value]]) -> tuple[Value, Value]:
    """A carry that holds before and after every step, and what else the step then gives.

    JAX demands that a step leaves the types of its carry as they are, so that ranks are settled from the start;
    where it does not check what varies, a carry may come to vary over more axes from step to step.
    """
    for _ in range(ROUNDS):
        after, outputs = step(carry)
        _note_disagreement(call, carry, arrays(after))
        widened = same_types(carry, arrays(after), call.interpreter.checked is True)
        if widened == carry:
            return carry, outputs
        carry = widened
    carry = map_leaves(loosened, carry)
    return carry, step(carry)[1]


def _note_disagreement(call: Invocation, before: Value, after: Value, path: tuple[str | int, ...] = ()) -> None:
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
        case Instance(), Instance() if before.cls == after.cls:
            for name in leaf_names(before.cls) or ():
                x, y = before.get(name), after.get(name)
                if x is not None and y is not None:
                    _note_disagreement(call, x, y, (*path, FieldName(name)))
        case Array(), Array() if before.varying.at_most is not None:
            axes = after.varying.at_least - before.varying.at_most
            if axes:
                api = call.name.rpartition(".")[2]
                call.interpreter.reach = OUTSIDE
                site = call.interpreter.site
                call.interpreter.trace.carries.append(Carry(call.environment.module, call.node, api, path, axes, site))


def pair(value: Value) -> tuple[Value, Value]:
    """The two items of a pair; unknown ones where it is not known to be one."""
    if isinstance(value, Sequence) and value.items is not None and len(value.items) == 2:
        return value.items
    return UNKNOWN, UNKNOWN


def _fori_loop(call: Invocation) -> Value:
    body, init = call.get("body_fun", 2), call.get("init_val", 3)
    if body is None or init is None:
        return UNKNOWN
    index = Array(Rank.exactly(0), INVARIANT)
    for bound in (call.get("lower", 0), call.get("upper", 1)):
        index = replace(index, varying=index.varying.union(_varying(bound)))
    index = replace(index, varying=Varying(frozenset(), index.varying.at_most))
    carry, _ = _settled(call, arrays(init), lambda carry: (call.apply(body, index, carry), UNKNOWN))
    return _over(carry, index)


def _while_loop(call: Invocation) -> Value:
    condition, body, init = call.get("cond_fun", 0), call.get("body_fun", 1), call.get("init_val", 2)
    if condition is None or body is None or init is None:
        return UNKNOWN

    def step(carry: Value) -> tuple[Value, Value]:
        test = call.apply(condition, carry)
        return _over(arrays(call.apply(body, carry)), test), test

    carry, test = _settled(call, arrays(init), step)
    return _over(carry, test)


def _varying(value: Value | None) -> Varying:
    return INVARIANT if value is None or is_number(value) else as_array(value).varying


def _over(value: Value, decision: Value | None) -> Value:
    """The result of a branch or a loop may vary as what decides on it does."""
    most = _varying(decision).at_most

    def widen(leaf: Value) -> Value:
        if isinstance(leaf, Tree):
            return Tree(as_array(widen(leaf.leaf)))
        if not isinstance(leaf, Array) or most == frozenset():
            return leaf
        known = leaf.varying.at_most
        return replace(
            leaf, varying=Varying(leaf.varying.at_least, None if known is None or most is None else known | most)
        )

    return map_leaves(widen, value)


def _barrier(call: Invocation) -> Value:
    """Its operand; before JAX 0.11 each leaf varies over what any of them does."""
    operand = call.get("operand", 0)
    if operand is None:
        return UNKNOWN
    together = INVARIANT

    def collect(leaf: Value) -> Value:
        nonlocal together
        together = together.union(_varying(leaf))
        return array_leaf(leaf)

    return _over(map_leaves(collect, operand), Array(varying=together))


def _cond(call: Invocation) -> Value:
    predicate, on_true, on_false = call.get("pred", 0), call.get("true_fun", 1), call.get("false_fun", 2)
    if on_true is None or on_false is None or not call.exact:
        return UNKNOWN
    operands = call.arguments[3:]
    if "operand" in call.keywords:
        operands = (call.keywords["operand"],)
    return _over(_branches(call, (on_true, on_false), operands), predicate)


def _switch(call: Invocation) -> Value:
    branches = call.get("branches", 1)
    if not isinstance(branches, Sequence) or not branches.items or not call.exact:
        return UNKNOWN
    operands = call.arguments[2:]
    if "operand" in call.keywords:
        operands = (call.keywords["operand"],)
    return _over(_branches(call, branches.items, operands), call.get("index", 0))


def _branches(call: Invocation, branches: tuple[Value, ...], operands: tuple[Value, ...]) -> Value:
    """What either of several functions gives, all of which give the same types."""
    results = [arrays(call.apply(branch, *operands)) for branch in branches]
    result = results[0]
    for other in results[1:]:
        _note_disagreement(call, results[0], other)
        _note_disagreement(call, other, results[0])
        result = same_types(result, other, call.interpreter.checked is True)
    return result


def _lax_map(call: Invocation) -> Value:
    function, xs = call.get("f", 0), call.get("xs", 1)
    return stacked(call.apply(function, first_slices(xs))) if function is not None and xs is not None else UNKNOWN


def _associative_scan(call: Invocation) -> Value:
    function, elements = call.get("fn", 0), arrays(call.get("elems", 1) or UNKNOWN)
    if function is None:
        return UNKNOWN
    result, _ = _settled(call, elements, lambda carry: (call.apply(function, carry, carry), UNKNOWN))
    return result


def _jvp(call: Invocation) -> Value:
    function, primals = call.get("fun", 0), call.get("primals", 1)
    if function is None or not isinstance(primals, Sequence) or primals.items is None or "has_aux" in call.keywords:
        return UNKNOWN
    value = arrays(call.apply(function, *primals.items))
    return Sequence((value, map_leaves(loosened, value)))


def _vjp(call: Invocation) -> Value:
    if not call.arguments or "has_aux" in call.keywords or not call.exact:
        return UNKNOWN
    function, *primals = call.arguments
    value = arrays(call.apply(function, *primals))
    # What the second gives looks like the primals (for linearize: like the value), whatever it is called with.
    like = value if call.name == "jax.linearize" else Sequence(tuple(map(arrays, primals)))
    return Sequence((value, Transformed(LIKE, function, (map_leaves(loosened, like),))))


HANDLERS: dict[str, Callable[[Invocation], Value]] = {
    "jax.lax.optimization_barrier": _barrier,
    "jax.lax.scan": _scan,
    "jax.lax.while_loop": _while_loop,
    "jax.lax.fori_loop": _fori_loop,
    "jax.lax.cond": _cond,
    "jax.lax.switch": _switch,
    "jax.lax.map": _lax_map,
    "jax.lax.associative_scan": _associative_scan,
    "jax.jvp": _jvp,
    "jax.vjp": _vjp,
    "jax.linearize": _vjp,
}
"""What gives the result of a call, by the callee's name."""
