"""Rules for functions that keep, add or drop axes, and for those that take a shape."""

from __future__ import annotations

from shardfix.semantics.rules.arguments import (
    Bound,
    axes_removed,
    integer,
    is_none,
    is_scalar,
    length_of,
    over,
    rank_of,
    varying_of,
)
from shardfix.semantics.rules.registry import array, arrays, broadcast_rank, either, rule
from shardfix.semantics.values import (
    ANY_RANK,
    UNKNOWN,
    Array,
    Constant,
    Number,
    Rank,
    Sequence,
    Value,
    Varying,
    map_leaves,
)


@rule
def elementwise(bound: Bound, *names: str) -> Value:
    """The arguments broadcast together."""
    return array(broadcast_rank(bound, names))


@rule
def elementwise_tuple(bound: Bound, count: int, *names: str) -> Value:
    """A tuple of arrays, each of the rank of the arguments broadcast together."""
    return arrays(*[broadcast_rank(bound, names)] * count)


@rule
def broadcast_each(bound: Bound, names: str) -> Value:
    """Each argument, broadcast against the others; a tuple, in older JAX a list."""
    rank = broadcast_rank(bound, (names,))
    if not bound.exact:
        return Sequence(None, "tuple", array(rank))
    return arrays(*[rank] * len(bound.all(names)))


@rule
def fixed(bound: Bound, *ranks: int) -> Value:
    """The same rank whatever the arguments."""
    return array(Rank.exactly(ranks[0]))


@rule
def fixed_tuple(bound: Bound, *ranks: int) -> Value:
    """A tuple of arrays of these ranks."""
    return arrays(*map(Rank.exactly, ranks))


@rule
def plus(bound: Bound, name: str, count: int) -> Value:
    """The rank of one argument and ``count`` more."""
    return array(rank_of(bound.get(name)).plus(count))


@rule
def plus_tuple(bound: Bound, name: str, *counts: int) -> Value:
    """A tuple of arrays: the rank of one argument and so many more, each."""
    return arrays(*[rank_of(bound.get(name)).plus(count) for count in counts])


@rule
def plus_list(bound: Bound, name: str, *counts: int) -> Value:
    """A list of arrays: the rank of one argument and so many more, each."""
    return Sequence(tuple(array(rank_of(bound.get(name)).plus(count)) for count in counts), "list")


@rule
def broadcast_plus(bound: Bound, count: int, *names: str) -> Value:
    """The rank of the arguments broadcast together and ``count`` more."""
    return array(broadcast_rank(bound, names).plus(count))


@rule
def at_least(bound: Bound, name: str, lowest: int) -> Value:
    """The rank of one argument, raised to ``lowest``."""
    return array(rank_of(bound.get(name)).broadcast(Rank.exactly(lowest)))


@rule
def at_least_parameter(bound: Bound, name: str, lowest: str) -> Value:
    """The rank of one argument, raised to the number that another gives (``ndmin``)."""
    least = integer(bound.get(lowest))
    rank = rank_of(bound.get(name))
    return array(Rank(rank.low, None) if least is None else rank.broadcast(Rank.exactly(least)))


@rule
def atleast_each(bound: Bound, lowest: int, names: str) -> Value:
    """One array raised to ``lowest``, or a tuple of them, in older JAX a list."""
    values = bound.all(names)
    raised = [Array(rank_of(value).broadcast(Rank.exactly(lowest)), varying_of(value)) for value in values]
    if not bound.exact:
        return UNKNOWN
    return raised[0] if len(raised) == 1 else Sequence(tuple(raised))


@rule
def shaped(bound: Bound, shape: str, *names: str) -> Value:
    """As many axes as ``shape`` has entries; with None, those of the other arguments broadcast together."""
    return shaped_plus(bound, 0, shape, *names)


@rule
def shaped_plus(bound: Bound, count: int, shape: str, *names: str) -> Value:
    """As many axes as ``shape`` has entries and ``count`` more; with None, those of the arguments broadcast together."""
    value = bound.get(shape)
    return either(is_none(value), array(broadcast_rank(bound, names)), array(length_of(value).plus(count)))


@rule
def shaped_broadcast(bound: Bound, shape: str, *names: str) -> Value:
    """As many axes as ``shape`` has entries, broadcast with the other arguments."""
    value = bound.get(shape)
    own = broadcast_rank(bound, names)
    return either(is_none(value), array(own), array(own.broadcast(length_of(value))))


@rule
def shape_arguments(bound: Bound, names: str) -> Value:
    """The shape as one tuple, or number by number: ``x.reshape(2, 3)``."""
    values = bound.all(names)
    if not bound.exact:
        return array(ANY_RANK)
    if len(values) == 1:
        return array(length_of(values[0]))
    return array(Rank.exactly(len(values)))


@rule
def plus_length(bound: Bound, name: str, lengths: str) -> Value:
    """The rank of one argument and as many more as the other has entries."""
    return array(over(lambda rank, length: rank + length, rank_of(bound.get(name)), length_of(bound.get(lengths))))


@rule
def squeeze(bound: Bound, name: str, axis: str) -> Value:
    """Axes of length one are dropped: those named, or with None all of them."""
    rank = rank_of(bound.get(name))
    removed = axes_removed(bound.get(axis))
    if removed is None or removed.exact is None:
        return array(Rank(0, rank.high))
    return array(rank.plus(-removed.low))


@rule
def collapse(bound: Bound, name: str, start: str, stop: str) -> Value:
    """The axes from ``start`` up to ``stop`` become one."""
    rank = rank_of(bound.get(name))
    first, last = bound.get(start), bound.get(stop)
    exact, begin = rank.exact, integer(first)
    end = exact if is_none(last) is True else integer(last)
    beyond = array(Rank(0, None if rank.high is None else rank.high + 3))
    if exact is None or begin is None or end is None:
        return beyond
    begin, end = (index + exact if index < 0 else index for index in (begin, end))
    if not 0 <= begin < end <= exact:
        return beyond
    return array(Rank.exactly(exact - (end - begin) + 1))


@rule
def diagonal_either_way(bound: Bound, name: str) -> Value:
    """``jnp.diag``: a vector becomes a matrix, a matrix a vector."""
    rank = rank_of(bound.get(name))
    low, high = max(rank.low, 1), 2 if rank.high is None else min(rank.high, 2)
    return array(Rank(3 - high, 3 - low) if low <= high else ANY_RANK)


@rule
def same_pytree(bound: Bound, name: str) -> Value:
    """The argument as it is, whatever it holds."""
    return bound.get(name)


@rule
def mixed_pytree(bound: Bound, name: str) -> Value:
    """The argument as it is, but each leaf may vary over what any of them does."""
    value = bound.get(name)
    most = varying_of(value).at_most

    def mixed(leaf: Value) -> Value:
        if isinstance(leaf, Array):
            return Array(leaf.rank, Varying(leaf.varying.at_least, most))
        return Array(Rank.exactly(0), Varying(frozenset(), most)) if is_scalar(leaf) else UNKNOWN

    return map_leaves(mixed, value)


@rule
def rank_number(bound: Bound, name: str) -> Value:
    """The rank of one argument, as a Python number."""
    exact = rank_of(bound.get(name)).exact
    return Number() if exact is None else Constant(exact)


@rule
def shape_tuple(bound: Bound, name: str) -> Value:
    """The shape of one argument."""
    exact = rank_of(bound.get(name)).exact
    return Sequence(None, rest=Number()) if exact is None else Sequence((Number(),) * exact)


@rule
def number(bound: Bound) -> Value:
    """A Python number."""
    return Number()
