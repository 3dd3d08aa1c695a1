"""Function transforms: jit, vmap, grad and their like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from shardfix.semantics.interpreter import names
from shardfix.semantics.interpreter.control_flow import pair
from shardfix.semantics.interpreter.invocation import Invocation
from shardfix.semantics.interpreter.trees import arrays, first_slices, leaf_of, stacked
from shardfix.semantics.values import (
    UNKNOWN,
    Array,
    Constant,
    Dict,
    Rank,
    Sequence,
    Text,
    Transformed,
    Tree,
    Value,
    Varying,
    as_array,
    is_number,
    map_leaves,
)


def call_transformed(function: Transformed, call: Invocation) -> Value:
    """The result of calling a transformed function."""
    options = dict(function.keywords)
    named = call.keywords
    if function.transform == "jax.vmap":
        named = {name: first_slices(value) for name, value in call.keywords.items()}  # along the first axis, always

    def inner(*given: Value) -> Value:
        return call.interpreter.call(
            function.function, call.passing(replace(call.given, positional=given, keywords=named))
        )

    match function.transform:
        case "jax.vmap":
            return _vmap(function, options, call.arguments, inner)
        case "jax.grad" | "jax.value_and_grad":
            return _gradient(function, options, call, inner)
        case "jax.jacfwd" | "jax.jacrev" | "jax.jacobian" | "jax.hessian":
            return _jacobian(function, options, call.arguments, inner)
        case names.LIKE:
            return function.arguments[0]
        case "jax.custom_gradient":
            return UNKNOWN
    return arrays(inner(*call.arguments))


def _vmap(
    function: Transformed, options: Mapping[str, Value], arguments: tuple[Value, ...], inner: Callable[..., Value]
) -> Value:
    in_axes = options.get("in_axes") or (function.arguments[0] if function.arguments else Constant(0))
    out_axes = options.get("out_axes") or (function.arguments[1] if len(function.arguments) > 1 else Constant(0))
    if isinstance(in_axes, Sequence) and in_axes.items is not None:
        axes = list(in_axes.items)
        axes += [UNKNOWN] * (len(arguments) - len(axes))
    else:
        axes = [in_axes] * len(arguments)
    given = [_unbatched(argument, axis) for argument, axis in zip(arguments, axes, strict=False)]
    result = _without_axis(arrays(inner(*given)), options.get("axis_name"))
    return _batched(result, out_axes)


def _without_axis(value: Value, name: Value | None) -> Value:
    """What varies over the axis that vmap has named varies over it no longer."""
    if not isinstance(name, Text) or name.value is None:
        return value
    axes = frozenset({name.value})

    def leaf(item: Value) -> Value:
        if not isinstance(item, Array):
            return item
        return replace(item, varying=item.varying.without(axes), reduced=item.reduced - axes)

    return map_leaves(leaf, value)


def _jacobian(
    function: Transformed, options: Mapping[str, Value], arguments: tuple[Value, ...], inner: Callable[..., Value]
) -> Value:
    """Each output's axes, then those of the argument; for the Hessian the argument's twice."""
    result = arrays(inner(*arguments))
    if function.arguments or set(options) - {"argnums"} or not arguments:
        return UNKNOWN
    position = options.get("argnums", Constant(0))
    if not isinstance(position, Constant) or not isinstance(position.value, int):
        return UNKNOWN
    if not -len(arguments) <= position.value < len(arguments):
        return UNKNOWN
    argument = arguments[position.value]
    if not isinstance(argument, Array):
        return UNKNOWN
    times = 2 if function.transform == "jax.hessian" else 1

    def leaf(output: Value) -> Value:
        if not isinstance(output, Array):
            return UNKNOWN
        rank = output.rank
        for _ in range(times):
            high = None if rank.high is None or argument.rank.high is None else rank.high + argument.rank.high
            rank = Rank(rank.low + argument.rank.low, high)
        most = output.varying.union(argument.varying).at_most
        return Array(rank, Varying(frozenset(), most))

    return map_leaves(leaf, result)


def _unbatched(value: Value, axis: Value) -> Value:
    match axis:
        case Constant(value=None):
            return value
        case Constant(value=int()):
            return first_slices(value)
        case Sequence(items=tuple() as axes) if (
            isinstance(value, Sequence) and value.items is not None and len(axes) == len(value.items)
        ):
            return replace(value, items=tuple(map(_unbatched, value.items, axes)))
        case Dict() if isinstance(value, Dict):
            return replace(
                value, items=tuple((key, _unbatched(item, axis.get(key) or UNKNOWN)) for key, item in value.items)
            )
    return UNKNOWN


def _batched(value: Value, axis: Value) -> Value:
    match axis:
        case Constant(value=None):
            return value
        case Constant(value=int()):
            return stacked(value)
        case Sequence(items=tuple() as axes) if (
            isinstance(value, Sequence) and value.items is not None and len(axes) == len(value.items)
        ):
            return replace(value, items=tuple(map(_batched, value.items, axes)))
    return map_leaves(lambda leaf: UNKNOWN, value)


def _gradient(
    function: Transformed, options: Mapping[str, Value], call: Invocation, inner: Callable[..., Value]
) -> Value:
    arguments = call.arguments
    result = inner(*arguments)
    argnums = options.get("argnums") or (function.arguments[0] if function.arguments else Constant(0))
    has_aux = options.get("has_aux") or (function.arguments[1] if len(function.arguments) > 1 else Constant(False))
    aux: Value | None = None
    if has_aux == Constant(True):
        result, aux = pair(result)
    elif has_aux != Constant(False):
        return UNKNOWN
    value = as_array(leaf_of(result))
    value = replace(value, rank=Rank.exactly(0))  # JAX differentiates scalar functions only

    def with_respect_to(argument: Value) -> Value:
        def gradient(leaf: Value) -> Value:
            if isinstance(leaf, Tree):
                return Tree(as_array(gradient(leaf.leaf)))
            if not isinstance(leaf, Array) and not is_number(leaf):
                return UNKNOWN
            array = as_array(leaf)
            if call.interpreter.checked is True:
                return Array(array.rank, array.varying)
            most = (
                None
                if array.varying.at_most is None or value.varying.at_most is None
                else array.varying.at_most | value.varying.at_most
            )
            return Array(array.rank, Varying(array.varying.at_least, most))

        return map_leaves(gradient, argument)

    def pick(position: Value) -> Value:
        if (
            isinstance(position, Constant)
            and isinstance(position.value, int)
            and -len(arguments) <= position.value < len(arguments)
        ):
            return with_respect_to(arguments[position.value])
        return UNKNOWN

    if isinstance(argnums, Sequence) and argnums.items is not None:
        gradients: Value = Sequence(tuple(map(pick, argnums.items)))
    else:
        gradients = pick(argnums)
    if function.transform == "jax.grad":
        return gradients if aux is None else Sequence((gradients, arrays(aux)))
    return Sequence((value if aux is None else Sequence((value, arrays(aux))), gradients))
