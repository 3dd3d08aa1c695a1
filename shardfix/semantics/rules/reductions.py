"""Rules for reductions and for what flattens its argument."""

from __future__ import annotations

from shardfix.semantics.rules.arguments import Bound, axes_removed, boolean, is_none, is_scalar, items_of, over, rank_of
from shardfix.semantics.rules.registry import array, broadcast_rank, either, rule
from shardfix.semantics.values import UNKNOWN, Array, Constant, Rank, Sequence, Value

NO_AXES = Rank.exactly(0)


def reduced(rank: Rank, axis: Value, keepdims: bool | None, left: Rank = NO_AXES) -> Rank:
    """The rank after a reduction over ``axis``; None means all axes, which leaves ``left``."""
    removed = axes_removed(axis)
    if removed is None:
        result = left
    elif removed.exact is None:
        result = Rank(0, rank.high)
    else:
        result = rank.plus(-removed.low)
    if keepdims is None:
        return result.join(rank)
    return rank if keepdims else result


@rule
def reduction(bound: Bound, name: str, axis: str, keepdims: str | None = None, where: str | None = None) -> Value:
    """One axis, some, or with None all are reduced; ``keepdims`` keeps them. A mask of higher rank adds its axes."""
    keep = boolean(bound.get(keepdims)) if keepdims is not None else False
    rank = rank_of(bound.get(name))
    mask = Constant(None) if where is None else bound.get(where)
    if is_none(mask) is True:
        return array(reduced(rank, bound.get(axis), keep))
    left = over(lambda own, masked: max(0, masked - own), rank, rank_of(mask))
    return array(reduced(rank.broadcast(rank_of(mask)), bound.get(axis), keep, left))


@rule
def weighted_reduction(bound: Bound, name: str, weights: str, axis: str, keepdims: str) -> Value:
    """A reduction of two arguments broadcast together (``logsumexp``)."""
    rank = broadcast_rank(bound, (name, weights))
    return array(reduced(rank, bound.get(axis), boolean(bound.get(keepdims))))


@rule
def reduction_tuple(bound: Bound, count: int, name: str, axis: str, keepdims: str | None = None) -> Value:
    """A tuple of ``count`` such reductions."""
    result = reduction(bound, name, axis, keepdims)
    return Sequence((result,) * count)


@rule
def reduction_of_trailing(bound: Bound, name: str, count: int, keepdims: str) -> Value:
    """The last ``count`` axes are reduced; ``keepdims`` keeps them."""
    rank = rank_of(bound.get(name))
    return either(boolean(bound.get(keepdims)), array(rank), array(rank.plus(-count)))


@rule
def quantile(bound: Bound, name: str, q: str, axis: str, keepdims: str) -> Value:
    """A reduction, with the axes of ``q`` in front."""
    rank = _kept_at_least_one(bound, name, axis, keepdims)
    return array(over(lambda left, right: left + right, rank, rank_of(bound.get(q))))


@rule
def median(bound: Bound, name: str, axis: str, keepdims: str) -> Value:
    """A reduction; ``keepdims`` makes a scalar a vector."""
    return array(_kept_at_least_one(bound, name, axis, keepdims))


def _kept_at_least_one(bound: Bound, name: str, axis: str, keepdims: str) -> Rank:
    rank, along, keep = rank_of(bound.get(name)), bound.get(axis), boolean(bound.get(keepdims))
    kept = rank.broadcast(Rank.exactly(1))
    if keep is None:
        return reduced(rank, along, False).join(kept)
    return kept if keep else reduced(rank, along, False)


@rule
def flat_if_no_axis(bound: Bound, name: str, axis: str) -> Value:
    """The rank of one argument, at least 1; with None for the axis it is flattened."""
    kept = array(rank_of(bound.get(name)).broadcast(Rank.exactly(1)))
    return either(is_none(bound.get(axis)), array(Rank.exactly(1)), kept)


@rule
def reduce_many(bound: Bound, operands: str, dimensions: str) -> Value:
    """``lax.reduce``: one array, or a list of them."""
    value = bound.get(operands)
    if isinstance(value, Array) or is_scalar(value):
        return reduction(bound, operands, dimensions)
    items = items_of(value)
    if items is None:
        return UNKNOWN
    return Sequence(tuple(array(reduced(rank_of(item), bound.get(dimensions), False)) for item in items), "list")
