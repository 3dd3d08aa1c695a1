"""The rules by name, and what all of them are made of.

A rule gets the bound arguments and the names of the parameters that play its roles (or whole numbers), as
``jax_semantics.toml`` writes them: ``reduction(a, axis, keepdims)``. It gives ranks; what the arrays vary over is
filled in afterwards where the rule does not say it.
"""

from __future__ import annotations

from collections.abc import Callable

from shardfix.semantics.rules.arguments import Bound, is_none, rank_of
from shardfix.semantics.values import Array, Rank, Sequence, Value, join

__all__ = ["RULES", "Rule", "array", "arrays", "broadcast_rank", "either", "rule"]

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
