"""Pytrees: their slices, stacks and leaves, and functions mapped over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardfix.semantics import rank_rules
from shardfix.semantics.interpreter.invocation import Invocation
from shardfix.semantics.values import (
    ANY_RANK,
    UNKNOWN,
    UNKNOWN_VARYING,
    Array,
    Constant,
    Dict,
    Instance,
    Number,
    Sequence,
    Spec,
    Text,
    Tree,
    Unknown,
    Value,
    Varying,
    as_array,
    is_number,
    join,
    join_all,
    map_leaves,
)


def leaf_of(value: Value) -> Value:
    """A value as a function of arrays sees it: not a pytree, or the call would fail."""
    return value.leaf if isinstance(value, Tree) else value


def array_leaf(value: Value) -> Value:
    return as_array(value) if is_number(value) else value


def iterated(value: Value) -> Value:
    """One item of an iterable."""
    match value:
        case Sequence():
            return join_all(value.items) if value.items else (value.rest if value.items is None else UNKNOWN)
        case Array():
            return rank_rules.index(value, Constant(0)) or UNKNOWN
        case Tree():
            item = as_array(rank_rules.index(value.leaf, Constant(0)) or Array(varying=value.leaf.varying))
            return Tree(as_array(join(item, value.leaf)))
        case Dict() if value.complete:
            return join_all(Text(key) if isinstance(key, str) else Constant(key) for key, _ in value.items)
        case Spec(entries=tuple()):
            return UNKNOWN
    return UNKNOWN


def first_slices(value: Value) -> Value:
    """The slices that scan, map and vmap hand to their function: one leading axis fewer."""
    return map_leaves(_drop_axis, value)


def _drop_axis(value: Value) -> Value:
    match value:
        case Array():
            return replace(value, rank=value.rank.plus(-1))
        case Tree():
            return Tree(replace(value.leaf, rank=value.leaf.rank.plus(-1)))
        case Constant(value=None):
            return value
    return UNKNOWN


def stacked(value: Value) -> Value:
    """The results of all steps in one: one leading axis more."""
    return map_leaves(_add_axis, value)


def _add_axis(value: Value) -> Value:
    match value:
        case Array() | Number() | Constant():
            array = as_array(value)
            return replace(array, rank=array.rank.plus(1))
        case Tree():
            return Tree(replace(value.leaf, rank=value.leaf.rank.plus(1)))
    return UNKNOWN


def arrays(value: Value) -> Value:
    """What comes out of a traced function: Python numbers have become arrays of rank 0."""
    return map_leaves(lambda leaf: as_array(leaf) if is_number(leaf) else leaf, value)


def same_types(a: Value, b: Value, checked: bool) -> Value:
    """What holds of two values, either of which may be meant, that have the same pytree structure and the same ranks.

    ``checked``: whether they vary over the same mesh axes too, because JAX saw to it.
    """
    match a, b:
        case Sequence(items=tuple() as first), Sequence(items=tuple() as second) if len(first) == len(second):
            return replace(a, items=tuple(same_types(x, y, checked) for x, y in zip(first, second, strict=True)))
        case Dict(complete=True), Dict(complete=True) if {key for key, _ in a.items} == {key for key, _ in b.items}:
            return replace(
                a, items=tuple((key, same_types(item, b.get(key) or UNKNOWN, checked)) for key, item in a.items)
            )
        case Instance(), Instance() if a.cls == b.cls:
            names = dict.fromkeys([name for name, _ in (*a.attributes, *b.attributes)])
            return Instance(
                a.cls,
                tuple((name, same_types(a.get(name) or UNKNOWN, b.get(name) or UNKNOWN, checked)) for name in names),
                a.changed or b.changed,
            )
        case Array(), Array():
            rank = a.rank.meet(b.rank)
            return Array(
                rank, _same_varying(a.varying, b.varying, checked), a.reduced & b.reduced, a.origin or b.origin
            )
        case Tree(), Tree():
            return join(a, b)
        case ((Sequence() | Dict() | Instance() | Array()), Unknown()):
            return map_leaves(lambda leaf: leaf if leaf == UNKNOWN else _as_other(leaf, Array(), checked), a)
        case Unknown(), (Sequence() | Dict() | Instance() | Array()):
            return same_types(b, a, checked)
        case ((Sequence() | Dict() | Instance()), Tree()):
            return map_leaves(lambda leaf: _as_other(leaf, replace(b.leaf, rank=ANY_RANK), checked), a)
        case Tree(), (Sequence() | Dict() | Instance()):
            return same_types(b, a, checked)
    return join(a, b)


def _as_other(leaf: Value, other: Array, checked: bool) -> Value:
    if isinstance(leaf, Tree):
        return Tree(as_array(_as_other(leaf.leaf, other, checked)))
    return same_types(leaf, other, checked) if isinstance(leaf, Array) else leaf


def _same_varying(a: Varying, b: Varying, checked: bool) -> Varying:
    if not checked:
        return a.join(b)
    bounds = [most for most in (a.at_most, b.at_most) if most is not None]
    return Varying(a.at_least | b.at_least, frozenset[str]().union(*bounds) if bounds else None)


def loosened(leaf: Value) -> Value:
    """A leaf of which only the rank is known."""
    match leaf:
        case Array():
            return replace(leaf, varying=UNKNOWN_VARYING, reduced=frozenset())
        case Tree():
            return Tree(replace(leaf.leaf, varying=UNKNOWN_VARYING, reduced=frozenset()))
    return leaf


def _tree_map(call: Invocation) -> Value:
    if not call.arguments or not call.exact or "is_leaf" in call.keywords:
        return UNKNOWN
    function, *trees = call.arguments
    if len(trees) == 0:
        return UNKNOWN
    return _mapped_tree(call, function, tuple(trees))


def _mapped_tree(call: Invocation, function: Value, trees: tuple[Value, ...]) -> Value:
    first = trees[0]
    match first:
        case Sequence(items=tuple() as items):
            columns = [_parts(tree, len(items)) for tree in trees[1:]]
            mapped = tuple(
                _mapped_tree(call, function, (item, *(column[i] for column in columns))) for i, item in enumerate(items)
            )
            return replace(first, items=mapped)
        case Sequence(items=None):
            return replace(first, rest=_mapped_tree(call, function, (first.rest, *([UNKNOWN] * (len(trees) - 1)))))
        case Dict():
            mapped_items = []
            for key, item in first.items:
                others = [tree.get(key) if isinstance(tree, Dict) else tree for tree in trees[1:]]
                mapped_items.append(
                    (key, _mapped_tree(call, function, (item, *(other or UNKNOWN for other in others))))
                )
            return Dict(tuple(mapped_items), first.complete)
        case Tree():
            result = call.apply(function, *(leaf_of(tree) for tree in trees))
            return Tree(as_array(result)) if isinstance(result, Array) or is_number(result) else UNKNOWN
        case Array() | Number() | Constant():
            return first if first == Constant(None) else call.apply(function, *(leaf_of(tree) for tree in trees))
    call.apply(function, *([UNKNOWN] * len(trees)))
    return UNKNOWN


def _parts(value: Value, count: int) -> list[Value]:
    if isinstance(value, Sequence) and value.items is not None and len(value.items) == count:
        return list(value.items)
    return [UNKNOWN] * count


def _tree_leaves(call: Invocation) -> Value:
    leaves: list[Value] = []

    def collect(value: Value) -> Value:
        leaves.append(value)
        return value

    if not call.arguments or not call.exact or "is_leaf" in call.keywords:
        return UNKNOWN
    map_leaves(collect, call.arguments[0])
    ordered = _leaves(call.arguments[0])
    if ordered is not None:
        return Sequence(tuple(ordered), "list")
    return Sequence(None, "list", join_all(leaf_of(leaf) for leaf in leaves) if leaves else UNKNOWN)


def _leaves(value: Value) -> list[Value] | None:
    """The leaves in JAX's order; None where the structure is not known."""
    children: list[Value] = []
    match value:
        case Sequence(items=tuple() as items) if value.kind in ("tuple", "list"):
            children = list(items)
        case Dict(complete=True) if all(isinstance(key, str) for key, _ in value.items):
            children = [item for _, item in sorted(value.items, key=lambda entry: entry[0])]
        case Constant(value=None):
            return []
        case Array() | Number() | Constant():
            return [value]
        case _:
            return None
    found: list[Value] = []
    for child in children:
        inner = _leaves(child)
        if inner is None:
            return None
        found += inner
    return found


def _tree_reduce(call: Invocation) -> Value:
    function, tree = call.get("function", 0), call.get("tree", 1)
    leaves = _leaves(tree) if tree is not None else None
    if function is None or not leaves or not call.exact or len(leaves) > 32 or "is_leaf" in call.keywords:
        return UNKNOWN
    initial = call.get("initializer", 2)
    first, *rest = leaves if initial is None else [initial, *leaves]
    for leaf in rest:
        first = call.apply(function, first, leaf)
    return first


HANDLERS: dict[str, Callable[[Invocation], Value]] = {
    "jax.tree.map": _tree_map,
    "jax.tree.leaves": _tree_leaves,
    "jax.tree.reduce": _tree_reduce,
}
"""What gives the result of a call, by the callee's name."""
