"""Where arrays lie: on a mesh with Explicit axes and how divided, or certainly on no mesh.

A small analysis through names, attributes, parameters and a few operations, sound and far from complete: what it does
not know it leaves open.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from shardfix.semantics.definitions import (
    argument_for,
    attributes_named,
    bound_value,
    class_attributes,
    direct_calls,
    enclosing_functions,
)
from shardfix.semantics.jax_api import out_sharding_parameter
from shardfix.semantics.meshes import mesh_view
from shardfix.semantics.situations import AxisKind, axis_kind
from shardfix.semantics.values import Array, Mesh, Sharding, Spec

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.semantics.sharding_arguments import ShardingArgument

__all__ = ["OFF", "PLACING", "Placement", "operands_are_off_mesh", "placement"]

Entry = str | tuple[str, ...] | None
PLACING = frozenset({"jax.device_put", "jax.reshard", "jax.sharding.reshard", "jax.lax.with_sharding_constraint"})
ELEMENTWISE = frozenset(
    f"jax.numpy.{name}"
    for name in "abs exp expm1 log log1p log2 sin cos tan tanh sqrt square negative sign floor ceil round cbrt reciprocal".split()
)
MAKERS = frozenset(
    f"jax.numpy.{name}" for name in "array asarray zeros ones full empty arange linspace eye identity".split()
)
NUMPY = "numpy."
AS_IT_IS = frozenset({"jax.jit", "jax.experimental.pjit.pjit", "jax.checkpoint", "jax.remat"})
"""Decorators that hand a function the very arrays it is called with (vmap and shard_map hand it parts of them)."""
MAX_DEPTH = 10


@dataclass(frozen=True)
class Placement:
    """How an array lies on a mesh with Explicit axes; on no mesh where ``entries`` is None."""

    entries: tuple[Entry, ...] | None
    """Of its spec, as far as they are written; what is left out is None."""
    rank: int | None = None

    @property
    def is_off(self) -> bool:
        return self.entries is None

    def dimension(self, index: int) -> Entry:
        """The mesh axes that divide a dimension; ``index`` from the left, from 0."""
        return self.entries[index] if self.entries is not None and index < len(self.entries) else None

    @property
    def is_divided(self) -> bool:
        """Whether any dimension is divided."""
        return any(entry is not None for entry in self.entries or ())

    def reversed(self) -> Placement | None:
        """Of the transposed array."""
        if self.entries is None:
            return self
        if self.rank is None or len(self.entries) > self.rank:
            return None
        padded = self.entries + (None,) * (self.rank - len(self.entries))
        return Placement(tuple(reversed(padded)), self.rank)


OFF = Placement(None)


_PLACEMENTS: WeakKeyDictionary[Module, dict[tuple[ast.expr, str | None], Placement | None]] = WeakKeyDictionary()


def placement(module: Module, expression: ast.expr, target_jax: str | None, depth: int = 0) -> Placement | None:
    """Where the array that ``expression`` gives lies; None where that is not known."""
    known = _PLACEMENTS.setdefault(module, {})
    key = (expression, target_jax)
    if key not in known:
        if depth > MAX_DEPTH:
            return None
        known[key] = None  # what a cycle finds
        known[key] = _placement(module, expression, target_jax, depth)
    return known[key]


def _placement(module: Module, expression: ast.expr, target_jax: str | None, depth: int) -> Placement | None:
    match expression:
        case ast.Call():
            return _of_call(module, expression, target_jax, depth)
        case ast.Attribute(value=owner, attr="T"):
            inner = placement(module, owner, target_jax, depth + 1)
            return inner.reversed() if inner is not None else None
        case ast.Attribute(value=ast.Name() as owner):
            return _of_attribute(module, owner, expression.attr, target_jax, depth)
        case ast.Name():
            return _of_name(module, expression, target_jax, depth)
        case ast.UnaryOp(operand=operand):
            return placement(module, operand, target_jax, depth + 1)
        case ast.BinOp(left=left, right=right) if not isinstance(expression.op, ast.MatMult):
            for one, other in ((left, right), (right, left)):
                if isinstance(other, ast.Constant):
                    return placement(module, one, target_jax, depth + 1)
            sides = [placement(module, side, target_jax, depth + 1) for side in (left, right)]
            return sides[0] if sides[0] == sides[1] else None
    return None


def _of_call(module: Module, call: ast.Call, target_jax: str | None, depth: int) -> Placement | None:
    names = module.resolve(call.func)
    if len(names) != 1:
        return None
    name = next(iter(names))
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if None in keywords or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    if name in PLACING:
        if len(call.args) < 2:
            return None
        return _placed(module, call, call.args[1], _rank(module, call.args[0]), target_jax)
    given = keywords.get("out_sharding") or keywords.get("device")
    if given is not None and not (isinstance(given, ast.Constant) and given.value is None):
        return _placed(module, call, given, _rank(module, call), target_jax)
    if name in ELEMENTWISE and len(call.args) == 1:
        return placement(module, call.args[0], target_jax, depth + 1)
    if name.startswith(NUMPY):
        return OFF
    parameter = out_sharding_parameter(name)
    if name in MAKERS or (parameter is not None and parameter.creates):
        if name in ("jax.numpy.array", "jax.numpy.asarray") and not all(map(_is_literal, call.args[:1])):
            return None
        context = mesh_view(module).context(call)
        if context.lacks_mesh:
            return Placement(None, _rank(module, call))
        meshes = [mesh_view(where).mesh_of(mesh) or Mesh() for where, mesh in context.meshes]
        if context.is_set and meshes and all(axis_kind(mesh, None, target_jax) is AxisKind.EXPLICIT for mesh in meshes):
            return Placement((), _rank(module, call))
    return None


def _is_literal(node: ast.expr) -> bool:
    return all(
        isinstance(
            inner, ast.Constant | ast.List | ast.Tuple | ast.Load | ast.UnaryOp | ast.USub | ast.BinOp | ast.Mult
        )
        for inner in ast.walk(node)
    )


def _rank(module: Module, expression: ast.expr) -> int | None:
    value = module.value_of(expression)
    return value.rank.exact if isinstance(value, Array) else None


def _placed(
    module: Module, call: ast.Call, sharding: ast.expr, rank: int | None, target_jax: str | None
) -> Placement | None:
    """Where an array lies that is placed by a NamedSharding, or by a spec on the mesh that is set."""
    value = module.value_of(sharding)
    if isinstance(value, Sharding) and isinstance(value.mesh, Mesh) and isinstance(value.spec, Spec):
        spec, meshes = value.spec, [value.mesh]
    elif isinstance(value, Spec):
        context = mesh_view(module).context(call)
        spec, meshes = value, [mesh_view(where).mesh_of(mesh) or Mesh() for where, mesh in context.meshes]
        if not context.is_set:
            return None
    else:
        return None
    if spec.entries is None or ... in spec.entries or spec.special or not meshes:
        return None
    if any(axis_kind(mesh, spec.axes, target_jax) is not AxisKind.EXPLICIT for mesh in meshes):
        return None
    return Placement(spec.entries, rank)


def _of_name(module: Module, name: ast.Name, target_jax: str | None, depth: int) -> Placement | None:
    bindings = module.reaching(name)
    if not bindings or len(bindings) != 1:
        return None
    binding = bindings[0]
    value = bound_value(binding)
    if value is not None:
        return placement(module, value, target_jax, depth + 1)
    function = binding.statement
    if binding.kind != "parameter" or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    if not all(mesh_view(module).contexts.transforms(decorator) & AS_IT_IS for decorator in function.decorator_list):
        return None
    if isinstance(module.parent(function), ast.ClassDef):
        return _of_method_parameter(module, function, name.id, target_jax, depth)
    return _common(
        module, [argument_for(function, call, name.id) for call in direct_calls(module, function)], target_jax, depth
    )


def _of_method_parameter(
    module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, target_jax: str | None, depth: int
) -> Placement | None:
    """What the calls ``instance.method(...)`` in view pass, where the method's name is not used otherwise."""
    given: list[ast.expr | None] = []
    for attribute in attributes_named(module, function.name):
        call = module.parent(attribute)
        if not isinstance(call, ast.Call) or call.func is not attribute:
            return None
        given.append(argument_for(function, call, name, bound=True))
    return _common(module, given, target_jax, depth)


def _common(module: Module, given: list[ast.expr | None], target_jax: str | None, depth: int) -> Placement | None:
    found = [placement(module, value, target_jax, depth + 1) if value is not None else None for value in given]
    return found[0] if found and all(item == found[0] for item in found) else None


def _of_attribute(module: Module, owner: ast.Name, name: str, target_jax: str | None, depth: int) -> Placement | None:
    """Of ``self.name``, where the class assigns it once."""
    for function in enclosing_functions(module, owner):
        cls = module.parent(function)
        arguments = [*function.args.posonlyargs, *function.args.args]
        if isinstance(cls, ast.ClassDef) and arguments and arguments[0].arg == owner.id:
            assigned = class_attributes(cls).get(name, [])
            if len(assigned) == 1 and assigned[0][0] is not None:
                return placement(module, assigned[0][0], target_jax, depth + 1)
            return None
    return None


def operands_are_off_mesh(module: Module, argument: ShardingArgument, target_jax: str | None) -> bool:
    """Whether all arrays that a call works on certainly lie on no mesh."""
    node = argument.node
    given = [value for value in node.args if value is not argument.value]
    if isinstance(node.func, ast.Attribute) and not module.resolve(node.func):
        owner = node.func.value
        if isinstance(owner, ast.Subscript) and isinstance(owner.value, ast.Attribute) and owner.value.attr == "at":
            owner = owner.value.value
        given = [owner]
    found = [placement(module, value, target_jax) for value in given if not _is_plain(module, value)]
    return bool(found) and all(item is not None and item.is_off for item in found)


def _is_plain(module: Module, value: ast.expr) -> bool:
    """Whether an argument is no array: a shape, an axis, a string."""
    return isinstance(value, ast.Constant | ast.Tuple | ast.List | ast.JoinedStr | ast.Lambda)
