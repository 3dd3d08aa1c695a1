"""Specs, meshes and shardings, made and read."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shardfix.semantics.interpreter.invocation import Invocation
from shardfix.semantics.interpreter.names import canonical
from shardfix.semantics.interpreter.trace import Environment
from shardfix.semantics.values import (
    UNKNOWN,
    Class,
    Constant,
    Dict,
    Instance,
    JaxObject,
    Mesh,
    Number,
    Sequence,
    Sharding,
    Spec,
    Text,
    Value,
)

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter


def spec_entry(value: Value) -> Any:
    """One argument of ``PartitionSpec`` as an entry; ``...`` where it is not known."""
    match value:
        case Constant(value=None):
            return None
        case Text(value=str() as name):
            return name
        case Sequence(items=tuple() as items) if all(
            isinstance(item, Text) and item.value is not None for item in items
        ):
            return tuple(item.value for item in items)
    return ...


def _partition_spec(call: Invocation) -> Value:
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
        case Sequence(items=tuple() as items) if all(
            isinstance(item, Text) and item.value is not None for item in items
        ):
            return tuple(item.value for item in items)
    return None


def _sizes(value: Value | None) -> tuple[int | None, ...] | None:
    match value:
        case Sequence(items=tuple() as items):
            return tuple(
                item.value if isinstance(item, Constant) and isinstance(item.value, int) else None for item in items
            )
        case Constant(value=int() as size):
            return (size,)
    return None


def _sizes_of_devices(call: Invocation) -> tuple[int | None, ...] | None:
    """The shape of the array of devices that ``Mesh`` is given, where it is written there: ``devices.reshape(4, 2)``."""
    node = call.node.args[0] if isinstance(call.node, ast.Call) and call.node.args else None
    match node:
        case ast.Call(func=ast.Attribute(attr="reshape"), args=args, keywords=[]):
            shape = args
        case ast.Call(func=ast.Name(id="create_device_mesh") | ast.Attribute(attr="create_device_mesh"), args=[first]):
            shape = [first]
        case _:
            return None
    known = [call.interpreter.evaluate(size, call.environment) for size in shape]
    sizes = _sizes(known[0] if len(known) == 1 else Sequence(tuple(known)))
    return None if sizes is None else tuple(None if size is None or size < 0 else size for size in sizes)


def _axis_types(value: Value | None) -> tuple[str, ...] | None:
    items = value.items if isinstance(value, Sequence) else (value,)
    names = []
    for item in items or ():
        if not isinstance(item, JaxObject) or ".AxisType" not in item.dotted:
            return None
        names.append(item.dotted.rpartition(".")[2])
    return tuple(names) or None


def _mesh(call: Invocation) -> Value:
    names = call.get("axis_names", 1)
    if names is None and call.name.endswith("AbstractMesh"):
        return Mesh(abstract=True)  # the pairs form of JAX before 0.5.3
    axes = axis_names(names)
    given = call.get("axis_shapes", 0) or call.get("axis_sizes")
    sizes = _sizes_of_devices(call) if call.name == "jax.sharding.Mesh" else _sizes(given)
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


def _named_sharding(call: Invocation) -> Value:
    return Sharding(call.get("mesh", 0) or UNKNOWN, call.get("spec", 1) or UNKNOWN)


def entered_context(value: Value) -> Value:
    """What ``with value as name`` binds."""
    match value:
        case Mesh():
            return value
    return UNKNOWN


def _set_mesh(call: Invocation) -> Value:
    mesh = call.get("mesh", 0)
    return mesh if isinstance(mesh, Mesh) else UNKNOWN


def known_attribute(owner: Value, name: str) -> Value | None:
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


def from_annotation(annotation: ast.expr | None, environment: Environment) -> Value:
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
            return Instance(Class(found[0], found[1], open=True))
    return UNKNOWN


def field_default(interpreter: Interpreter, default: ast.expr, environment: Environment) -> Value:
    """The default of a dataclass field; ``field(default=...)`` is looked into."""
    if isinstance(default, ast.Call) and ast.unparse(default.func).rpartition(".")[2] == "field":
        for keyword in default.keywords:
            if keyword.arg == "default":
                return interpreter.evaluate(keyword.value, environment)
            if keyword.arg == "default_factory":
                factory = interpreter.evaluate(keyword.value, environment)
                return interpreter.apply(factory, environment, default)
        return UNKNOWN
    return interpreter.evaluate(default, environment)


HANDLERS: dict[str, Callable[[Invocation], Value]] = {
    "jax.sharding.PartitionSpec": _partition_spec,
    "jax.sharding.Mesh": _mesh,
    "jax.make_mesh": _mesh,
    "jax.sharding.AbstractMesh": _mesh,
    "jax.sharding.NamedSharding": _named_sharding,
    "jax.set_mesh": _set_mesh,
}
"""What gives the result of a call, by the callee's name."""
