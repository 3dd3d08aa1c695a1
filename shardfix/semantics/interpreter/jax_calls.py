"""Calls of everything outside the project: the special ones here and in the sister modules, all others by the generated rules."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from shardfix.semantics import rank_rules
from shardfix.semantics.interpreter import control_flow, python_calls, shapes, shardings, trees
from shardfix.semantics.interpreter.maps import evaluate_map
from shardfix.semantics.interpreter.names import MAPS, SAME_VALUE, TRANSFORMS, canonical
from shardfix.semantics.interpreter.records import record_fields
from shardfix.semantics.interpreter.special import SpecialCall
from shardfix.semantics.interpreter.trace import Environment
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

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter


_HANDLERS: dict[str, Callable[[SpecialCall], Value]] = {
    **shardings.HANDLERS,
    **trees.HANDLERS,
    **shapes.HANDLERS,
    **control_flow.HANDLERS,
    **python_calls.HANDLERS,
}


def call(
    interpreter: Interpreter,
    dotted: str,
    arguments: tuple[Value, ...],
    keywords: Mapping[str, Value],
    environment: Environment,
    node: ast.expr,
    exact: bool,
    missing: Value = UNKNOWN,
) -> Value:
    """The result of a call of something outside the project."""
    name = canonical(dotted)
    if name in MAPS:
        return evaluate_map(interpreter, name, arguments, keywords, environment, node, exact)
    if name in TRANSFORMS:
        function = arguments[0] if arguments else keywords.get("fun", keywords.get("f"))
        if function is None:
            return Partial(JaxObject(dotted), (), tuple(keywords.items())) if exact else UNKNOWN
        return Transformed(name, function, arguments[1:], tuple(keywords.items())) if exact else UNKNOWN
    if name in SAME_VALUE and arguments:
        return map_leaves(lambda leaf: array_leaf(leaf), arguments[0])
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(SpecialCall(interpreter, name, arguments, keywords, environment, node, exact))
    plain = [leaf_of(argument) for argument in arguments]
    if not exact and missing != UNKNOWN:
        plain = plain or [leaf_of(missing)]
    options = {key: leaf_of(value) for key, value in keywords.items()}
    return rank_rules.call(dotted, plain, options, exact_arguments=exact) or UNKNOWN


def value_method(
    interpreter: Interpreter,
    owner: Value,
    name: str,
    arguments: tuple[Value, ...],
    keywords: Mapping[str, Value],
    environment: Environment,
    node: ast.expr,
    exact: bool,
) -> Value | None:
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
        case Dict(), "get" if arguments and isinstance(arguments[0], Text):
            known = owner.get(arguments[0].value)
            return known if known is not None else UNKNOWN
        case Instance(), "_replace" if exact and not arguments:
            return replace(owner, attributes=tuple((dict(owner.attributes) | dict(keywords)).items()))
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
