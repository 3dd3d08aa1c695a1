"""The rules for ranks, by name. ``RULES`` has them all.

A rule gets the bound arguments and the names of the parameters that play its roles (or whole numbers), as
``jax_semantics.toml`` writes them: ``reduction(a, axis, keepdims)``.
"""

from __future__ import annotations

from collections.abc import Callable

from shardfix.semantics.rules.arguments import (
    Bound,
    axes_removed,
    boolean,
    integer,
    is_none,
    is_scalar,
    item_rank,
    items_of,
    length_of,
    over,
    rank_of,
    varying_of,
)
from shardfix.semantics.values import (
    ANY_RANK,
    UNKNOWN,
    Array,
    Constant,
    Number,
    Rank,
    Sequence,
    Text,
    Value,
    join,
)

__all__ = ["RULES", "Rule"]

Rule = Callable[..., Value]
RULES: dict[str, Rule] = {}


def rule(function: Rule) -> Rule:
    """Register a rule under its name."""
    RULES[function.__name__] = function
    return function


def array(rank: Rank) -> Array:
    """An array of that rank; what it varies over is filled in later where no rule says it."""
    return Array(rank)


def arrays(*ranks: Rank) -> Sequence:
    """A tuple of arrays."""
    return Sequence(tuple(map(array, ranks)))


def broadcast_rank(bound: Bound, names: tuple[str, ...]) -> Rank:
    """The rank of the arguments broadcast together; one that is None is left out."""
    result = Rank.exactly(0)
    for name in names:
        for value in bound.all(name):
            if is_none(value) is not True:
                result = result.broadcast(rank_of(value))
    return result


def either(flag: bool | None, yes: Value, no: Value) -> Value:
    """One of two results by a flag, or what holds of both."""
    if flag is None:
        return join(yes, no)
    return yes if flag else no


# ------------------------------------------------------------------------------------------------ one rank for all


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
def rank_given(bound: Bound, name: str) -> Value:
    """The rank that an argument says in figures."""
    rank = integer(bound.get(name))
    return array(ANY_RANK if rank is None else Rank.exactly(rank))


# ------------------------------------------------------------------------------------------------------ reductions


def reduced(rank: Rank, axis: Value, keepdims: bool | None) -> Rank:
    """The rank after a reduction over ``axis``; None means all axes."""
    return _without(rank, rank, axis, keepdims)


def _without(rank: Rank, own: Rank, axis: Value, keepdims: bool | None) -> Rank:
    """``rank`` less the axes that ``axis`` names, or with None as many as ``own``."""
    removed = axes_removed(axis)
    if removed is None:
        result = Rank.exactly(0) if rank == own else over(lambda all_, gone: max(0, all_ - gone), rank, own)
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
    own = rank_of(bound.get(name))
    rank = own if where is None else broadcast_rank(bound, (name, where))
    return array(_without(rank, own, bound.get(axis), keep))


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


# ----------------------------------------------------------------------------------------------------------- shapes


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
def longest(bound: Bound, name: str, lengths: str) -> Value:
    """The rank of one argument, or as many axes as the other has entries, if more."""
    return array(rank_of(bound.get(name)).broadcast(length_of(bound.get(lengths))))


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


# --------------------------------------------------------------------------------------------------------- products


def _matmul(left: int, right: int) -> int | None:
    if not left or not right:
        return None
    if left == 1 or right == 1:
        return left + right - 2
    return max(left, right)


def _dot(left: int, right: int) -> int:
    return left + right - 2 if left and right else left + right


@rule
def matmul(bound: Bound, left: str, right: str) -> Value:
    """``left @ right``."""
    return array(over(_matmul, rank_of(bound.get(left)), rank_of(bound.get(right))))


@rule
def dot(bound: Bound, left: str, right: str) -> Value:
    """One axis of each is contracted; a scalar multiplies."""
    return array(over(_dot, rank_of(bound.get(left)), rank_of(bound.get(right))))


@rule
def vecdot(bound: Bound, left: str, right: str) -> Value:
    """One axis of each is contracted, the others broadcast."""
    return array(over(lambda a, b: max(a, b) - 1 if a and b else None, *_ranks(bound, left, right)))


@rule
def matvec(bound: Bound, matrix: str, vector: str) -> Value:
    """A matrix by a vector, the leading axes broadcast."""
    return array(over(lambda a, b: max(a - 1, b) if a > 1 and b else None, *_ranks(bound, matrix, vector)))


@rule
def cross(bound: Bound, left: str, right: str) -> Value:
    """The arguments broadcast together; one axis less, in JAX before 0.11, if their vectors have two entries."""
    rank = broadcast_rank(bound, (left, right))
    return array(Rank(max(0, rank.low - 1), rank.high))


@rule
def polynomial(bound: Bound, coefficients: str, name: str) -> Value:
    """Coefficients along one axis, the others broadcast with the points."""
    return array(over(lambda a, b: max(a - 1, b) if a else None, *_ranks(bound, coefficients, name)))


@rule
def tensordot(bound: Bound, left: str, right: str, axes: str) -> Value:
    """``axes`` says how many axes are contracted, or which of each."""
    value = bound.get(axes)
    count = integer(value)
    items = items_of(value)
    if items is not None and len(items) == 2:
        lengths = [length_of(item).exact for item in items]
        count = lengths[0] if lengths[0] is not None else lengths[1]
    a, b = _ranks(bound, left, right)
    if count is None:
        return array(Rank(0, None if a.high is None or b.high is None else a.high + b.high))
    contracted = count
    return array(over(lambda x, y: x + y - 2 * contracted if min(x, y) >= contracted else None, a, b))


@rule
def dot_general(bound: Bound, left: str, right: str, numbers: str) -> Value:
    """``numbers``: ((contracted of each), (batch of each))."""
    contracted = batch = None
    parts = items_of(bound.get(numbers))
    if parts is not None and len(parts) == 2:
        contracted, batch = (_pair_length(part) for part in parts)
    a, b = _ranks(bound, left, right)
    if contracted is None or batch is None:
        return array(Rank(0, None if a.high is None or b.high is None else a.high + b.high))
    gone = 2 * contracted + batch
    return array(over(lambda x, y: x + y - gone if x + y >= gone else None, a, b))


def _pair_length(pair: Value) -> int | None:
    items = items_of(pair)
    if items is None or len(items) != 2:
        return None
    lengths = [
        length.low for item in items if isinstance(item, Sequence) and (length := length_of(item)).exact is not None
    ]
    return lengths[0] if lengths else None


def _ranks(bound: Bound, *names: str) -> tuple[Rank, ...]:
    return tuple(rank_of(bound.get(name)) for name in names)


@rule
def sum_of_ranks(bound: Bound, left: str, right: str, count: int) -> Value:
    """The ranks of two arguments together, and ``count`` more."""
    return array(over(lambda a, b: max(0, a + b + count), *_ranks(bound, left, right)))


@rule
def einsum(bound: Bound, subscripts: str, operands: str) -> Value:
    """By the subscripts; with a ``...`` by the ranks of the operands too."""
    text = bound.get(subscripts)
    if not isinstance(text, Text) or text.value is None or not bound.exact:
        return UNKNOWN if isinstance(text, Constant) else array(ANY_RANK)
    inputs, arrow, output = text.value.replace(" ", "").partition("->")
    terms = inputs.split(",")
    values = bound.all(operands)
    if len(terms) != len(values):
        return array(ANY_RANK)
    rest = Rank.exactly(0)
    for term, value in zip(terms, values, strict=True):
        if "..." in term:
            rest = rest.broadcast(rank_of(value).plus(3 - len(term)))
    if not arrow:
        letters = inputs.replace(",", "").replace(".", "")
        output = "".join(letter for letter in set(letters) if letters.count(letter) == 1)
        output += "..." if "..." in inputs else ""
    named = len(output.replace(".", ""))
    return array(rest.plus(named) if "..." in output else Rank.exactly(named))


# ------------------------------------------------------------------------------------ joining, splitting, selecting


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
def each_operand(bound: Bound, *names: str) -> Value:
    """The arguments one by one, each of its own rank."""
    return arrays(*[rank_of(bound.get(name)) for name in names])


@rule
def one_or_many(bound: Bound, name: str) -> Value:
    """One array, or a tuple of them, each of its own rank (``lax.sort``)."""
    value = bound.get(name)
    if isinstance(value, Array):
        return array(value.rank)
    items = items_of(value)
    return UNKNOWN if items is None else arrays(*map(rank_of, items))


# ---------------------------------------------------------------------------------------------------- linear algebra


@rule
def svd(bound: Bound, name: str, compute_uv: str) -> Value:
    """Singular values, between the two bases if these are asked for."""
    rank = rank_of(bound.get(name))
    flag = boolean(bound.get(compute_uv))
    return either(flag, arrays(rank, rank.plus(-1), rank), array(rank.plus(-1)))


@rule
def qr(bound: Bound, name: str, mode: str) -> Value:
    """Two factors; one for the mode ``r``, for ``raw`` the reflectors and their scales."""
    rank = rank_of(bound.get(name))
    match bound.get(mode):
        case Text(value="r"):
            return array(rank)
        case Text(value="reduced" | "complete" | "full" | "economic"):
            return arrays(rank, rank)
        case Text(value="raw"):
            return arrays(rank, rank.plus(-1))
    return UNKNOWN


# -------------------------------------------------------------------------------------------------------- randomness


@rule
def choice(bound: Bound, name: str, shape: str) -> Value:
    """Entries along one axis of ``name``, or of ``arange(name)``."""
    rank = rank_of(bound.get(name)).broadcast(Rank.exactly(1)).plus(-1)
    return array(over(lambda a, b: a + b, rank, length_of(bound.get(shape))))


@rule
def multivariate_normal(bound: Bound, mean: str, covariance: str, shape: str) -> Value:
    """Vectors: as many axes as the shape and one, or with None as the parameters have."""
    value = bound.get(shape)
    own = over(lambda a, b: max(a, b - 1) if a and b > 1 else None, *_ranks(bound, mean, covariance))
    return either(is_none(value), array(own), array(length_of(value).plus(1)))


@rule
def categorical(bound: Bound, logits: str, shape: str) -> Value:
    """The logits without one axis, or the shape."""
    value = bound.get(shape)
    return either(is_none(value), array(rank_of(bound.get(logits)).plus(-1)), array(length_of(value)))


@rule
def segments(bound: Bound, data: str, segment_ids: str) -> Value:
    """The axes of the ids become one."""
    return array(over(lambda a, b: a - b + 1 if a >= b else None, *_ranks(bound, data, segment_ids)))
