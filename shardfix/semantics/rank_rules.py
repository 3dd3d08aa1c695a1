"""What calls of JAX's functions, methods, operators and indexing give, from what is known of the arguments.

``jax_semantics.toml``, written by ``scripts/generate_semantics.py`` from real JAX, says which function follows which
rule of :mod:`shardfix.semantics.rules`. All answers are sound: an argument of which little is known makes the result
wider, never wrong. The table is read on the first question.
"""

from __future__ import annotations

import ast
import operator
import re
import tomllib
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from shardfix.semantics.rules.arguments import (
    STATIC,
    Bound,
    Parameters,
    integer,
    is_scalar,
    rank_of,
    varying_of,
)
from shardfix.semantics.rules.collectives import COLLECTIVES
from shardfix.semantics.rules.library import RULES
from shardfix.semantics.values import (
    ANY_RANK,
    UNKNOWN,
    UNKNOWN_VARYING,
    Array,
    BoundMethod,
    Constant,
    Dict,
    JaxObject,
    Number,
    Rank,
    Sequence,
    Value,
    Varying,
    map_leaves,
)

__all__ = ["AT", "attribute", "binary", "call", "compare", "index", "known_callables", "method", "row", "unary"]


@dataclass(frozen=True)
class Row:
    """One callable of the table: its parameters, its rule, and the parameters that play the rule's roles."""

    parameters: Parameters
    rule: str
    roles: tuple[str | int, ...]
    carried: tuple[str, ...]
    """Parameters whose mesh axes the result certainly varies over."""
    arrays_only: bool = False
    """Whether a tuple or list is no array here, but several operands (or an error): so in ``jax.lax``."""


@cache
def _texts() -> dict[str, tuple[str, str]]:
    """The rule and the parameters of each callable, as they are written."""
    text = Path(__file__).with_name("jax_semantics.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    found: dict[str, tuple[str, str]] = {}
    for rule, groups in table["rules"].items():
        for parameters, lines in groups.items():
            for line in lines.splitlines():
                module, _, names = line.partition(": ")
                for name in names.split():
                    found[f"{module}.{name}"] = rule, parameters
    for name in table["numpy"]["alike"].split():
        found[f"numpy.{name}"] = found[f"jax.numpy.{name}"]
    return found


_RULE = re.compile(r"(\w+)\((.*)\)(?: carries (.*))?")


def parse_row(rule: str, parameters: str) -> Row:
    """A row from its text: ``take(a, indices, axis)``. The result varies over what the roles vary over, or over what
    follows ``carries`` does; ``carries none`` leaves it open."""
    match = _RULE.fullmatch(rule)
    if match is None:
        raise ValueError(f"not a rule: {rule!r}")
    roles = tuple(int(role) if role.lstrip("-").isdigit() else role for role in _names(match[2]))
    carried = (
        _names(match[3]) if match[3] else tuple(role for role in roles if isinstance(role, str) and role not in STATIC)
    )
    return Row(Parameters.parse(parameters), match[1], roles, () if carried == ("none",) else carried)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


_OF_SEQUENCES = frozenset({"concatenate", "items_plus", "one_or_many", "reduce_many", "same_pytree", "mixed_pytree"})


@cache
def row(dotted: str) -> Row | None:
    """The row of that callable; None where the table has none."""
    text = _texts().get(dotted)
    if text is None:
        return None
    found = parse_row(*text)
    return replace(found, arrays_only=dotted.startswith("jax.lax.") and found.rule not in _OF_SEQUENCES)


def known_callables() -> frozenset[str]:
    """The names of all callables of which a rule is known."""
    return frozenset(_texts()) | frozenset(f"jax.lax.{name}" for name in COLLECTIVES)


@cache
def _collective(dotted: str) -> tuple[Parameters, Callable[[Bound], Value]] | None:
    module, _, name = dotted.rpartition(".")
    if module != "jax.lax" or name not in COLLECTIVES:
        return None
    parameters, rule = COLLECTIVES[name]
    return Parameters.parse(parameters), rule


def call(
    dotted: str, arguments: Sequence_[Value], keywords: Mapping[str, Value], *, exact_arguments: bool = True
) -> Value | None:
    """What a call of that callable gives; None where the table does not have it.

    What an initializer factory makes is called by the name of the factory and ``()``: ``jax.nn.initializers.normal()``.

    ``exact_arguments`` is False where more arguments may be passed than these (``*args`` or ``**kwargs`` of which
    the content is not known). Arguments that come after an unknown ``*args`` must not be among ``arguments``.
    """
    if dotted.startswith("math."):
        return Number()
    collective = _collective(dotted)
    if collective is not None:
        bound = Bound.bind(collective[0], arguments, keywords, exact_arguments)
        return UNKNOWN if bound is None else collective[1](bound)
    if f"{dotted}()" in _texts():
        return JaxObject(f"{dotted}()")
    found = row(dotted) or _ufunc_method(dotted)
    return None if found is None else apply(found, arguments, keywords, exact_arguments)


_UFUNC_METHODS = {
    "reduce": ("reduction(a, axis, keepdims, where)", "a axis=0 dtype= out= keepdims=False initial= where="),
    "accumulate": ("elementwise(a)", "a axis=0 dtype= out="),
    "outer": ("sum_of_ranks(a, b, 0)", "a b"),
}


@cache
def _ufunc_method(dotted: str) -> Row | None:
    """``jnp.add.reduce`` and the like."""
    function, _, name = dotted.rpartition(".")
    found = row(function) if name in _UFUNC_METHODS else None
    return parse_row(*_UFUNC_METHODS[name]) if found is not None and found.rule == "elementwise" else None


def apply(
    found: Row, arguments: Sequence_[Value], keywords: Mapping[str, Value], exact_arguments: bool = True
) -> Value:
    """The result of a call by the rule of a row."""
    bound = Bound.bind(found.parameters, arguments, keywords, exact_arguments)
    if bound is None or not bound.understood:
        return UNKNOWN
    if found.arrays_only and any(isinstance(bound.get(name), Sequence | Dict) for name in found.carried):
        return UNKNOWN
    result = RULES[found.rule](bound, *found.roles)
    if found.rule == "same_pytree":
        return result
    varying = bound.varying(found.carried)
    return _finished(result, varying, _reduced((*bound.given.values(), *bound.variadic), varying))


def _finished(result: Value, varying: Varying, reduced: frozenset[str]) -> Value:
    """The arrays of a rule's result, with what they vary over unless the rule has said it."""

    def finished(leaf: Value) -> Value:
        if not isinstance(leaf, Array):
            return leaf
        return Array(leaf.rank, varying if leaf.varying == UNKNOWN_VARYING else leaf.varying, reduced)

    return map_leaves(finished, result)


def _reduced(values: Sequence_[Value], varying: Varying) -> frozenset[str]:
    """The axes over which a collective has made the arguments, and so the result, the same."""
    arrays = [value for value in values if isinstance(value, Array)]
    if not any(array.reduced for array in arrays):
        return frozenset()
    if varying.at_most is not None:
        return frozenset[str]().union(*(array.reduced for array in arrays)) - varying.at_most
    return frozenset.intersection(*(array.reduced for array in arrays))


# ------------------------------------------------------------------------------------------- methods and attributes

_SAME = frozenset({"T", "mT", "real", "imag"})
_NUMBERS = frozenset({"size", "nbytes", "itemsize", "weak_type", "is_fully_replicated", "is_fully_addressable"})
_UNKNOWN = frozenset(
    {"dtype", "sharding", "device", "aval", "vma", "format", "flat", "addressable_shards", "global_shards", "committed"}
)


def attribute(owner: Value, name: str) -> Value | None:
    """An attribute of an array; a :class:`BoundMethod` for its methods; None for what is no array."""
    if not isinstance(owner, Array):
        return None
    if name in _SAME:
        return Array(owner.rank, owner.varying, owner.reduced)
    if name == "shape":
        exact = owner.rank.exact
        return Sequence(None, rest=Number()) if exact is None else Sequence((Number(),) * exact)
    if name == "ndim":
        return Number() if owner.rank.exact is None else Constant(owner.rank.exact)
    if name in _NUMBERS:
        return Number()
    return UNKNOWN if name in _UNKNOWN else BoundMethod(owner, name)


_UPDATES = frozenset({"set", "add", "subtract", "mul", "multiply", "divide", "power", "max", "min"})
AT = "at[...]"


def method(
    owner: Value,
    name: str,
    arguments: Sequence_[Value],
    keywords: Mapping[str, Value],
    *,
    exact_arguments: bool = True,
) -> Value | None:
    """What a method gives of an array, or of ``x.at[...]``; None where it is not known."""
    if name.startswith(AT):
        return _update(owner, name.removeprefix(AT).removeprefix("."), arguments, keywords, exact_arguments)
    if not isinstance(owner, Array):
        return None
    if name == "item":
        return Number()
    if name in ("block_until_ready", "to_device"):
        return Array(owner.rank, owner.varying, owner.reduced)
    found = row(f"jax.Array.{name}")
    return None if found is None else apply(found, (owner, *arguments), keywords, exact_arguments)


def _update(
    owner: Value, name: str, arguments: Sequence_[Value], keywords: Mapping[str, Value], exact: bool
) -> Value | None:
    """A method of ``x.at[index]``. ``owner`` holds the array, what ``x[index]`` is, and what the index varies over."""
    if not isinstance(owner, Sequence) or owner.items is None or len(owner.items) != 2:
        return None
    array, indexed = owner.items
    if not isinstance(array, Array) or not isinstance(indexed, Array):
        return None
    if name == "get":
        return indexed
    if name == "apply":
        return Array(array.rank, Varying(indexed.varying.at_least, None))
    if name not in _UPDATES:
        return UNKNOWN
    values = keywords.get("values", arguments[0] if arguments else UNKNOWN)
    varying = indexed.varying.union(varying_of(values))
    return Array(array.rank, varying, _reduced((array, indexed, values), varying))


# -------------------------------------------------------------------------------------------------------- operators

_OPERATORS: dict[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def binary(op: ast.operator, left: Value, right: Value) -> Value | None:
    """``left op right`` for arrays and numbers; None where neither is one."""
    if is_scalar(left) and is_scalar(right):
        if type(op) in _OPERATORS and isinstance(left, Constant) and isinstance(right, Constant):
            try:
                return Constant(_OPERATORS[type(op)](left.value, right.value))
            except (ArithmeticError, TypeError):
                return UNKNOWN
        return Number()
    if not isinstance(left, Array) and not isinstance(right, Array):
        return None
    if not _may_be_operand(left) or not _may_be_operand(right):
        return UNKNOWN
    name = "jax.numpy.matmul" if isinstance(op, ast.MatMult) else "jax.numpy.add"
    return call(name, (left, right), {})


def unary(op: ast.unaryop, operand: Value) -> Value | None:
    """``op operand`` for an array; None for what is none."""
    if not isinstance(operand, Array):
        return None
    return Number() if isinstance(op, ast.Not) else Array(operand.rank, operand.varying, operand.reduced)


def compare(op: ast.cmpop, left: Value, right: Value) -> Value | None:
    """``left op right`` where either is an array; None where neither is."""
    if not isinstance(left, Array) and not isinstance(right, Array):
        return None
    if isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn):
        return Number()
    if not _may_be_operand(left) or not _may_be_operand(right):
        return UNKNOWN
    return call("jax.numpy.add", (left, right), {})


def _may_be_operand(value: Value) -> bool:
    """Whether a value may stand beside an array in an operation: what is not known, is taken for an array."""
    return is_scalar(value) or isinstance(value, Array) or value == UNKNOWN or isinstance(value, Sequence)


# --------------------------------------------------------------------------------------------------------- indexing


def index(owner: Value, key: Value) -> Value | None:
    """``owner[key]`` for an array, and ``x.at[key]``; None for other owners.

    A slice is any ``Constant(slice(...))``; several indices are a tuple :class:`Sequence` of such values.
    """
    if isinstance(owner, BoundMethod) and owner.name == "at" and isinstance(owner.owner, Array):
        indexed = index(owner.owner, key)
        return BoundMethod(Sequence((owner.owner, indexed or UNKNOWN)), AT)
    if isinstance(owner, BoundMethod) and owner.name == AT:
        return None
    if not isinstance(owner, Array):
        return None
    several = isinstance(key, Sequence) and key.kind == "tuple"
    keys = (key.items if isinstance(key, Sequence) else None) if several else (key,)
    varying = owner.varying.union(varying_of(key))
    rank = ANY_RANK if keys is None else _indexed_rank(owner.rank, keys)
    return Array(rank, varying, _reduced((owner, *(keys or ())), varying))


def _indexed_rank(rank: Rank, keys: Sequence_[Value]) -> Rank:
    consumed = added = 0
    advanced: Rank | None = None
    masks: Rank | None = Rank.exactly(0)
    for key in keys:
        value = _index_constant(key)
        if isinstance(value, Constant) and (value.value is None):
            added += 1
        elif isinstance(value, Constant) and (isinstance(value.value, slice) or value.value is ...):
            continue
        elif isinstance(value, Constant) and isinstance(value.value, bool):
            advanced = (advanced or Rank.exactly(0)).broadcast(Rank.exactly(1))
        elif integer(value) is not None or isinstance(value, Number):
            consumed += 1
        elif isinstance(value, Array | Sequence):
            inner = rank_of(value)
            consumed += 1
            if not (inner.high is not None and inner.high <= 1) and not varying_of(value).at_least:
                masks = None  # a mask, if known when traced, takes as many axes as it has
            advanced = (advanced or Rank.exactly(0)).broadcast(inner)
        else:
            return ANY_RANK
    if masks is None:
        return Rank(0, None if rank.high is None or advanced is None or advanced.high is None else
                    rank.high + added + advanced.high)  # fmt: skip
    result = rank.plus(added - consumed)
    if advanced is None:
        return result
    high = None if result.high is None or advanced.high is None else result.high + advanced.high
    return Rank(result.low + advanced.low, high)


def _index_constant(key: Value) -> Value:
    if isinstance(key, JaxObject) and key.dotted in ("jax.numpy.newaxis", "numpy.newaxis"):
        return Constant(None)
    return key
