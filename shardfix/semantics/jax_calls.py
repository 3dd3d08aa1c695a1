"""What the interpreter knows of calls beyond ranks: specs, meshes, shardings, transforms, control flow, pytrees, maps.

Everything else is asked of :mod:`shardfix.semantics.rank_rules`, whose table is generated from real JAX.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from shardfix.semantics import rank_rules
from shardfix.semantics.values import (
    INVARIANT,
    UNKNOWN,
    UNKNOWN_VARYING,
    Array,
    Class,
    Constant,
    Dict,
    Function,
    Instance,
    JaxObject,
    Mapped,
    MapSite,
    Mesh,
    Number,
    Partial,
    Rank,
    Sequence,
    Sharding,
    Spec,
    Text,
    Transformed,
    Tree,
    Value,
    Varying,
    as_array,
    is_number,
    join,
    join_all,
    map_leaves,
)

if TYPE_CHECKING:
    from shardfix.semantics.interpreter import Environment, FunctionRun, Interpreter
    from shardfix.semantics.module import Module

__all__ = ["CANONICAL", "Evaluation", "call", "canonical"]

CANONICAL = {
    "jax.P": "jax.sharding.PartitionSpec",
    "jax.NamedSharding": "jax.sharding.NamedSharding",
    "jax.reshard": "jax.sharding.reshard",
    "jax.experimental.shard.reshard": "jax.sharding.reshard",
    "jax.experimental.shard.auto_axes": "jax.sharding.auto_axes",
    "jax.experimental.shard.explicit_axes": "jax.sharding.explicit_axes",
    "jax.sharding.set_mesh": "jax.set_mesh",
    "jax.sharding.use_mesh": "jax.set_mesh",
    "jax.experimental.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax.experimental.pjit.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax.experimental.pjit.NamedSharding": "jax.sharding.NamedSharding",
    "jax.experimental.pjit.with_sharding_constraint": "jax.lax.with_sharding_constraint",
    "jax.experimental.shard_map.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax.experimental.shard_map.P": "jax.sharding.PartitionSpec",
    "jax.experimental.shard_map.Mesh": "jax.sharding.Mesh",
    "jax.experimental.multihost_utils.P": "jax.sharding.PartitionSpec",
    "jax.interpreters.pxla.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax.interpreters.pxla.Mesh": "jax.sharding.Mesh",
    "jax.experimental.maps.Mesh": "jax.sharding.Mesh",
    "jax._src.mesh.Mesh": "jax.sharding.Mesh",
    "jax._src.shard_map.shard_map": "jax.shard_map",
    "jax.experimental.pjit.pjit": "jax.jit",
    "jax.remat": "jax.checkpoint",
    "jax.ad_checkpoint.checkpoint": "jax.checkpoint",
    "jax.ad_checkpoint.remat": "jax.checkpoint",
    "jax.tree_util.tree_map": "jax.tree.map",
    "jax.tree_map": "jax.tree.map",
    "jax.tree_util.tree_leaves": "jax.tree.leaves",
    "jax.tree_leaves": "jax.tree.leaves",
    "jax.tree_util.Partial": "functools.partial",
}
"""Other homes and spellings of one object."""

MAPS = frozenset({"jax.shard_map", "jax.experimental.shard_map.shard_map", "jax.smap"})
SAME_CALL = frozenset(
    {
        "jax.jit",
        "jax.checkpoint",
        "jax.named_call",
        "jax.custom_jvp",
        "jax.custom_vjp",
        "jax.custom_gradient",
        "jax.sharding.auto_axes",
        "jax.sharding.explicit_axes",
        "jax.profiler.annotate_function",
    }
)
"""Transforms whose result is called as the function itself is."""
TRANSFORMS = SAME_CALL | {
    "jax.vmap",
    "jax.grad",
    "jax.value_and_grad",
    "jax.jacfwd",
    "jax.jacrev",
    "jax.jacobian",
    "jax.hessian",
}
SAME_VALUE = frozenset(
    {
        "jax.device_put",
        "jax.lax.with_sharding_constraint",
        "jax.sharding.reshard",
        "jax.lax.optimization_barrier",
        "jax.lax.stop_gradient",
        "jax.block_until_ready",
        "jax.ad_checkpoint.checkpoint_name",
        "jax.device_get",
        "jax.debug.callback",
    }
) - {"jax.debug.callback"}
"""Functions that give their first argument, pytree or not, back with its ranks."""
SHARDING_KEYWORDS = frozenset(
    {"out_sharding", "in_specs", "out_specs", "in_shardings", "out_shardings", "shardings", "sharding", "device", "in_sharding"}
)


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of a call of a JAX function that takes shardings."""

    module: Module = field(repr=False)
    node: ast.expr = field(repr=False)
    dotted: str
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]

    def argument(self, name: str, index: int | None = None) -> Value | None:
        """The value of an argument; None where it is not given."""
        known = dict(self.keywords).get(name)
        if known is None and index is not None and index < len(self.arguments):
            return self.arguments[index]
        return known


def canonical(dotted: str) -> str:
    """One name for objects that have several."""
    return CANONICAL.get(dotted, dotted)


def call(
    interpreter: Interpreter,
    dotted: str,
    arguments: tuple[Value, ...],
    keywords: Mapping[str, Value],
    environment: Environment,
    node: ast.expr,
    exact: bool,
    missing: Value = UNKNOWN,
) -> Value:
    """The result of a call of something outside the project."""
    name = canonical(dotted)
    if isinstance(node, ast.Call) and not SHARDING_KEYWORDS.isdisjoint(keywords):
        seen = Evaluation(environment.module, node, dotted, arguments, tuple(keywords.items()))
        interpreter.trace.calls.setdefault(node, []).append(seen)
    if name in MAPS:
        return _map(interpreter, name, arguments, keywords, environment, node, exact)
    if name in TRANSFORMS:
        function = arguments[0] if arguments else keywords.get("fun", keywords.get("f"))
        if function is None:
            return Partial(JaxObject(dotted), (), tuple(keywords.items())) if exact else UNKNOWN
        return Transformed(name, function, arguments[1:], tuple(keywords.items())) if exact else UNKNOWN
    if name in SAME_VALUE and arguments:
        return map_leaves(lambda leaf: _array_leaf(leaf), arguments[0])
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(_Call(interpreter, name, arguments, keywords, environment, node, exact))
    plain = [leaf_of(argument) for argument in arguments]
    if not exact and missing != UNKNOWN:
        plain = plain or [leaf_of(missing)]
    options = {key: leaf_of(value) for key, value in keywords.items()}
    return rank_rules.call(dotted, plain, options, exact_arguments=exact) or UNKNOWN


def leaf_of(value: Value) -> Value:
    """A value as a function of arrays sees it: not a pytree, or the call would fail."""
    return value.leaf if isinstance(value, Tree) else value


def _array_leaf(value: Value) -> Value:
    return as_array(value) if is_number(value) else value


@dataclass(frozen=True)
class _Call:
    """The parts of a call, handed to a handler."""

    interpreter: Interpreter
    name: str
    arguments: tuple[Value, ...]
    keywords: Mapping[str, Value]
    environment: Environment
    node: ast.expr
    exact: bool

    def get(self, name: str, index: int | None = None) -> Value | None:
        if name in self.keywords:
            return self.keywords[name]
        return self.arguments[index] if index is not None and index < len(self.arguments) else None

    def apply(self, function: Value, *arguments: Value) -> Value:
        return self.interpreter.call(function, arguments, {}, self.environment, self.node, exact=True)


# Specs, meshes, shardings


def spec_entry(value: Value) -> Any:
    """One argument of ``PartitionSpec`` as an entry; ``...`` where it is not known."""
    match value:
        case Constant(value=None):
            return None
        case Text(value=str() as name):
            return name
        case Sequence(items=tuple() as items) if all(isinstance(item, Text) and item.value is not None for item in items):
            return tuple(item.value for item in items)  # type: ignore[attr-defined]
    return ...


def _partition_spec(call: _Call) -> Value:
    special = not {"unreduced", "reduced"}.isdisjoint(call.keywords)
    if not call.exact:
        return Spec(None, special)
    return Spec(tuple(map(spec_entry, call.arguments)), special)


def add_specs(left: Spec, right: Spec | Sequence) -> Value:
    """``P(...) + P(...)`` and ``P(...) + (...)``: a PartitionSpec since JAX 0.6."""
    if left.entries is None:
        return Spec(None, left.special)
    if isinstance(right, Spec):
        return Spec(None if right.entries is None else left.entries + right.entries, left.special or right.special)
    if right.items is None:
        return Spec(None, left.special)
    return Spec(left.entries + tuple(map(spec_entry, right.items)), left.special)


def axis_names(value: Value | None) -> tuple[str, ...] | None:
    """Axis names given as a string or as a sequence of strings; None where unknown."""
    match value:
        case Text(value=str() as name):
            return (name,)
        case Sequence(items=tuple() as items) if all(isinstance(item, Text) and item.value is not None for item in items):
            return tuple(item.value for item in items)  # type: ignore[attr-defined]
    return None


def _sizes(value: Value | None) -> tuple[int | None, ...] | None:
    match value:
        case Sequence(items=tuple() as items):
            return tuple(item.value if isinstance(item, Constant) and isinstance(item.value, int) else None for item in items)
        case Constant(value=int() as size):
            return (size,)
    return None


def _axis_types(value: Value | None) -> tuple[str, ...] | None:
    items = value.items if isinstance(value, Sequence) else (value,)
    names = []
    for item in items or ():
        if not isinstance(item, JaxObject) or ".AxisType" not in item.dotted:
            return None
        names.append(item.dotted.rpartition(".")[2])
    return tuple(names) or None


def _mesh(call: _Call) -> Value:
    names = call.get("axis_names", 1)
    if names is None and call.name.endswith("AbstractMesh"):
        return Mesh(abstract=True)  # the pairs form of JAX before 0.5.3
    axes = axis_names(names)
    sizes = _sizes(call.get("axis_shapes", 0) or call.get("axis_sizes")) if call.name != "jax.sharding.Mesh" else None
    types = call.get("axis_types", 2)
    if axes is not None and sizes is not None and len(axes) != len(sizes):
        sizes = None
    if types is None or types == Constant(None):
        default = call.name != "jax.sharding.Mesh"
        known = None if default or axes is None else ("Auto",) * len(axes)
        return Mesh(axes, sizes, known, default and call.exact, call.name.endswith("AbstractMesh"))
    known = _axis_types(types)
    if known is not None and axes is not None and len(known) != len(axes):
        known = None
    return Mesh(axes, sizes, known, False, call.name.endswith("AbstractMesh"))


def _named_sharding(call: _Call) -> Value:
    return Sharding(call.get("mesh", 0) or UNKNOWN, call.get("spec", 1) or UNKNOWN)


def entered_context(value: Value) -> Value:
    """What ``with value as name`` binds."""
    match value:
        case Mesh():
            return value
    return UNKNOWN


def _set_mesh(call: _Call) -> Value:
    mesh = call.get("mesh", 0)
    return mesh if isinstance(mesh, Mesh) else UNKNOWN


def attribute(owner: Value, name: str) -> Value | None:
    """The attributes of meshes, shardings, specs and AxisType; None where there is nothing special to know."""
    match owner, name:
        case Mesh(), "axis_names":
            return Sequence(tuple(map(Text, owner.axes))) if owner.axes is not None else Sequence(None, rest=Text())
        case Mesh(), "abstract_mesh" | "mesh":
            return owner
        case Mesh(), "axis_sizes" if owner.sizes is not None:
            return Sequence(tuple(Number() if size is None else Constant(size) for size in owner.sizes))
        case Mesh(), "size":
            return Number()
        case Mesh(), "shape":
            if owner.axes is None or owner.sizes is None:
                return Dict((), complete=False)
            sizes = (Number() if size is None else Constant(size) for size in owner.sizes)
            return Dict(tuple(zip(owner.axes, sizes, strict=True)))
        case Sharding(), "mesh":
            return owner.mesh
        case Sharding(), "spec":
            return owner.spec
    return None


def from_annotation(interpreter: Interpreter, annotation: ast.expr | None, environment: Environment) -> Value:
    """What the annotation of a parameter says of its value."""
    if annotation is None:
        return UNKNOWN
    if isinstance(annotation, ast.Name | ast.Attribute):
        for dotted in environment.module.resolve(annotation):
            match canonical(dotted):
                case "jax.sharding.Mesh":
                    return Mesh()
                case "jax.sharding.AbstractMesh":
                    return Mesh(abstract=True)
                case "jax.sharding.NamedSharding":
                    return Sharding()
                case "jax.sharding.PartitionSpec":
                    return Spec(None)
        found = environment.module.definition(annotation)
        if found is not None and isinstance(found[1], ast.ClassDef):
            return Instance(Class(found[0], found[1]))
    return UNKNOWN


def field_default(interpreter: Interpreter, default: ast.expr, environment: Environment) -> Value:
    """The default of a dataclass field; ``field(default=...)`` is looked into."""
    if isinstance(default, ast.Call) and ast.unparse(default.func).rpartition(".")[2] == "field":
        for keyword in default.keywords:
            if keyword.arg == "default":
                return interpreter.evaluate(keyword.value, environment)
            if keyword.arg == "default_factory":
                factory = interpreter.evaluate(keyword.value, environment)
                return interpreter.call(factory, (), {}, environment, default, exact=True)
        return UNKNOWN
    return interpreter.evaluate(default, environment)


# Pytrees and containers


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


def _first(value: Value) -> Value:
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


def _stack(value: Value) -> Value:
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


def _arrays(value: Value) -> Value:
    """What comes out of a traced function: Python numbers have become arrays of rank 0."""
    return map_leaves(lambda leaf: as_array(leaf) if is_number(leaf) else leaf, value)


def _tree_map(call: _Call) -> Value:
    if not call.arguments or not call.exact:
        return UNKNOWN
    function, *trees = call.arguments
    if len(trees) == 0:
        return UNKNOWN
    return _mapped_tree(call, function, tuple(trees))


def _mapped_tree(call: _Call, function: Value, trees: tuple[Value, ...]) -> Value:
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
                mapped_items.append((key, _mapped_tree(call, function, (item, *(other or UNKNOWN for other in others)))))
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


def _tree_leaves(call: _Call) -> Value:
    leaves: list[Value] = []

    def collect(value: Value) -> Value:
        leaves.append(value)
        return value

    if not call.arguments:
        return UNKNOWN
    map_leaves(collect, call.arguments[0])
    return Sequence(None, "list", join_all(leaf_of(leaf) for leaf in leaves) if leaves else UNKNOWN)


# Control flow


def _scan(call: _Call) -> Value:
    function, init, xs = call.get("f", 0), call.get("init", 1), call.get("xs", 2)
    if function is None or init is None:
        return UNKNOWN
    element = Constant(None) if xs is None else _first(xs)
    carry, stacked = _arrays(init), UNKNOWN
    for _ in range(3):
        result = call.apply(function, carry, element)
        after, stacked = _pair(result)
        _note_disagreement(call, carry, _arrays(after))
        widened = _join_types(carry, _arrays(after))
        if widened == carry:
            break
        carry = widened
    else:
        carry = map_leaves(lambda leaf: UNKNOWN, carry)
        stacked = _pair(call.apply(function, carry, element))[1]
    return Sequence((carry, _stack(stacked)))


def _note_disagreement(call: _Call, before: Value, after: Value, path: tuple[str | int, ...] = ()) -> None:
    """Note where ``after`` certainly varies over a mesh axis that ``before`` certainly does not, inside a checked map."""
    from shardfix.semantics.interpreter import Carry

    if call.interpreter.checked is not True or not isinstance(call.node, ast.Call):
        return
    match before, after:
        case Sequence(items=tuple() as a), Sequence(items=tuple() as b) if len(a) == len(b):
            for position, (x, y) in enumerate(zip(a, b, strict=True)):
                _note_disagreement(call, x, y, (*path, position))
        case Dict(), Dict():
            for key, x in before.items:
                y = after.get(key)
                if y is not None and isinstance(key, str | int):
                    _note_disagreement(call, x, y, (*path, key))
        case Array(), Array() if before.varying.at_most is not None:
            axes = after.varying.at_least - before.varying.at_most
            if axes:
                api = call.name.rpartition(".")[2]
                call.interpreter.trace.carries.append(Carry(call.environment.module, call.node, api, path, axes))


def _pair(value: Value) -> tuple[Value, Value]:
    if isinstance(value, Sequence) and value.items is not None and len(value.items) == 2:
        return value.items
    return UNKNOWN, UNKNOWN


def _join_types(carry: Value, after: Value) -> Value:
    """A carry before and after a step. JAX demands equal types, so what the step does not know is as it was before;
    what varies on either side may vary."""
    if after == UNKNOWN:
        return map_leaves(lambda leaf: replace(leaf, varying=UNKNOWN_VARYING) if isinstance(leaf, Array) else leaf, carry)
    return join(carry, after)


def _loop(call: _Call) -> Value:
    if call.name.endswith("fori_loop"):
        body, init, lead = call.get("body_fun", 2), call.get("init_val", 3), (Array(Rank.exactly(0), INVARIANT),)
    else:
        body, init, lead = call.get("body_fun", 1), call.get("init_val", 2), ()
    if body is None or init is None:
        return UNKNOWN
    carry = _arrays(init)
    for _ in range(3):
        after = _arrays(call.apply(body, *lead, carry))
        _note_disagreement(call, carry, after)
        widened = _join_types(carry, after)
        if widened == carry:
            return carry
        carry = widened
    return map_leaves(lambda leaf: UNKNOWN, carry)


def _over(value: Value, predicate: Value | None) -> Value:
    """A branch's result may vary as the predicate does."""
    varying = as_array(predicate).varying if predicate is not None and not is_number(predicate) else INVARIANT
    if varying == INVARIANT:
        return value
    most = varying.at_most

    def widen(leaf: Value) -> Value:
        if not isinstance(leaf, Array):
            return leaf
        known = leaf.varying.at_most
        return replace(leaf, varying=Varying(leaf.varying.at_least, None if known is None or most is None else known | most))

    return map_leaves(widen, value)


def _cond(call: _Call) -> Value:
    predicate, on_true, on_false = call.get("pred", 0), call.get("true_fun", 1), call.get("false_fun", 2)
    if on_true is None or on_false is None or not call.exact:
        return UNKNOWN
    operands = call.arguments[3:]
    if "operand" in call.keywords:
        operands = (call.keywords["operand"],)
    results = [_arrays(call.apply(branch, *operands)) for branch in (on_true, on_false)]
    _note_disagreement(call, results[0], results[1])
    _note_disagreement(call, results[1], results[0])
    return _over(join_all(results), predicate)


def _switch(call: _Call) -> Value:
    branches = call.get("branches", 1)
    if not isinstance(branches, Sequence) or not branches.items or not call.exact:
        return UNKNOWN
    results = [_arrays(call.apply(branch, *call.arguments[2:])) for branch in branches.items]
    return _over(join_all(results), call.get("index", 0))


def _lax_map(call: _Call) -> Value:
    function, xs = call.get("f", 0), call.get("xs", 1)
    return _stack(call.apply(function, _first(xs))) if function is not None and xs is not None else UNKNOWN


def _associative_scan(call: _Call) -> Value:
    return _arrays(call.get("elems", 1) or UNKNOWN)


def _jvp(call: _Call) -> Value:
    function, primals = call.get("fun", 0), call.get("primals", 1)
    if function is None or not isinstance(primals, Sequence) or primals.items is None or "has_aux" in call.keywords:
        return UNKNOWN
    value = _arrays(call.apply(function, *primals.items))
    return Sequence((value, map_leaves(lambda leaf: _loosened(leaf), value)))


def _vjp(call: _Call) -> Value:
    if not call.arguments or "has_aux" in call.keywords:
        return UNKNOWN
    return Sequence((_arrays(call.apply(call.arguments[0], *call.arguments[1:])), UNKNOWN))


def _loosened(leaf: Value) -> Value:
    return replace(leaf, varying=Varying(frozenset(), None)) if isinstance(leaf, Array) else leaf


# Builtins and the standard library


def _partial(call: _Call) -> Value:
    if not call.arguments or not call.exact:
        return UNKNOWN
    return Partial(call.arguments[0], call.arguments[1:], tuple(call.keywords.items()))


def _len(call: _Call) -> Value:
    match call.arguments[:1]:
        case (Sequence(items=tuple() as items),):
            return Constant(len(items))
        case (Dict(complete=True) as known,):
            return Constant(len(known.items))
        case (Spec(entries=tuple() as entries),):
            return Constant(len(entries))
    return Number()


def _tuple_or_list(call: _Call) -> Value:
    kind = call.name.rpartition(".")[2]
    if not call.arguments:
        return Sequence((), kind)
    match call.arguments[0]:
        case Sequence() as known:
            return replace(known, kind=kind)
        case Spec(entries=tuple() as entries) if ... not in entries:
            return Sequence(tuple(_from_entry(entry) for entry in entries), kind)
        case Array() | Tree() | Dict() as known:
            return Sequence(None, kind, iterated(known))
    return Sequence(None, kind)


def _from_entry(entry: Any) -> Value:
    if isinstance(entry, tuple):
        return Sequence(tuple(map(Text, entry)))
    return Constant(None) if entry is None else Text(entry)


def _dict(call: _Call) -> Value:
    items: dict[Any, Value] = {}
    complete = call.exact
    if call.arguments:
        known = call.arguments[0]
        if isinstance(known, Dict):
            items.update(known.items)
            complete = complete and known.complete
        else:
            complete = False
    items.update(call.keywords)
    return Dict(tuple(items.items()), complete)


def _range(call: _Call) -> Value:
    bounds = [argument.value for argument in call.arguments if isinstance(argument, Constant)]
    if len(bounds) == len(call.arguments) and all(isinstance(bound, int) for bound in bounds) and 1 <= len(bounds) <= 3:
        try:
            numbers = range(*bounds)
        except ValueError:
            return UNKNOWN
        if len(numbers) <= 16:
            return Sequence(tuple(map(Constant, numbers)), "range")
    return Sequence(None, "range", Number())


def _zip(call: _Call) -> Value:
    known = [argument.items if isinstance(argument, Sequence) else None for argument in call.arguments]
    lists = [items for items in known if items is not None]
    if lists and len(lists) == len(known) and len({len(items) for items in lists}) == 1:
        return Sequence(tuple(Sequence(tuple(row)) for row in zip(*lists, strict=True)), "list")
    return Sequence(None, "list", Sequence(tuple(map(iterated, call.arguments))))


def _enumerate(call: _Call) -> Value:
    if not call.arguments:
        return UNKNOWN
    match call.arguments[0]:
        case Sequence(items=tuple() as items) if len(call.arguments) == 1:
            return Sequence(tuple(Sequence((Constant(i), item)) for i, item in enumerate(items)), "list")
    return Sequence(None, "list", Sequence((Number(), iterated(call.arguments[0]))))


def _builtin_map(call: _Call) -> Value:
    if len(call.arguments) != 2:
        return Sequence(None, "list")
    function, source = call.arguments
    if isinstance(source, Sequence) and source.items is not None and len(source.items) <= 16:
        return Sequence(tuple(call.apply(function, item) for item in source.items), "list")
    return Sequence(None, "list", call.apply(function, iterated(source)))


def _number(call: _Call) -> Value:
    name = call.name.rpartition(".")[2]
    match call.arguments:
        case (Constant(value=int() | float() | bool() as known),) if len(call.arguments) == 1 and not call.keywords:
            try:
                return Constant({"int": int, "float": float, "bool": bool, "abs": abs}[name](known))
            except (KeyError, ValueError, OverflowError):
                return Number()
    if name == "abs" and call.arguments and isinstance(call.arguments[0], Array | Tree):
        return as_array(call.arguments[0])
    return Number()


def _sum(call: _Call) -> Value:
    if not call.arguments:
        return UNKNOWN
    source = call.arguments[0]
    start = call.get("start", 1) or Constant(0)
    if isinstance(source, Sequence) and source.items is not None and len(source.items) <= 32:
        total = start
        for item in source.items:
            total = rank_rules.binary(ast.Add(), leaf_of(total), leaf_of(item)) or (
                Number() if is_number(total) and is_number(item) else UNKNOWN
            )
        return total
    item = iterated(source)
    if is_number(item) and is_number(start):
        return Number()
    if isinstance(item, Array) and isinstance(source, Array):
        return item if item.rank.low > 0 or item.rank.exact == 0 else UNKNOWN
    if isinstance(item, Array) and isinstance(source, Sequence):  # of unknown length: perhaps none, then the start alone
        return join(rank_rules.binary(ast.Add(), leaf_of(start), item) or UNKNOWN, start)
    return UNKNOWN


def _extreme(call: _Call) -> Value:
    return Number() if call.arguments and all(map(is_number, call.arguments)) else UNKNOWN


def _isinstance(call: _Call) -> Value:
    return Number()


def _text(call: _Call) -> Value:
    return Text()


def _nothing(call: _Call) -> Value:
    return Constant(None)


def _count(call: _Call) -> Value:
    return Number()


def _devices(call: _Call) -> Value:
    return Sequence(None, "list")


def _replace(call: _Call) -> Value:
    if call.arguments and isinstance(call.arguments[0], Instance):
        known = dict(call.arguments[0].attributes) | dict(call.keywords)
        return Instance(call.arguments[0].cls, tuple(known.items()))
    return UNKNOWN


def _same_function(call: _Call) -> Value:
    """A decorator that gives the function back, or a decorator factory."""
    if call.arguments and isinstance(call.arguments[0], Function):
        return call.arguments[0]
    return UNKNOWN


_HANDLERS: dict[str, Callable[[_Call], Value]] = {
    "jax.sharding.PartitionSpec": _partition_spec,
    "jax.sharding.Mesh": _mesh,
    "jax.make_mesh": _mesh,
    "jax.sharding.AbstractMesh": _mesh,
    "jax.sharding.NamedSharding": _named_sharding,
    "jax.set_mesh": _set_mesh,
    "jax.tree.map": _tree_map,
    "jax.tree.leaves": _tree_leaves,
    "jax.lax.scan": _scan,
    "jax.lax.while_loop": _loop,
    "jax.lax.fori_loop": _loop,
    "jax.lax.cond": _cond,
    "jax.lax.switch": _switch,
    "jax.lax.map": _lax_map,
    "jax.lax.associative_scan": _associative_scan,
    "jax.jvp": _jvp,
    "jax.vjp": _vjp,
    "jax.device_count": _count,
    "jax.local_device_count": _count,
    "jax.process_index": _count,
    "jax.process_count": _count,
    "jax.devices": _devices,
    "jax.local_devices": _devices,
    "jax.debug.print": _nothing,
    "functools.partial": _partial,
    "dataclasses.replace": _replace,
    "builtins.len": _len,
    "builtins.tuple": _tuple_or_list,
    "builtins.list": _tuple_or_list,
    "builtins.sorted": _tuple_or_list,
    "builtins.dict": _dict,
    "builtins.range": _range,
    "builtins.zip": _zip,
    "builtins.enumerate": _enumerate,
    "builtins.map": _builtin_map,
    "builtins.int": _number,
    "builtins.float": _number,
    "builtins.bool": _number,
    "builtins.abs": _number,
    "builtins.sum": _sum,
    "builtins.max": _extreme,
    "builtins.min": _extreme,
    "builtins.isinstance": _isinstance,
    "builtins.hasattr": _isinstance,
    "builtins.callable": _isinstance,
    "builtins.str": _text,
    "builtins.repr": _text,
    "builtins.print": _nothing,
}


def method(
    interpreter: Interpreter,
    owner: Value,
    name: str,
    arguments: tuple[Value, ...],
    keywords: Mapping[str, Value],
    environment: Environment,
    node: ast.expr,
    exact: bool,
) -> Value | None:
    """Methods of values other than arrays; None where the array rules decide."""
    if isinstance(node, ast.Call) and not SHARDING_KEYWORDS.isdisjoint(keywords):
        seen = Evaluation(environment.module, node, f"jax.Array.{name}", arguments, tuple(keywords.items()))
        interpreter.trace.calls.setdefault(node, []).append(seen)
    match owner, name:
        case Dict(), "items":
            pairs = tuple(Sequence((Text(key) if isinstance(key, str) else Constant(key), item)) for key, item in owner.items)
            return Sequence(pairs, "list") if owner.complete else Sequence(None, "list")
        case Dict(), "values":
            return Sequence(tuple(item for _, item in owner.items), "list") if owner.complete else Sequence(None, "list")
        case Dict(), "keys":
            return Sequence(tuple(Text(key) for key, _ in owner.items), "list") if owner.complete else Sequence(None, "list")
        case Dict(), "get" if arguments and isinstance(arguments[0], Text):
            known = owner.get(arguments[0].value)
            return known if known is not None else UNKNOWN
        case Text(), "join" | "format" | "lower" | "upper" | "strip" | "replace" | "removeprefix" | "removesuffix":
            return Text()
        case Text(), _:
            return UNKNOWN
        case (Function() | Transformed() | Mapped()), "lower" | "defvjp" | "defjvp" | "defjvps":
            return UNKNOWN
        case (Sequence(), "index" | "count"):
            return Number()
        case (Array() | Tree(), _):
            return None
    return UNKNOWN


# Transforms


def call_transformed(
    interpreter: Interpreter,
    function: Transformed,
    arguments: tuple[Value, ...],
    keywords: Mapping[str, Value],
    environment: Environment,
    node: ast.expr,
    exact: bool,
    missing: Value = UNKNOWN,
) -> Value:
    """The result of calling a transformed function."""
    options = dict(function.keywords)

    def inner(*given: Value) -> Value:
        return interpreter.call(function.function, given, keywords, environment, node, exact=exact, missing=missing)

    match function.transform:
        case "jax.vmap":
            return _vmap(function, options, arguments, inner)
        case "jax.grad" | "jax.value_and_grad":
            return _gradient(interpreter, function, options, arguments, keywords, inner, exact)
        case "jax.jacfwd" | "jax.jacrev" | "jax.jacobian" | "jax.hessian":
            inner(*arguments)
            return UNKNOWN
        case "jax.custom_gradient":
            return UNKNOWN
    return _arrays(inner(*arguments))


def _vmap(function: Transformed, options: Mapping[str, Value], arguments: tuple[Value, ...], inner: Callable[..., Value]) -> Value:
    in_axes = options.get("in_axes") or (function.arguments[0] if function.arguments else Constant(0))
    out_axes = options.get("out_axes") or (function.arguments[1] if len(function.arguments) > 1 else Constant(0))
    if isinstance(in_axes, Sequence) and in_axes.items is not None:
        axes = list(in_axes.items)
        axes += [UNKNOWN] * (len(arguments) - len(axes))
    else:
        axes = [in_axes] * len(arguments)
    given = [_unbatched(argument, axis) for argument, axis in zip(arguments, axes, strict=False)]
    result = _arrays(inner(*given))
    return _batched(result, out_axes)


def _unbatched(value: Value, axis: Value) -> Value:
    match axis:
        case Constant(value=None):
            return value
        case Constant(value=int()):
            return _first(value)
        case Sequence(items=tuple() as axes) if isinstance(value, Sequence) and value.items is not None and len(axes) == len(value.items):
            return replace(value, items=tuple(map(_unbatched, value.items, axes)))
        case Dict() if isinstance(value, Dict):
            return replace(value, items=tuple((key, _unbatched(item, axis.get(key) or UNKNOWN)) for key, item in value.items))
    return UNKNOWN


def _batched(value: Value, axis: Value) -> Value:
    match axis:
        case Constant(value=None):
            return value
        case Constant(value=int()):
            return _stack(value)
        case Sequence(items=tuple() as axes) if isinstance(value, Sequence) and value.items is not None and len(axes) == len(value.items):
            return replace(value, items=tuple(map(_batched, value.items, axes)))
    return map_leaves(lambda leaf: UNKNOWN, value)


def _gradient(
    interpreter: Interpreter,
    function: Transformed,
    options: Mapping[str, Value],
    arguments: tuple[Value, ...],
    keywords: Mapping[str, Value],
    inner: Callable[..., Value],
    exact: bool,
) -> Value:
    result = inner(*arguments)
    argnums = options.get("argnums") or (function.arguments[0] if function.arguments else Constant(0))
    has_aux = options.get("has_aux") or (function.arguments[1] if len(function.arguments) > 1 else Constant(False))
    aux: Value | None = None
    if has_aux == Constant(True):
        result, aux = _pair(result)
    elif has_aux != Constant(False):
        return UNKNOWN
    value = as_array(leaf_of(result))
    value = replace(value, rank=Rank.exactly(0))  # JAX differentiates scalar functions only
    if value.varying == UNKNOWN_VARYING:
        value = replace(value, varying=UNKNOWN_VARYING)

    def with_respect_to(argument: Value) -> Value:
        def gradient(leaf: Value) -> Value:
            if isinstance(leaf, Tree):
                return Tree(as_array(gradient(leaf.leaf)))
            if not isinstance(leaf, Array) and not is_number(leaf):
                return UNKNOWN
            array = as_array(leaf)
            if interpreter.checked is True:
                return Array(array.rank, array.varying)
            most = None if array.varying.at_most is None or value.varying.at_most is None else array.varying.at_most | value.varying.at_most
            return Array(array.rank, Varying(array.varying.at_least, most))

        return map_leaves(gradient, argument)

    def pick(position: Value) -> Value:
        if isinstance(position, Constant) and isinstance(position.value, int) and -len(arguments) <= position.value < len(arguments):
            return with_respect_to(arguments[position.value])
        return UNKNOWN

    if isinstance(argnums, Sequence) and argnums.items is not None:
        gradients: Value = Sequence(tuple(map(pick, argnums.items)))
    else:
        gradients = pick(argnums)
    if function.transform == "jax.grad":
        return gradients if aux is None else Sequence((gradients, _arrays(aux)))
    return Sequence((value if aux is None else Sequence((value, _arrays(aux))), gradients))


# shard_map and smap


def _map(
    interpreter: Interpreter,
    name: str,
    arguments: tuple[Value, ...],
    keywords: Mapping[str, Value],
    environment: Environment,
    node: ast.expr,
    exact: bool,
) -> Value:
    options = dict(keywords)
    function = arguments[0] if arguments else options.pop("f", None)
    if name == "jax.experimental.shard_map.shard_map":
        for key, value in zip(("mesh", "in_specs", "out_specs", "check_rep", "auto"), arguments[1:], strict=False):
            options.setdefault(key, value)
    if function is None:
        return Partial(JaxObject(name), (), tuple(options.items())) if exact else UNKNOWN
    where = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    if not isinstance(node, ast.Call):
        ast.copy_location(where, node)
    site = map_site(name, options, environment.module, where, exact)
    mapped = Mapped(site, function)
    run_mapped(interpreter, mapped, None, environment, node, None)
    return mapped


def map_site(name: str, options: Mapping[str, Value], module: Module, node: ast.Call, exact: bool) -> MapSite:
    """What is known of a call of shard_map or smap."""
    mesh = options.get("mesh", UNKNOWN)
    if name == "jax.smap":
        axis = options.get("axis_name", UNKNOWN)
        manual = frozenset({axis.value}) if isinstance(axis, Text) and axis.value is not None else None
        in_specs = _axes_to_specs(options.get("in_axes", UNKNOWN), axis)
        out_specs = _axes_to_specs(options.get("out_axes", UNKNOWN), axis)
        return MapSite(module, node, name, mesh, in_specs, out_specs, manual, True)
    check = options.get("check_vma", options.get("check_rep"))
    checked = True if check is None and exact else check.value if isinstance(check, Constant) and isinstance(check.value, bool) else None
    names = options.get("axis_names")
    manual = None
    if names is None and exact and "auto" not in options:
        manual = frozenset(mesh.axes) if isinstance(mesh, Mesh) and mesh.axes is not None else None
    elif isinstance(names, Sequence) and names.items:
        known = axis_names(names)
        manual = frozenset(known) if known is not None else None
    in_specs = options.get("in_specs", UNKNOWN)
    return MapSite(module, node, name, mesh, in_specs, options.get("out_specs", UNKNOWN), manual, checked)


def _axes_to_specs(axes: Value, name: Value) -> Value:
    match axes:
        case Constant(value=None):
            return Spec(())
        case Constant(value=int() as position) if not isinstance(position, bool):
            entry = name.value if isinstance(name, Text) and name.value is not None else ...
            return Spec((*((None,) * max(position, 0)), entry))  # negative axes are taken for 0 by JAX
        case Sequence(items=tuple() as items):
            return replace(axes, items=tuple(_axes_to_specs(item, name) for item in items))
        case Dict():
            return replace(axes, items=tuple((key, _axes_to_specs(item, name)) for key, item in axes.items))
    return UNKNOWN


def block(spec: Value, argument: Value, checked: bool | None = None) -> Value:
    """The block of an argument that the mapped function sees: ``spec`` may be a prefix of the argument's tree."""
    match spec, argument:
        case Constant(value=None), _:
            return argument if argument != UNKNOWN else UNKNOWN
        case Sequence(items=tuple() as specs), Sequence(items=tuple() as items) if len(specs) == len(items):
            return replace(argument, items=tuple(map(block, specs, items)))
        case Sequence(items=tuple() as specs), _:
            return replace(spec, items=tuple(block(inner, UNKNOWN) for inner in specs))
        case Dict(), Dict():
            return replace(argument, items=tuple((key, block(spec.get(key) or UNKNOWN, item)) for key, item in argument.items))
        case Dict(), _:
            return replace(spec, items=tuple((key, block(inner, UNKNOWN)) for key, inner in spec.items))
        case _, Sequence() | Dict() | Instance():
            return map_leaves(lambda leaf: block(spec, leaf), argument)
    axes = spec.axes if isinstance(spec, Spec) else None
    length = len(spec.entries) if isinstance(spec, Spec) and spec.entries is not None else 0
    varying = Varying.over(axes) if axes is not None else UNKNOWN_VARYING
    leaf = leaf_of(argument)
    if isinstance(leaf, Array) or is_number(leaf):
        array = as_array(leaf)
        known = Array(Rank(max(array.rank.low, length), array.rank.high), varying.union(array.varying))
        if known.rank.high is not None and known.rank.high < known.rank.low:
            known = replace(known, rank=array.rank)
        return Tree(known) if isinstance(argument, Tree) else known
    if isinstance(argument, Text | JaxObject | Function):
        return UNKNOWN
    return Tree(Array(Rank(length), varying))


def run_mapped(
    interpreter: Interpreter,
    mapped: Mapped,
    arguments: tuple[Value, ...] | None,
    environment: Environment,
    node: ast.expr,
    call_node: ast.Call | None,
    exact: bool = True,
) -> Value:
    """Run a mapped function on its blocks and note the run; gives the outputs as they leave the function."""
    from shardfix.semantics.interpreter import MapRun

    site = mapped.site
    specs = site.in_specs
    missing: Value = UNKNOWN
    blocks: tuple[Value, ...]
    if arguments is None or not exact:
        exact = isinstance(specs, Sequence) and specs.items is not None
        if isinstance(specs, Sequence) and specs.items is not None:
            blocks = tuple(block(spec, UNKNOWN) for spec in specs.items)
        else:
            blocks, missing = (), block(specs, UNKNOWN)
    elif isinstance(specs, Sequence) and specs.items is not None and len(specs.items) == len(arguments):
        blocks = tuple(map(block, specs.items, arguments))
    else:
        blocks = tuple(block(specs if not isinstance(specs, Sequence) else UNKNOWN, argument) for argument in arguments)
    outer = interpreter.checked, interpreter.operands
    operands: dict[ast.Call, Value] = {}
    interpreter.checked, interpreter.operands = site.checked, operands
    try:
        result, run = _run_unwrapped(interpreter, mapped.function, blocks, environment, node, exact, missing)
    finally:
        interpreter.checked, interpreter.operands = outer
    interpreter.trace.maps.append(MapRun(site, mapped.function, arguments, call_node, result, run, operands))
    return result


def _run_unwrapped(
    interpreter: Interpreter,
    function: Value,
    blocks: tuple[Value, ...],
    environment: Environment,
    node: ast.expr,
    exact: bool,
    missing: Value,
) -> tuple[Value, FunctionRun | None]:
    """Run ``function``, and say which function of the project it is, seen through partial, jit and their like."""
    keywords: dict[str, Value] = {}
    traced = False
    while True:
        match function:
            case Function():
                run = interpreter.run(function, blocks, keywords, exact=exact, missing=missing, mapped=True)
                return (_arrays(run.result) if traced else run.result), run
            case Partial():
                blocks = function.arguments + blocks
                keywords = {**dict(function.keywords), **keywords}
                function = function.function
            case Transformed(transform=transform) if transform in SAME_CALL and transform != "jax.custom_gradient":
                traced = True
                function = function.function
            case _:
                return interpreter.call(function, blocks, keywords, environment, node, exact=exact, missing=missing), None


def call_mapped(
    interpreter: Interpreter, mapped: Mapped, arguments: tuple[Value, ...], environment: Environment, node: ast.expr, exact: bool
) -> Value:
    """The result of calling a mapped function: its outputs put together again, which changes no rank."""
    call_node = node if isinstance(node, ast.Call) else None
    result = run_mapped(interpreter, mapped, arguments, environment, node, call_node, exact)
    outside = INVARIANT
    for argument in arguments:
        if isinstance(argument, Array | Tree):
            outside = outside.union(as_array(argument).varying)
    nested = Varying(frozenset(), outside.at_most)
    manual = mapped.site.axis_names
    if nested.at_most is not None and manual is not None:
        nested = Varying(frozenset(), nested.at_most - manual)
    return map_leaves(lambda leaf: _gathered(leaf, nested, interpreter), _arrays(result))


def _gathered(leaf: Value, varying: Varying, interpreter: Interpreter) -> Value:
    match leaf:
        case Array():
            return replace(leaf, varying=varying, reduced=frozenset())
        case Tree():
            return Tree(replace(leaf.leaf, varying=varying, reduced=frozenset()))
    return leaf
