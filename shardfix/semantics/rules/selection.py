"""Rules for joining, splitting and selecting."""

from __future__ import annotations

from shardfix.semantics.rules.arguments import (
    Bound,
    boolean,
    integer,
    is_none,
    is_scalar,
    item_rank,
    items_of,
    over,
    rank_of,
)
from shardfix.semantics.rules.registry import array, arrays, broadcast_rank, either, rule
from shardfix.semantics.values import ANY_RANK, UNKNOWN, Array, Rank, Sequence, Value


@rule
def concatenate(bound: Bound, name: str, axis: str) -> Value:
    """The rank of the arrays in a sequence; with None for the axis they are flattened."""
    return either(is_none(bound.get(axis)), array(Rank.exactly(1)), array(item_rank(bound.get(name))))


@rule
def items_plus(bound: Bound, name: str, count: int) -> Value:
    """The rank of the arrays in a sequence and ``count`` more."""
    return array(item_rank(bound.get(name)).plus(count))


@rule
def items_at_least(bound: Bound, name: str, lowest: int) -> Value:
    """The rank of the arrays in a sequence, raised to ``lowest``."""
    value = bound.get(name)
    ranks = [rank_of(item) for item in items_of(value) or ()] or [item_rank(value)]
    result = Rank.exactly(lowest)
    for rank in ranks:
        result = result.broadcast(rank)
    return array(result)


def _items_broadcast(value: Value) -> Rank:
    """The rank of the arrays in a sequence, broadcast together."""
    ranks = [rank_of(item) for item in items_of(value) or ()] or [item_rank(value)]
    result = Rank.exactly(0)
    for rank in ranks:
        result = result.broadcast(rank)
    return result


@rule
def select(bound: Bound, conditions: str, choices: str, default: str) -> Value:
    """``jnp.select``: the arrays in two sequences and a default, broadcast together."""
    inner = _items_broadcast(bound.get(conditions)).broadcast(_items_broadcast(bound.get(choices)))
    return array(inner.broadcast(rank_of(bound.get(default))))


@rule
def choose(bound: Bound, name: str, choices: str) -> Value:
    """``jnp.choose``: an array and those in a sequence, broadcast together."""
    return array(rank_of(bound.get(name)).broadcast(_items_broadcast(bound.get(choices))))


@rule
def block(bound: Bound, name: str) -> Value:
    """Nested lists of arrays: as many axes as the lists are deep, or as an array in them has."""
    return array(_block_rank(bound.get(name)))


def _block_rank(value: Value) -> Rank:
    items = items_of(value)
    if items is None:
        return Rank(1, None) if isinstance(value, Sequence) else rank_of(value)
    depth = _depth(value)
    result = Rank.exactly(depth) if depth is not None else Rank(1, None)
    for item in items:
        result = result.broadcast(_block_rank(item))
    return result


def _depth(value: Value) -> int | None:
    """How deep the lists are nested; None where that is not known."""
    if not isinstance(value, Sequence):
        return 0 if isinstance(value, Array) or is_scalar(value) else None
    items = items_of(value)
    inner = _depth(items[0]) if items else None
    return None if inner is None else inner + 1


@rule
def split(bound: Bound, name: str, sections: str) -> Value:
    """A list of pieces of the same rank: as many as a number says, or one more than there are places to cut."""
    piece = array(rank_of(bound.get(name)))
    count = integer(bound.get(sections))
    items = items_of(bound.get(sections))
    if items is not None:
        count = len(items) + 1
    return Sequence(None, "list", piece) if count is None else Sequence((piece,) * count, "list")


@rule
def split_sizes(bound: Bound, name: str, sizes: str) -> Value:
    """A list of pieces of the same rank, one for each size."""
    piece = array(rank_of(bound.get(name)))
    items = items_of(bound.get(sizes))
    return Sequence(None, "list", piece) if items is None else Sequence((piece,) * len(items), "list")


@rule
def unstack(bound: Bound, name: str) -> Value:
    """A tuple of the pieces along one axis, which goes."""
    return Sequence(None, "tuple", array(rank_of(bound.get(name)).plus(-1)))


@rule
def take(bound: Bound, name: str, indices: str, axis: str) -> Value:
    """The axes of the indices take the place of one axis, or with None of all."""
    picked = rank_of(bound.get(indices))
    along = over(lambda rank, count: rank - 1 + count if rank else count, rank_of(bound.get(name)), picked)
    return either(is_none(bound.get(axis)), array(picked), array(along))


@rule
def along_axis(bound: Bound, name: str, indices: str, axis: str) -> Value:
    """Array and indices broadcast together; with None for the axis they are flat."""
    return either(is_none(bound.get(axis)), array(Rank.exactly(1)), array(broadcast_rank(bound, (name, indices))))


@rule
def index_in(bound: Bound, name: str, keepdims: str) -> Value:
    """One index along one axis, which goes unless ``keepdims``."""
    rank = rank_of(bound.get(name))
    return either(boolean(bound.get(keepdims)), array(rank), array(rank.plus(-1)))


@rule
def where(bound: Bound, condition: str, left: str, right: str) -> Value:
    """``where(c, x, y)`` selects; ``where(c)`` gives the indices, axis by axis."""
    missing = is_none(bound.get(left))
    operands = (condition, left, right)
    selected = Array(broadcast_rank(bound, operands), bound.varying(operands))
    if missing is None:
        return UNKNOWN
    return nonzero(bound, condition) if missing else selected


@rule
def nonzero(bound: Bound, name: str) -> Value:
    """A tuple of index vectors, one for each axis."""
    exact = rank_of(bound.get(name)).exact
    if exact is None:
        return Sequence(None, "tuple", array(Rank.exactly(1)))
    return arrays(*[Rank.exactly(1)] * max(exact, 1))


@rule
def grid(bound: Bound, names: str) -> Value:
    """For each argument an array with as many axes as there are arguments; a tuple, in older JAX a list."""
    if not bound.exact:
        return Sequence(None, "tuple", array(ANY_RANK))
    count = len(bound.all(names))
    return arrays(*[Rank.exactly(count)] * count)


@rule
def one_or_many(bound: Bound, name: str) -> Value:
    """One array, or a tuple of them, each of its own rank (``lax.sort``)."""
    value = bound.get(name)
    if isinstance(value, Array):
        return array(value.rank)
    items = items_of(value)
    return UNKNOWN if items is None else arrays(*map(rank_of, items))
