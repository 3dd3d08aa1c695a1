"""Rules for products of arrays, linear algebra and random arrays."""

from __future__ import annotations

from shardfix.semantics.rules.arguments import Bound, boolean, integer, is_none, items_of, length_of, over, rank_of
from shardfix.semantics.rules.registry import array, arrays, broadcast_rank, either, rule
from shardfix.semantics.values import ANY_RANK, UNKNOWN, Constant, Rank, Sequence, Text, Value


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
