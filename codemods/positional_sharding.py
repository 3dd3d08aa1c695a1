"""`PositionalSharding`, which JAX 0.7 removed, as `NamedSharding`.

What JAX says
    ImportError: cannot import name 'PositionalSharding' from 'jax.sharding'
    AttributeError: module 'jax.sharding' has no attribute 'PositionalSharding'

Why
    A `PositionalSharding` was an array of devices that could be reshaped, transposed and replicated along an axis, and that cut
    an array as it was itself cut. A `NamedSharding` says the same with a mesh and a spec: each axis of the devices gets a name,
    `replicate` puts None at its place, `reshape(-1, 1)` puts all devices on the first axis. The placements are equal.

Before
    import jax
    import jax.numpy as jnp
    from jax.experimental import mesh_utils
    from jax.sharding import PositionalSharding

    sharding = PositionalSharding(mesh_utils.create_device_mesh((4, 2)))
    weights = jax.device_put(jnp.ones((8, 8)), sharding)
    bias = jax.device_put(jnp.ones((8, 8)), sharding.replicate(axis=0))
    print(weights.sharding, bias.sharding)

After
    import jax
    import jax.numpy as jnp
    from jax.experimental import mesh_utils
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    sharding = NamedSharding(Mesh(mesh_utils.create_device_mesh((4, 2)), ("x", "y")), P("x", "y"))
    weights = jax.device_put(jnp.ones((8, 8)), sharding)
    bias = jax.device_put(jnp.ones((8, 8)), NamedSharding(sharding.mesh, P(None, "y")))
    print(weights.sharding, bias.sharding)

When it does not fix
    The number of axes of the devices must be in view, and the arguments of `reshape` and `replicate` literal where they decide
    the spec. A sharding that is handed to a function of unknown make is repaired with `--unsafe` only, for the function may
    reshape it. Annotations, `isinstance` tests, indexing and `.shape` are reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import DropImport, Edit, Replace, named
from shardfix.edits.replacing import dropped_imports, uses_of_import, written_uses

if TYPE_CHECKING:
    from shardfix.semantics.calls import Call
    from shardfix.semantics.module import Module

OLD = "jax.sharding.PositionalSharding"
AXIS_NAMES = "xyzabcd"
KEPT = frozenset(
    "mesh memory_kind with_memory_kind is_fully_replicated is_fully_addressable device_set addressable_devices "
    "devices_indices_map addressable_devices_indices_map shard_shape is_equivalent_to num_devices".split()
)
"""What both classes have."""
LISTS_OF_DEVICES = frozenset({"jax.devices", "jax.local_devices"})
ARRAYS = frozenset({"numpy.array", "numpy.asarray", "jax.numpy.array", "jax.numpy.asarray"})


class _Unknown(Exception):
    """Why a placement cannot be told from the text."""


@dataclass(frozen=True)
class _Placement:
    """A sharding as mesh and spec. ``axes`` holds, for each array axis, the mesh axes that cut it.

    ``mesh`` and ``devices`` are code; the devices are an array.
    """

    mesh: str
    devices: str
    axes: tuple[tuple[str, ...], ...]
    memory_kind: str | None = None

    @property
    def code(self) -> str:
        entries = list(self.axes)
        while entries and not entries[-1]:
            entries.pop()
        spec = ", ".join(_entry(entry) for entry in entries)
        kind = f", memory_kind={self.memory_kind}" if self.memory_kind else ""
        return (
            f"{named('jax.sharding.NamedSharding')}({self.mesh}, {named('jax.sharding.PartitionSpec')}({spec}){kind})"
        )


class PositionalSharding(Codemod):
    """Writes mesh and spec."""

    triggers: ClassVar[tuple[bytes, ...]] = (rb"PositionalSharding\b",)
    evidence: ClassVar[frozenset[str]] = frozenset({"deprecated-name", "removed-name"})
    deprecated = "0.6.0"
    removed = "0.7.0"
    replacement_since = "0.4.1"

    def findings(self, module: Module) -> Iterator[Finding]:
        message = f"{OLD} is gone since JAX {self.removed}: a NamedSharding takes its place"
        constructors = {call.function: call for call in module.calls_to(OLD)}
        for use in written_uses(module, OLD):
            if module.is_compatibility_code(use):
                continue
            call = constructors.get(use)
            if call is None:
                reason = "it is not constructed here; write the class that the sharding has now, or Sharding for any"
                yield self.finding(use, message, reason=reason)
                continue
            try:
                fix = _fix(module, call)
            except _Unknown as why:
                reason = f"{why}; write NamedSharding(Mesh(devices, names), PartitionSpec(...)) by hand"
                yield self.finding(call.node, message, reason=reason)
            else:
                unsafe = "it is handed on to code that may reshape or replicate it"
                yield self.finding(call.node, message, fix=fix, reason=unsafe if fix.safety is Safety.UNSAFE else "")
        for name in module.imports_of(OLD):
            if not module.is_compatibility_code(name.statement) and not uses_of_import(module, name):
                drop = Fix(
                    (DropImport(Range.of(name.statement), name.bound),), title="drop the import, which nothing uses"
                )
                yield self.finding(name.alias, message, fix=drop)


def _fix(module: Module, call: Call) -> Fix:
    """The repair of one construction and of all that is made of its result.

    Raises:
        _Unknown: what is made of it is not in view.
    """
    placement, whole = _follow(module, _constructed(module, call), call.node)
    edits: list[Edit] = [Replace(Range.of(whole), placement.code), *dropped_imports(module, [call.function])]
    safety = Safety.SAFE
    target = _assigned_variable(module, whole)
    if target is not None:
        mesh = f"{target.id}.mesh"
        for use in _uses_of_variable(module, target):
            derived, end = _follow(module, replace(placement, mesh=mesh, devices=f"{mesh}.devices"), use)
            if end is not use:
                edits.append(Replace(Range.of(end), derived.code))
            elif not _goes_to_jax(module, end):
                safety = Safety.UNSAFE
    elif whole is call.node and not _goes_to_jax(module, whole):
        safety = Safety.UNSAFE
    return Fix(tuple(edits), safety, "name the axes of the devices", PositionalSharding.replacement_since)


def _assigned_variable(module: Module, value: ast.expr) -> ast.Name | None:
    """The variable that ``value`` is assigned to, if that is all that is done with it."""
    match module.parent(value):
        case ast.Assign(targets=[ast.Name() as target]) | ast.AnnAssign(target=ast.Name() as target):
            return target
    return None


def _uses_of_variable(module: Module, target: ast.Name) -> list[ast.Name]:
    """The names that read the variable ``target``.

    Raises:
        _Unknown: it is bound elsewhere too.
    """
    scope = module.scope_of(target)
    known = scope.lookup(target.id)
    if known is None or len(known[1]) != 1:
        raise _Unknown(f"{target.id} is bound more than once")
    return [
        node
        for node in module.nodes(ast.Name)
        if node.id == target.id
        and isinstance(node.ctx, ast.Load)
        and any(binding.node is target for binding in module.reaching(node) or [])
    ]


def _goes_to_jax(module: Module, node: ast.expr) -> bool:
    """Whether a sharding is only given to JAX, which takes any."""
    parent = module.parent(node)
    while isinstance(parent, ast.Tuple | ast.List | ast.Dict | ast.keyword):
        parent = module.parent(parent)
    if isinstance(parent, ast.Attribute):
        return parent.attr in KEPT
    return isinstance(parent, ast.Call) and any(name.startswith("jax.") for name in module.resolve(parent.func))


# Construction


def _constructed(module: Module, call: Call) -> _Placement:
    devices = call.value("devices", 0)
    if devices is None or call.is_partial or call.has_hidden_arguments:
        raise _Unknown("the devices are not in view")
    rank = _rank(module, devices)
    if rank is None:
        raise _Unknown("the number of axes of the devices is not in view")
    if rank > len(AXIS_NAMES):
        raise _Unknown(f"the devices have {rank} axes")
    kind = call.value("memory_kind")
    names = tuple(AXIS_NAMES[:rank])
    text = module.text(devices)
    mesh = f"{named('jax.sharding.Mesh')}({text}, {_tuple(names)})"
    array = text if _is_array(module, devices) else f"{named('numpy.array')}({text})"
    return _Placement(mesh, array, tuple((name,) for name in names), None if kind is None else module.text(kind))


def _is_array(module: Module, devices: ast.expr) -> bool:
    """Whether the devices, whose rank is known, are an array and no list."""
    if not isinstance(devices, ast.Call):
        return False
    return not module.resolve(devices.func) & LISTS_OF_DEVICES


def _rank(module: Module, devices: ast.expr, depth: int = 0) -> int | None:
    """The number of axes of an array or list of devices; None where it is not known."""
    if depth > 4:
        return None
    match devices:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            inner = {_rank(module, element, depth + 1) or 0 for element in elements}
            return 1 + inner.pop() if len(inner) == 1 else None
        case ast.ListComp():
            return 1
        case ast.Subscript(value=value, slice=ast.Slice()):
            return _rank(module, value, depth + 1)
        case ast.Name():
            bindings = module.reaching(devices) or []
            ranks = {
                _rank(module, binding.value, depth + 1)
                if binding.kind == "assignment" and binding.value is not None and not binding.path
                else None
                for binding in bindings
            }
            return ranks.pop() if len(ranks) == 1 else None
        case ast.Call(func=ast.Attribute(attr="reshape"), args=args) if args and not module.resolve(devices.func):
            return _length_of_shape(args)
        case ast.Call(func=ast.Attribute(attr="ravel" | "flatten"), args=[]):
            return 1
        case ast.Call():
            names = module.resolve(devices.func)
            if names and names <= LISTS_OF_DEVICES:
                return 1
            if names == {"jax.experimental.mesh_utils.create_device_mesh"} and devices.args:
                return _length_of_shape(devices.args[:1])
            if names and names <= ARRAYS and devices.args:
                return _rank(module, devices.args[0], depth + 1)
            if names == {"numpy.reshape"} and len(devices.args) > 1:
                return _length_of_shape(devices.args[1:2])
    return None


def _length_of_shape(args: list[ast.expr]) -> int | None:
    """The number of axes that the arguments of ``reshape`` give."""
    if len(args) == 1 and isinstance(args[0], ast.Tuple | ast.List):
        args = args[0].elts
    elif len(args) == 1 and not isinstance(args[0], ast.Constant | ast.UnaryOp):
        return None
    return None if any(isinstance(arg, ast.Starred) for arg in args) else len(args)


# What is made of it


def _follow(module: Module, placement: _Placement, node: ast.expr) -> tuple[_Placement, ast.expr]:
    """The placement after all methods called on ``node``, and the expression that is it."""
    while True:
        attribute = module.parent(node)
        if isinstance(attribute, ast.Subscript) and attribute.value is node:
            raise _Unknown("it is indexed")
        if not isinstance(attribute, ast.Attribute) or attribute.attr in KEPT:
            return placement, node
        call = module.parent(attribute)
        if attribute.attr == "T":
            placement, node = replace(placement, axes=placement.axes[::-1]), attribute
        elif isinstance(call, ast.Call) and call.func is attribute and attribute.attr in {"replicate", "reshape"}:
            step = _replicated if attribute.attr == "replicate" else _reshaped
            placement, node = step(module, placement, call), call
        else:
            raise _Unknown(f"its .{attribute.attr} is read, which a NamedSharding does not have")


def _replicated(module: Module, placement: _Placement, call: ast.Call) -> _Placement:
    given = {"axis": None, "keepdims": True} | dict(zip(("axis", "keepdims"), map(_literal, call.args), strict=False))
    given |= {keyword.arg or "**": _literal(keyword.value) for keyword in call.keywords}
    axis, keepdims = given["axis"], given["keepdims"]
    if axis is None:
        return replace(placement, axes=() if not keepdims else tuple(() for _ in placement.axes))
    rank = len(placement.axes)
    numbers = axis if isinstance(axis, tuple) else (axis,)
    if not all(isinstance(number, int) and -rank <= number < rank for number in numbers) or "**" in given:
        raise _Unknown("the axis that is replicated is not in view")
    gone = {number % rank for number in numbers}
    kept = [(index, names) for index, names in enumerate(placement.axes) if keepdims or index not in gone]
    return replace(placement, axes=tuple(() if index in gone else names for index, names in kept))


def _reshaped(module: Module, placement: _Placement, call: ast.Call) -> _Placement:
    """After ``reshape``: the same mesh where all devices go to one array axis, else a mesh of the new shape."""
    args = call.args[0].elts if len(call.args) == 1 and isinstance(call.args[0], ast.Tuple | ast.List) else call.args
    if call.keywords or any(isinstance(arg, ast.Starred) for arg in args) or _length_of_shape(call.args) is None:
        raise _Unknown("the new shape is not in view")
    used = tuple(name for axis in placement.axes for name in axis)
    wide = [module.text(arg) for arg in args if not (isinstance(arg, ast.Constant) and arg.value == 1)]
    names = tuple(AXIS_NAMES[: len(wide)])
    if len(wide) > 1:
        if placement.axes != tuple((name,) for name in AXIS_NAMES[: len(placement.axes)]):
            raise _Unknown("it is reshaped after it was replicated, transposed or reshaped")
        if len(wide) > len(AXIS_NAMES):
            raise _Unknown(f"it is reshaped to {len(args)} axes")
        devices = f"{placement.devices}.reshape({', '.join(wide)})"
        placement = replace(
            placement, mesh=f"{named('jax.sharding.Mesh')}({devices}, {_tuple(names)})", devices=devices
        )
    new = iter([used] if len(wide) == 1 else [(name,) for name in names])
    axes = tuple(() if isinstance(arg, ast.Constant) and arg.value == 1 else next(new) for arg in args)
    return replace(placement, axes=axes)


def _literal(node: ast.expr) -> object:
    """The value of a constant expression; Ellipsis for anything else."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ...


def _entry(axes: tuple[str, ...]) -> str:
    """An entry of a spec."""
    if not axes:
        return "None"
    return f'"{axes[0]}"' if len(axes) == 1 else _tuple(axes)


def _tuple(names: tuple[str, ...]) -> str:
    inner = ", ".join(f'"{name}"' for name in names)
    return f"({inner},)" if len(names) == 1 else f"({inner})"
