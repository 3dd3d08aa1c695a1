"""Calls of everything outside the project: the special ones here and in the sister modules, all others by the generated rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardfix.semantics import rank_rules
from shardfix.semantics.interpreter import control_flow, python_calls, shapes, shardings, trees
from shardfix.semantics.interpreter.invocation import Invocation
from shardfix.semantics.interpreter.maps import evaluate_map
from shardfix.semantics.interpreter.names import MAPS, SAME_VALUE, TRANSFORMS, canonical
from shardfix.semantics.interpreter.records import record_fields
from shardfix.semantics.interpreter.trees import array_leaf, leaf_of
from shardfix.semantics.values import (
    UNKNOWN,
    Array,
    Constant,
    Dict,
    Function,
    Instance,
    JaxObject,
    Mapped,
    Number,
    Partial,
    Sequence,
    Text,
    Transformed,
    Tree,
    Value,
    map_leaves,
)

_HANDLERS: dict[str, Callable[[Invocation], Value]] = {
    **shardings.HANDLERS,
    **trees.HANDLERS,
    **shapes.HANDLERS,
    **control_flow.HANDLERS,
    **python_calls.HANDLERS,
}


def call(dotted: str, call: Invocation) -> Value:
    """The result of a call of something outside the project."""
    name = canonical(dotted)
    if name in MAPS:
        return evaluate_map(name, call)
    if name in TRANSFORMS:
        function = call.arguments[0] if call.arguments else call.keywords.get("fun", call.keywords.get("f"))
        if not call.exact:
            return UNKNOWN
        if function is None:
            return Partial(JaxObject(dotted), (), tuple(call.keywords.items()))
        return Transformed(name, function, call.arguments[1:], tuple(call.keywords.items()))
    if name in SAME_VALUE and call.arguments:
        return map_leaves(array_leaf, call.arguments[0])
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(replace(call, name=name))
    plain = [leaf_of(argument) for argument in call.arguments]
    if not call.exact and call.given.missing != UNKNOWN:
        plain = plain or [leaf_of(call.given.missing)]
    options = {key: leaf_of(value) for key, value in call.keywords.items()}
    return rank_rules.call(dotted, plain, options, exact_arguments=call.exact) or UNKNOWN


def value_method(owner: Value, name: str, call: Invocation) -> Value | None:
    """Methods of values other than arrays; None where the array rules decide."""
    match owner, name:
        case Dict(), "items":
            pairs = tuple(
                Sequence((Text(key) if isinstance(key, str) else Constant(key), item)) for key, item in owner.items
            )
            return Sequence(pairs, "list") if owner.complete else Sequence(None, "list")
        case Dict(), "values":
            return (
                Sequence(tuple(item for _, item in owner.items), "list") if owner.complete else Sequence(None, "list")
            )
        case Dict(), "keys":
            return (
                Sequence(tuple(Text(key) for key, _ in owner.items), "list")
                if owner.complete
                else Sequence(None, "list")
            )
        case Dict(), "get" if call.arguments and isinstance(call.arguments[0], Text):
            known = owner.get(call.arguments[0].value)
            return known if known is not None else UNKNOWN
        case Instance(), "_replace" if call.exact and not call.arguments:
            return replace(owner, attributes=tuple((dict(owner.attributes) | dict(call.keywords)).items()))
        case Instance(), "_asdict":
            fields = record_fields(owner.cls) or []
            return Dict(tuple((field.name, owner.get(field.name) or UNKNOWN) for field in fields))
        case Text(), "join" | "format" | "lower" | "upper" | "strip" | "replace" | "removeprefix" | "removesuffix":
            return Text()
        case Text(), _:
            return UNKNOWN
        case ((Function() | Transformed() | Mapped()), "lower" | "defvjp" | "defjvp" | "defjvps"):
            return UNKNOWN
        case (Sequence(), "index" | "count"):
            return Number()
        case (Array() | Tree(), _):
            return None
    return UNKNOWN
