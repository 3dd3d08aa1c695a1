"""Collectives: what they do to the mesh axes that a value varies over, and to its rank.

``COLLECTIVES`` maps the last part of the name to a rule that gets the bound arguments. Where the axes are not known,
nothing is known of the result beyond what the argument bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardfix.semantics.rules.arguments import Bound, boolean, is_none, is_scalar, varying_of
from shardfix.semantics.values import (
    INVARIANT,
    UNKNOWN,
    Array,
    Number,
    Rank,
    Sequence,
    Text,
    Tree,
    Value,
    Varying,
    as_array,
    map_leaves,
)

__all__ = ["COLLECTIVES", "axis_names"]


def axis_names(value: Value) -> frozenset[str] | None:
    """The mesh axes that an ``axis_name`` argument names; None where they are not known."""
    match value:
        case Text(value=str() as name):
            return frozenset({name})
        case Sequence(items=tuple() as items):
            names: set[str] = set()
            for item in items:
                inner = axis_names(item)
                if inner is None:
                    return None
                names |= inner
            return frozenset(names)
    return None


def _each(value: Value, function: Callable[[Array], Value]) -> Value:
    """Apply to each array of a pytree; a number counts as an array of rank 0."""

    def on_leaf(leaf: Value) -> Value:
        match leaf:
            case Tree():
                result = function(leaf.leaf)
                return Tree(result) if isinstance(result, Array) else UNKNOWN
            case _ if is_scalar(leaf):
                return function(Array(Rank.exactly(0), INVARIANT))
            case Array():
                return function(leaf)
        # What is not known may be a pytree of anything.
        return UNKNOWN

    return map_leaves(on_leaf, value)


def _added(varying: Varying, axes: frozenset[str] | None) -> Varying:
    return Varying(varying.at_least, None) if axes is None else varying.union(Varying.over(axes))


def _removed(varying: Varying, axes: frozenset[str] | None) -> Varying:
    return Varying(frozenset(), varying.at_most) if axes is None else varying.without(axes)


def _reduce(bound: Bound, *, keeps_numbers: bool) -> Value:
    value = bound.get("x")
    if keeps_numbers and is_scalar(value):
        return Number()
    axes = axis_names(bound.get("axis_name"))
    grouped = is_none(bound.get("axis_index_groups")) is not True

    def reduce(array: Array) -> Value:
        if grouped:
            return Array(array.rank, Varying(frozenset(), array.varying.at_most))
        done = array.reduced if axes is None else array.reduced | axes
        return Array(array.rank, _removed(array.varying, axes), done)

    return _each(value, reduce)


def _psum(bound: Bound) -> Value:
    return _reduce(bound, keeps_numbers=True)


def _reduction(bound: Bound) -> Value:
    return _reduce(bound, keeps_numbers=False)


def _spread(bound: Bound, rank: Callable[[Rank], Rank] = lambda rank: rank) -> Value:
    """The result is an array on each device anew."""
    axes = axis_names(bound.get("axis_name"))
    return _each(bound.get("x"), lambda array: Array(rank(array.rank), _added(array.varying, axes)))


def _permute(bound: Bound) -> Value:
    return _spread(bound)


def _scatter(bound: Bound) -> Value:
    return _spread(bound, _tiled(bound, -1))


def _gather(bound: Bound) -> Value:
    rank = _tiled(bound, 1)
    match bound.get("to"):
        case Text(value="varying"):
            return _spread(bound, rank)
        case Text(value="invarying"):
            axes = axis_names(bound.get("axis_name"))
            return _each(
                bound.get("x"),
                lambda array: Array(
                    rank(array.rank), _removed(array.varying, axes), array.reduced | (axes or frozenset())
                ),
            )
    return _each(bound.get("x"), lambda array: Array(rank(array.rank), Varying(frozenset(), None)))


def _tiled(bound: Bound, count: int) -> Callable[[Rank], Rank]:
    """What becomes of the rank: ``count`` axes more unless ``tiled``."""
    tiled = boolean(bound.get("tiled"))
    if tiled is None:
        return lambda rank: rank.join(rank.plus(count))
    return lambda rank: rank if tiled else rank.plus(count)


def _cast(bound: Bound) -> Value:
    match bound.get("to"):
        case Text(value="varying"):
            return _spread(bound)
    return _each(bound.get("x"), lambda array: Array(array.rank))


def _axis_index(bound: Bound) -> Value:
    axes = axis_names(bound.get("axis_name"))
    return Array(Rank.exactly(0), Varying(frozenset(), None) if axes is None else Varying.over(axes))


def _axis_size(bound: Bound) -> Value:
    return Number()


def _ragged(bound: Bound) -> Value:
    output = as_array(bound.get("output"))
    varying = output.varying.union(varying_of(bound.get("operand")))
    return replace(output, varying=_added(varying, axis_names(bound.get("axis_name"))), origin=None)


COLLECTIVES: dict[str, tuple[str, Callable[[Bound], Value]]] = {
    "psum": ("x axis_name * axis_index_groups=", _psum),
    "pmean": ("x axis_name * axis_index_groups=", _reduction),
    "pmax": ("x axis_name * axis_index_groups=", _reduction),
    "pmin": ("x axis_name * axis_index_groups=", _reduction),
    "all_gather": ("x axis_name * axis_index_groups= axis=0 tiled=False to='varying'", _gather),
    "all_gather_invariant": ("x axis_name * axis=0 tiled=False to='invarying'", _gather),
    "psum_scatter": ("x axis_name * scatter_dimension=0 axis_index_groups= tiled=False", _scatter),
    "all_to_all": ("x axis_name split_axis concat_axis * axis_index_groups= tiled=False", _permute),
    "ppermute": ("x axis_name perm", _permute),
    "pshuffle": ("x axis_name perm", _permute),
    "pswapaxes": ("x axis_name axis * axis_index_groups=", _permute),
    "pcast": ("x axis_name * to", _cast),
    "pvary": ("x axis_name * to='varying'", _cast),
    "pbroadcast": ("x axis_name source", _permute),
    "axis_index": ("axis_name", _axis_index),
    "axis_size": ("axis_name", _axis_size),
    "ragged_all_to_all": (
        "operand output input_offsets send_sizes output_offsets recv_sizes * axis_name axis_index_groups=",
        _ragged,
    ),
}
"""The collectives of ``jax.lax`` by name: their parameters and their rule."""
