"""shard_map and smap: sites, blocks, and the runs of mapped functions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from shardfix.semantics.interpreter.invocation import Arguments, Invocation
from shardfix.semantics.interpreter.names import SAME_CALL
from shardfix.semantics.interpreter.records import leaf_names
from shardfix.semantics.interpreter.repeats import OUTSIDE
from shardfix.semantics.interpreter.shardings import axis_names
from shardfix.semantics.interpreter.trace import FunctionRun, Later, MapRun
from shardfix.semantics.interpreter.trees import arrays, leaf_of
from shardfix.semantics.values import (
    ANY_RANK,
    OUTER,
    UNKNOWN,
    UNKNOWN_VARYING,
    Array,
    Constant,
    Dict,
    Function,
    Instance,
    JaxObject,
    Mapped,
    MapSite,
    Mesh,
    Partial,
    Rank,
    Sequence,
    Spec,
    Text,
    Transformed,
    Tree,
    Value,
    Varying,
    as_array,
    is_number,
    map_leaves,
)

if TYPE_CHECKING:
    from shardfix.semantics.module import Module


def evaluate_map(name: str, call: Invocation) -> Value:
    """The result of a call of shard_map or smap, whose function is run here on blocks of arguments yet unknown."""
    options = dict(call.keywords)
    function = call.arguments[0] if call.arguments else options.pop("f", None)
    if name == "jax.experimental.shard_map.shard_map":
        for key, value in zip(("mesh", "in_specs", "out_specs", "check_rep", "auto"), call.arguments[1:], strict=False):
            options.setdefault(key, value)
    if function is None:
        return Partial(JaxObject(name), (), tuple(options.items())) if call.exact else UNKNOWN
    where = call.node if isinstance(call.node, ast.Call) else ast.copy_location(ast.Call(call.node, [], []), call.node)
    mapped = Mapped(map_site(name, options, call.environment.module, where, call.exact), function)
    run_mapped(mapped, None, call)
    return mapped


def map_site(name: str, options: Mapping[str, Value], module: Module, node: ast.Call, exact: bool) -> MapSite:
    """What is known of a call of shard_map or smap."""
    mesh = options.get("mesh", UNKNOWN)
    if name == "jax.smap":
        axis = options.get("axis_name", UNKNOWN)
        manual = frozenset({axis.value}) if isinstance(axis, Text) and axis.value is not None else None
        in_specs = _axes_to_specs(options.get("in_axes", UNKNOWN), axis)
        out_specs = _axes_to_specs(options.get("out_axes", UNKNOWN), axis)
        return MapSite(module, node, name, mesh, in_specs, out_specs, manual, checked=True)
    check = options.get("check_vma", options.get("check_rep"))
    checked = (
        True
        if check is None and exact
        else check.value
        if isinstance(check, Constant) and isinstance(check.value, bool)
        else None
    )
    names = options.get("axis_names")
    whole = names is None and exact and "auto" not in options and mesh not in (UNKNOWN, Constant(None))
    manual = None
    if names is None and exact and "auto" not in options:
        manual = frozenset(mesh.axes) if isinstance(mesh, Mesh) and mesh.axes is not None else None
    elif isinstance(names, Sequence) and names.items:
        known = axis_names(names)
        manual = frozenset(known) if known is not None else None
    in_specs = options.get("in_specs", UNKNOWN)
    return MapSite(module, node, name, mesh, in_specs, options.get("out_specs", UNKNOWN), manual, whole, checked)


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


def block(spec: Value, argument: Value, around: frozenset[str] = frozenset()) -> Value:
    """The block of an argument that the mapped function sees: ``spec`` may be a prefix of the argument's tree.

    An argument of which nothing is known may vary over the axes ``around`` besides those of its spec.
    """
    match spec, argument:
        case Constant(value=None), _:
            return argument
        case Sequence(items=tuple() as specs), Sequence(items=tuple() as items) if len(specs) == len(items):
            return replace(argument, items=tuple(block(*pair, around) for pair in zip(specs, items, strict=True)))
        case Sequence(items=tuple() as specs), _:
            return replace(spec, items=tuple(block(inner, UNKNOWN, around) for inner in specs))
        case Dict(), Dict():
            blocks = ((key, block(spec.get(key) or UNKNOWN, item, around)) for key, item in argument.items)
            return replace(argument, items=tuple(blocks))
        case Dict(), _:
            return replace(spec, items=tuple((key, block(inner, UNKNOWN, around)) for key, inner in spec.items))
        case Instance(), Instance() if spec.cls == argument.cls:
            return _with_leaves(argument, lambda name, item: block(spec.get(name) or UNKNOWN, item, around))
        case Instance(), _:
            return _with_leaves(spec, lambda name, inner: block(inner, UNKNOWN, around))
        case _, Instance():
            return _with_leaves(argument, lambda name, item: block(spec, item, around))
        case _, Sequence() | Dict():
            return map_leaves(lambda leaf: block(spec, leaf, around), argument)
    axes = spec.axes if isinstance(spec, Spec) else None
    length = len(spec.entries) if isinstance(spec, Spec) and spec.entries is not None else 0
    leaf = leaf_of(argument)
    if isinstance(leaf, Array) or is_number(leaf):
        array = as_array(leaf)
        varying = Varying.over(axes) if axes is not None else UNKNOWN_VARYING
        known = Array(Rank(max(array.rank.low, length), array.rank.high), varying.union(array.varying))
        if known.rank.high is not None and known.rank.high < known.rank.low:
            known = replace(known, rank=array.rank)
        return Tree(known) if isinstance(argument, Tree) else known
    if isinstance(argument, Text | JaxObject | Function):
        return UNKNOWN
    return Tree(Array(Rank(length), Varying(axes, axes | around) if axes is not None else UNKNOWN_VARYING))


def _with_leaves(instance: Instance, change: Callable[[str, Value], Value]) -> Instance:
    """An instance with its children as a pytree changed; of one whose children are not in view nothing is known."""
    names = leaf_names(instance.cls)
    if names is None:
        return Instance(instance.cls, changed=True)
    attributes = ((name, change(name, item) if name in names else item) for name, item in instance.attributes)
    return replace(instance, attributes=tuple(attributes))


def run_mapped(mapped: Mapped, given: Arguments | None, call: Invocation) -> Value:
    """Run a mapped function on its blocks and note the run; gives the outputs as they leave the function.

    ``given`` is None at the map itself, when the arguments of its calls are not known yet.
    """
    site = mapped.site
    interpreter = call.interpreter
    outer = interpreter.site, interpreter.operands, interpreter.later
    operands: dict[ast.Call, Value] = {}
    interpreter.site, interpreter.operands = site, operands
    if given is None:
        interpreter.later = Later.than(site, mapped.function, call.environment)
    try:
        result, run = _run_unwrapped(mapped.function, call.passing(_blocks(site, given)))
    finally:
        interpreter.site, interpreter.operands, interpreter.later = outer
    interpreter.reach = OUTSIDE
    arguments = None if given is None else given.positional
    where = call.node if given is not None and isinstance(call.node, ast.Call) else None
    interpreter.trace.maps.append(MapRun(site, mapped.function, arguments, where, result, run, operands))
    return result


def _blocks(site: MapSite, given: Arguments | None) -> Arguments:
    """The blocks of the arguments, as the mapped function sees them."""
    specs = site.in_specs
    around = frozenset() if site.whole else frozenset({OUTER})
    known = specs.items if isinstance(specs, Sequence) else None
    if given is None or not given.exact:
        if known is None:
            return Arguments(exact=False, missing=block(specs, UNKNOWN, around))
        return Arguments(tuple(block(spec, UNKNOWN, around) for spec in known))
    if known is not None and len(known) == len(given.positional):
        return Arguments(tuple(block(*pair, around) for pair in zip(known, given.positional, strict=True)))
    spec = UNKNOWN if isinstance(specs, Sequence) else specs
    return Arguments(tuple(block(spec, argument, around) for argument in given.positional))


def _run_unwrapped(function: Value, call: Invocation) -> tuple[Value, FunctionRun | None]:
    """Run ``function``, and say which function of the project it is, seen through partial, jit and their like."""
    traced = False
    while True:
        match function:
            case Function():
                run = call.interpreter.run(function, call.given, mapped=True)
                return (arrays(run.result) if traced else run.result), run
            case Partial():
                call = call.passing(call.given.after(function))
                function = function.function
            case Transformed(transform=transform) if transform in SAME_CALL and transform != "jax.custom_gradient":
                traced = True
                function = function.function
            case _:
                return call.interpreter.call(function, call), None


def call_mapped(mapped: Mapped, call: Invocation) -> Value:
    """The result of calling a mapped function: its outputs put together again, which changes no rank."""
    result = _fitting(mapped.site.out_specs, arrays(run_mapped(mapped, call.given, call)))
    return map_leaves(lambda leaf: _gathered(leaf, mapped.site.axis_names), result)


def _fitting(specs: Value, value: Value) -> Value:
    """Outputs as they leave a map: nothing is known of the rank of one that is too small for its spec until that is mended."""
    match specs, value:
        case Sequence(items=tuple() as inner), Sequence(items=tuple() as items) if len(inner) == len(items):
            return replace(value, items=tuple(map(_fitting, inner, items)))
        case Dict(), Dict():
            return replace(
                value, items=tuple((key, _fitting(specs.get(key) or UNKNOWN, item)) for key, item in value.items)
            )
        case Instance(), Instance():
            attributes = ((name, _fitting(specs.get(name) or UNKNOWN, item)) for name, item in value.attributes)
            return replace(value, attributes=tuple(attributes))
        case Spec(entries=tuple() as entries), Array(rank=Rank(high=int() as high)):
            return value if high >= len(entries) else replace(value, rank=ANY_RANK)
        case Spec(), Tree():
            return Tree(as_array(_fitting(specs, value.leaf)))
        case Spec(), Sequence() | Dict() | Instance():
            return map_leaves(lambda leaf: _fitting(specs, leaf), value)
    return value


def _gathered(leaf: Value, manual: frozenset[str] | None) -> Value:
    """An output outside the map: it may still vary over the axes of a map around this one, of which closures may know."""
    match leaf:
        case Array(varying=Varying(at_most=most)):
            if most is not None and OUTER in most:
                most = None  # those around the inner map are those of the map that we come back to, and of more
            elif most is not None and manual is not None:
                most = most - manual
            return replace(leaf, varying=Varying(frozenset(), most), reduced=frozenset())
        case Tree():
            return Tree(as_array(_gathered(leaf.leaf, manual)))
    return leaf
