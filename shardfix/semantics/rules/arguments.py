"""Arguments of a call, bound to parameters, and what can be read off them.

Readers are total: from a value that says little they give the widest answer (an interval, or None for "not known").
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass
from itertools import product

from shardfix.semantics.values import (
    ANY_RANK,
    INVARIANT,
    UNKNOWN,
    UNKNOWN_VARYING,
    Array,
    Class,
    Constant,
    Dict,
    JaxObject,
    Mesh,
    ModuleValue,
    Number,
    Rank,
    Sequence,
    Spec,
    Text,
    Tree,
    Value,
    Varying,
)

__all__ = [
    "ABSENT",
    "Bound",
    "Parameters",
    "axes_removed",
    "boolean",
    "integer",
    "is_none",
    "items_of",
    "length_of",
    "over",
    "rank_of",
    "varying_of",
]

ABSENT = Constant(None)
"""An optional parameter that was not given and whose default is no plain value."""

_SCALARS = frozenset(
    f"{module}.{name}"
    for module in ("jax.numpy", "numpy", "math")
    for name in ("pi", "e", "inf", "nan", "euler_gamma", "tau")
)

# Parameters that must be known when JAX traces: an array that varies cannot be passed for them.
STATIC = frozenset(
    """
    axis axes axis1 axis2 axisa axisb axisc shape dtype out keepdims order copy device out_sharding sharding shardings
    precision preferred_element_type method mode ndmin num_segments size num total_repeat_length indices_are_sorted
    unique_indices assume_unique dimension dimensions new_sizes sizes broadcast_dimensions permutation new_dtype
    index_dtype is_stable num_keys kind stable descending implementation promote_integers indexing sparse
    dimension_numbers window_strides padding lhs_dilation rhs_dilation feature_group_count batch_group_count
    slice_sizes slice_size strides stride start_dimension stop_dimension num_classes approximate ddof
    full_matrices compute_uv hermitian symmetrize_input UPLO ord nan_policy algorithm impl
    return_index return_inverse return_counts equal_nan retstep endpoint include_initial side source destination
    subscripts optimize axis_name axis_index_groups split_axis concat_axis tiled to scatter_dimension perm new_shape
    pad_width unroll replace rounding_method exponent_bits mantissa_bits accuracy decimals return_sign minlength length
    donate may_alias reps
    """.split()
)


@dataclass(frozen=True)
class Parameters:
    """Parameters of a function in order.

    Written as one line: ``a axis=None !out= *rest * key=()``: ``name=default``, ``!`` before a parameter that changes
    the result in a way no rule tells, ``~`` before one that is only understood when it is no array, ``*name`` for the
    one that takes any number of arguments, and keyword-only parameters after ``*``.
    """

    positional: tuple[str, ...]
    keyword: tuple[str, ...]
    variadic: str | None
    defaults: Mapping[str, Value]
    opaque: frozenset[str]
    plain: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Parameters:
        positional: list[str] = []
        keyword: list[str] = []
        variadic: str | None = None
        defaults: dict[str, Value] = {}
        opaque: set[str] = set()
        plain: set[str] = set()
        names = positional
        for word in text.split():
            if word == "*":
                names = keyword
                continue
            if word.startswith("*"):
                variadic, names = word[1:], keyword
                continue
            name, optional, default = word.partition("=")
            if name.startswith("!"):
                name = name[1:]
                opaque.add(name)
            elif name.startswith("~"):
                name = name[1:]
                plain.add(name)
            names.append(name)
            if optional:
                defaults[name] = as_value(ast.literal_eval(default)) if default else ABSENT
        return cls(tuple(positional), tuple(keyword), variadic, defaults, frozenset(opaque), frozenset(plain))


def as_value(default: object) -> Value:
    """The abstract value of a literal."""
    if isinstance(default, str):
        return Text(default)
    if isinstance(default, tuple | list):
        return Sequence(tuple(map(as_value, default)), "tuple" if isinstance(default, tuple) else "list")
    return Constant(default)


@dataclass(frozen=True)
class Bound:
    """The arguments of one call by parameter name."""

    parameters: Parameters
    given: Mapping[str, Value]
    variadic: tuple[Value, ...]
    exact: bool
    """False where the call may pass further arguments that are not known (``*args``, ``**kwargs``)."""

    @classmethod
    def bind(
        cls, parameters: Parameters, arguments: Sequence_[Value], keywords: Mapping[str, Value], exact: bool
    ) -> Bound | None:
        """None where the arguments do not fit the parameters."""
        given = dict(zip(parameters.positional, arguments, strict=False))
        rest = tuple(arguments[len(parameters.positional) :])
        if rest and parameters.variadic is None:
            # An older JAX took by position what is keyword-only now.
            if len(rest) > len(parameters.keyword):
                return None
            given.update(zip(parameters.keyword, rest, strict=False))
            rest = ()
        for name, value in keywords.items():
            if name in given or name not in (*parameters.positional, *parameters.keyword):
                return None
            given[name] = value
        return cls(parameters, given, rest, exact)

    def get(self, name: str) -> Value:
        """The argument, else the default; UNKNOWN where it may have been given."""
        if name in self.given:
            return self.given[name]
        return self.parameters.defaults.get(name, ABSENT) if self.exact else UNKNOWN

    def all(self, name: str) -> tuple[Value, ...]:
        """The arguments of a parameter, which may be the variadic one; an UNKNOWN at the end for more of them."""
        if name != self.parameters.variadic:
            return (self.get(name),)
        return self.variadic if self.exact else (*self.variadic, UNKNOWN)

    @property
    def understood(self) -> bool:
        """Whether no parameter is given anything that no rule tells of."""
        if any(self.get(name) != self.parameters.defaults.get(name, ABSENT) for name in self.parameters.opaque):
            return False
        return all(is_plain(self.get(name)) for name in self.parameters.plain)

    def varying(self, carried: tuple[str, ...]) -> Varying:
        """Over which mesh axes a result varies that depends certainly on ``carried``, and maybe on all that is given."""
        certain = [value for name in carried for value in self.all(name)]
        result = INVARIANT
        for value in certain:
            result = result.union(varying_of(value))
        maybe = [value for name, value in self.given.items() if name not in STATIC or name in carried]
        maybe += self.variadic
        most: frozenset[str] | None = frozenset() if self.exact else None
        for value in maybe:
            bound = varying_of(value).at_most
            most = None if most is None or bound is None else most | bound
        return Varying(result.at_least, most)


def is_plain(value: Value) -> bool:
    """Whether the value is a number, a string, None or a scalar array."""
    match value:
        case Array():
            return value.rank.exact == 0
        case Number() | Constant() | Text() | JaxObject():
            return True
    return False


def is_scalar(value: Value) -> bool:
    """Whether the value is certainly one Python number (or a named one such as ``jnp.pi``)."""
    match value:
        case Number() | Constant(value=bool() | int() | float() | complex()):
            return True
        case JaxObject(dotted=dotted):
            return dotted in _SCALARS
    return False


def rank_of(value: Value) -> Rank:
    """The rank of what ``jnp.asarray`` makes of the value."""
    if is_scalar(value):
        return Rank.exactly(0)
    match value:
        case Array():
            return value.rank
        case Tree():
            return value.leaf.rank
        case Sequence(items=()):
            return Rank.exactly(1)
        case Sequence():
            return item_rank(value).plus(1)
    return ANY_RANK


def item_rank(value: Value) -> Rank:
    """The rank of the items of a sequence of arrays of one rank, or of an array along its first axis."""
    match value:
        case Sequence(items=tuple() as items):
            ranks = [rank_of(item) for item in items]
            highs = [rank.high for rank in ranks if rank.high is not None]
            met = Rank(max((rank.low for rank in ranks), default=0), min(highs, default=None))
            return met if met.high is None or met.low <= met.high else ANY_RANK
        case Sequence():
            return rank_of(value.rest)
        case Array():
            return value.rank.plus(-1)
    return ANY_RANK


def items_of(value: Value) -> tuple[Value, ...] | None:
    """The items of a sequence whose length is known; None for all else."""
    return value.items if isinstance(value, Sequence) else None


def varying_of(value: Value) -> Varying:
    """Over which mesh axes anything in the value varies."""
    match value:
        case Array():
            return value.varying
        case Tree():
            return value.leaf.varying
        case Constant() | Number() | Text() | JaxObject() | Spec() | Mesh() | ModuleValue() | Class():
            return INVARIANT
        case Sequence(items=tuple() as items):
            result = INVARIANT
            for item in items:
                result = result.union(varying_of(item))
            return result
        case Sequence():
            return Varying(frozenset(), varying_of(value.rest).at_most)
        case Dict(complete=True):
            result = INVARIANT
            for _, item in value.items:
                result = result.union(varying_of(item))
            return result
    return UNKNOWN_VARYING


def is_none(value: Value) -> bool | None:
    """Whether the value is None; None where it may be."""
    match value:
        case Constant():
            return value.value is None
        case Array() | Number() | Sequence() | Text() | Dict() | JaxObject():
            return False
    return None


def integer(value: Value) -> int | None:
    """The value of a known integer."""
    if isinstance(value, Constant) and isinstance(value.value, int):
        return int(value.value)
    return None


def boolean(value: Value) -> bool | None:
    """Whether a flag is set; None where it is not known."""
    if isinstance(value, Constant) and isinstance(value.value, bool | int | None):
        return bool(value.value)
    return None


def length_of(value: Value) -> Rank:
    """How many entries a shape (or a tuple of axes) has; a single number is one entry."""
    if is_scalar(value):
        return Rank.exactly(1)
    match value:
        case Sequence(items=tuple() as items):
            return Rank.exactly(len(items))
        case Array() if value.rank.exact == 0:
            return Rank.exactly(1)
    return ANY_RANK


def axes_removed(value: Value) -> Rank | None:
    """How many axes an ``axis`` argument names; None for None, which means all of them (or something else).

    An argument that may be None gives any number.
    """
    return None if is_none(value) else length_of(value)


_WIDEST = 8
"""How far ranks without an upper bound are tried."""


def over(function: Callable[..., int | None], *ranks: Rank) -> Rank:
    """The result of a function of exact ranks, over intervals of them. It gives None for ranks that JAX rejects.

    The function must not fall for ranks beyond any that occur.
    """
    unbounded = any(rank.high is None or rank.high > rank.low + _WIDEST for rank in ranks)
    tops = [rank.low + _WIDEST if rank.high is None else min(rank.high, rank.low + _WIDEST) for rank in ranks]
    spans = [range(rank.low, top + 1) for rank, top in zip(ranks, tops, strict=True)]
    results = [result for exact in product(*spans) if (result := function(*exact)) is not None]
    if not results:
        return ANY_RANK
    return Rank(min(results), None if unbounded else max(results))
