"""Meshes whose axis types are left to a default that JAX changed, in code that was written for the old one.

What JAX says
    With `with_sharding_constraint`:

    ValueError: The spec of NamedSharding passed to with_sharding_constraint can only refer to Auto axes of the mesh.
    AssertionError: `with_sharding_constraint` acts as an assert when all axes of mesh are of type `Explicit`.

    With shard_map:

    ValueError: in_specs passed to shard_map: P('x',) does not match the specs of the input: P(None,) for arg: float32[8].

Why
    `jax.make_mesh` without `axis_types` gave a mesh with Auto axes up to JAX 0.8, and gives one with Explicit axes since 0.9
    (`jax.sharding.AbstractMesh` since 0.11.1; `Mesh` stays Auto). On Explicit axes the sharding is part of an array's type:
    constraints and `in_specs` no longer move an array, they assert where it is. Spelling out `AxisType.Auto` gives the old
    behaviour on every JAX from 0.5.3 on. Placing the arrays, with `jax.reshard` or `jax.device_put`, is the other way.

Before
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((8,), ("x",))
    place = jax.jit(lambda a: jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P("x"))))
    assert place(jnp.arange(16.0)).addressable_shards[0].data.shape == (2,)

After
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    place = jax.jit(lambda a: jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P("x"))))
    assert place(jnp.arange(16.0)).addressable_shards[0].data.shape == (2,)

When it does not fix
    - The fix is unsafe, because an Explicit mesh may be what is wanted.
    - A mesh is reported where the code in view uses it as Auto: in `with_sharding_constraint`, in `with mesh:`, or in shard_map
  with arguments that are not placed on it. Code that uses `out_sharding`, `reshard` or `AxisType.Explicit` means Explicit, and is
  left alone.
    - Arguments that are not placed on a mesh that is Explicit on purpose are reported with the choices.
    - Where the number of axes is not in view there is no fix.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import SetArgument, Wrap, named
from shardfix.semantics.contexts import State
from shardfix.semantics.definitions import argument_for, class_attributes, direct_calls, returns
from shardfix.semantics.flow import settled_bindings
from shardfix.semantics.mesh_blocks import mesh_blocks
from shardfix.semantics.meshes import is_dotted, mesh_view
from shardfix.semantics.placement import calls_of_result, unplaced_argument
from shardfix.semantics.values import Sequence, Spec

if TYPE_CHECKING:
    from shardfix.semantics.calls import Call
    from shardfix.semantics.module import Module

__all__ = ["MakeMeshDefaults"]

MAKERS = {"jax.make_mesh": "0.9", "jax.sharding.AbstractMesh": "0.11.1"}
"""What makes a mesh, and since which JAX its axes are Explicit by default."""
CONSTRAINTS = ("jax.lax.with_sharding_constraint", "jax.experimental.pjit.with_sharding_constraint")
SHARD_MAPS = ("jax.shard_map", "jax.experimental.shard_map.shard_map")
SHARDINGS = frozenset({"jax.sharding.NamedSharding", "jax.NamedSharding"})
EXPLICIT_CALLS = (
    "jax.reshard",
    "jax.sharding.reshard",
    "jax.sharding.auto_axes",
    "jax.sharding.explicit_axes",
    "jax.experimental.shard.reshard",
    "jax.experimental.shard.auto_axes",
    "jax.experimental.shard.explicit_axes",
)
EXPLICIT_NAMES = ("jax.sharding.AxisType.Explicit",)
MAX_DEPTH = 10


@dataclass(frozen=True)
class _Use:
    """A use of a mesh that JAX rejects where the mesh is Explicit."""

    mesh: ast.expr
    """The expression that names the mesh."""
    node: ast.AST
    what: str


class MakeMeshDefaults(Codemod):
    """``make_mesh`` and ``AbstractMesh`` without ``axis_types`` where the code relies on Auto axes."""

    triggers = (rb"\bmake_mesh\b", rb"\bAbstractMesh\b", rb"\bwith_sharding_constraint\b", rb"\bshard_map\b")
    evidence: ClassVar[frozenset[str]] = frozenset(
        {"ambiguous-operation", "default-axis-types", "explicit-constraint", "in-specs-mismatch"}
    )
    deprecated = "0.8.1"
    removed = "0.9.0"
    replacement_since = "0.5.3"

    def findings(self, module: Module) -> Iterator[Finding]:
        makers = [call for call in module.calls_to(*MAKERS) if not module.is_compatibility_code(call.node)]
        elsewhere = _is_made_elsewhere(module)
        if not makers and not elsewhere:
            return
        if not _wants_explicit(module):
            uses = list(_uses(module))
            for maker in makers:
                if _takes_the_default(maker):
                    use = next((use for use in uses if _made_by(module, use.mesh) is maker.node), None)
                    if use is not None:
                        yield self._default(module, maker, use)
            for use in uses if elsewhere else ():
                known = mesh_view(module).mesh_of(use.mesh)
                if known is not None and known.default_types and _made_by(module, use.mesh) is None:
                    yield self._made_there(use)
        if makers:
            yield from self._not_placed(module)

    def _default(self, module: Module, maker: Call, use: _Use) -> Finding:
        name = maker.dotted.removeprefix("jax.sharding.")
        types = _auto_types(module, maker)
        fix = None
        if types is not None:
            edit = SetArgument(Range.of(maker.node), "axis_types", types)
            fix = Fix((edit,), Safety.UNSAFE, "spell out AxisType.Auto, the default before", "0.5.3")
        line = getattr(use.node, "lineno", maker.node.lineno)
        return self.finding(
            maker.node,
            f"{name} without axis_types gives Explicit axes since JAX {MAKERS[maker.dotted]}, but {use.what} on line {line}",
            fix=fix,
            reason=(
                "axis_types=(AxisType.Auto, ...) keeps what the code did; or keep the mesh Explicit and place the arrays "
                "with jax.reshard" + ("" if fix else "; the number of axes is not in view")
            ),
        )

    def _made_there(self, use: _Use) -> Finding:
        """A use of a mesh that another module makes, where the fix belongs."""
        return self.finding(
            use.mesh,
            f"this mesh is made without axis_types, which gives Explicit axes since JAX 0.9, but {use.what}",
            reason="give it axis_types=(AxisType.Auto, ...) where it is made, or place the arrays with jax.reshard",
        )

    def _not_placed(self, module: Module) -> Iterator[Finding]:
        """Arguments of shard_map that do not lie as ``in_specs`` says, on a mesh that is Explicit on purpose."""
        for call in module.calls_to(*SHARD_MAPS):
            mesh = call.value("mesh", 1)
            known = mesh_view(module).mesh_of(mesh) if mesh is not None else None
            if known is None or known.types is None or set(known.types) != {"Explicit"} or known.abstract:
                continue
            if known.default_types and not _wants_explicit(module):
                continue
            argument = unplaced_argument(module, call)
            if argument is None:
                continue
            spec = _spec_text(module, call, argument)
            choices = []
            if spec is not None:
                place = Wrap(Range.of(argument), f"{named('jax.reshard')}(", f", {spec})")
                choices.append(Fix((place,), Safety.MANUAL, "place the argument as in_specs says", "0.8.2"))
            yield self.finding(
                argument,
                "this argument is not placed on the mesh as in_specs says, and on Explicit axes in_specs is an assertion",
                reason=(
                    "place it first (jax.reshard(x, spec)), or leave in_specs out, which takes the specs of the arguments, "
                    "or make the axes Auto"
                ),
                choices=choices,
            )


def _is_made_elsewhere(module: Module) -> bool:
    """Whether another file, whose mesh this one may use, calls ``make_mesh``: one of the run, or one that this one imports."""
    own = os.path.abspath(module.path)
    if any(os.path.abspath(path) != own for path in module.project.mentioning("make_mesh")):
        return True
    for imported in module.imports:
        for dotted in (imported.dotted, imported.dotted.rpartition(".")[0]):
            path = module.project.find(dotted, module.path) if dotted.strip(".") else None
            if path is not None and "make_mesh" in (module.project.source(path) or ""):
                return True
    return False


def _takes_the_default(maker: Call) -> bool:
    return not maker.has_hidden_arguments and not maker.is_partial and maker.argument("axis_types", 2) is None


def _auto_types(module: Module, maker: Call) -> str | None:
    """The code of ``axis_types`` for Auto axes throughout; None where their number is not in view."""
    auto = f"({named('jax.sharding.AxisType')}.Auto,)"
    known = mesh_view(module).mesh_of(maker.node)
    names = maker.value("axis_names", 1)
    sizes = maker.value("axis_shapes", 0) or maker.value("axis_sizes", 0)
    if known is not None and known.axes is not None:
        count = len(known.axes)
    elif isinstance(sizes, ast.Tuple | ast.List) and not any(isinstance(size, ast.Starred) for size in sizes.elts):
        count = len(sizes.elts)
    elif names is not None and is_dotted(names):
        return f"{auto} * len({module.text(names)})"
    elif sizes is not None and is_dotted(sizes):
        return f"{auto} * len({module.text(sizes)})"
    else:
        return None
    return auto if count == 1 else f"{auto} * {count}"


def _wants_explicit(module: Module) -> bool:
    """Whether the module uses what only makes sense on Explicit axes."""
    if module.calls_to(*EXPLICIT_CALLS) or module.uses_of(*EXPLICIT_NAMES, *EXPLICIT_CALLS):
        return True
    return any(
        keyword.arg == "out_sharding" and _is_of_jax(module, call)
        for call in module.nodes(ast.Call)
        for keyword in call.keywords
    )


def _is_of_jax(module: Module, call: ast.Call) -> bool:
    if any(name.startswith("jax.") for name in module.resolve(call.func)):
        return True
    return isinstance(call.func, ast.Attribute) and ".at[" in module.text(call.func)


def _uses(module: Module) -> Iterator[_Use]:
    """The uses of meshes that need Auto axes."""
    for call in module.calls_to(*CONSTRAINTS):
        yield from _constrained(module, call)
    for call in module.calls_to(*SHARD_MAPS):
        yield from _mapped(module, call)
    for block in mesh_blocks(module):
        if not module.is_compatibility_code(block.statement):
            what = "`with mesh:`, which has a meaning for Auto axes alone, enters it"
            yield _Use(block.item.context_expr, block.item.context_expr, what)


def _constrained(module: Module, call: Call) -> Iterator[_Use]:
    sharding = _followed(module, call.value("shardings", 1))
    if sharding is None:
        return
    what = "with_sharding_constraint is used on it as on Auto axes"
    if isinstance(sharding, ast.Call) and module.resolve(sharding.func) & SHARDINGS:
        mesh = _argument(sharding, "mesh", 0)
        spec = _argument(sharding, "spec", 1)
        if mesh is not None and spec is not None and _may_name_axes(module, spec):
            yield _Use(mesh, call.node, what)
        return
    value = module.value_of(sharding)
    if isinstance(value, Spec) and value.axes:
        context = mesh_view(module).context(call.node)
        if context.states <= {State.SET, State.LEGACY}:
            for home, mesh in context.meshes:
                if home is module:
                    yield _Use(mesh, call.node, what)


def _mapped(module: Module, call: Call) -> Iterator[_Use]:
    mesh = call.value("mesh", 1)
    in_specs = call.value("in_specs", 2)
    if mesh is None or in_specs is None:
        return
    if unplaced_argument(module, call) is not None:
        yield _Use(mesh, call.node, "shard_map is given arrays that are not placed on it")
    elif call.dotted.startswith("jax.experimental.") and _names_axes(module, in_specs):
        if not any(True for _ in calls_of_result(module, call.node)) or _takes_parameters(module, call):
            yield _Use(mesh, call.node, "shard_map asserts its in_specs on such axes")


def _takes_parameters(module: Module, call: Call) -> bool:
    """Whether the mapped function is given parameters of the function around, of whose placement nothing is known."""
    for site in calls_of_result(module, call.node):
        for value in site.args:
            if isinstance(value, ast.Name) and any(b.kind == "parameter" for b in settled_bindings(module, value)):
                return True
    return False


def _names_axes(module: Module, in_specs: ast.expr) -> bool:
    value = module.value_of(in_specs)
    specs = value.items or () if isinstance(value, Sequence) else (value,)
    return any(isinstance(spec, Spec) and bool(spec.axes) for spec in specs)


def _may_name_axes(module: Module, node: ast.expr) -> bool:
    value = module.value_of(node)
    return not (isinstance(value, Spec) and value.axes == frozenset())


def _argument(call: ast.Call, name: str, index: int) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if index < len(call.args) and not any(isinstance(value, ast.Starred) for value in call.args[: index + 1]):
        return call.args[index]
    return None


def _followed(module: Module, node: ast.expr | None, depth: int = 0) -> ast.expr | None:
    """The expression that a name stands for, where it is bound once."""
    if not isinstance(node, ast.Name) or depth > MAX_DEPTH:
        return node
    bindings = settled_bindings(module, node)
    if len(bindings) == 1 and bindings[0].kind == "assignment" and not bindings[0].path:
        return _followed(module, bindings[0].value, depth + 1)
    return node


def _made_by(module: Module, node: ast.expr, depth: int = 0) -> ast.Call | None:
    """The call of this module that made the mesh; None where it is not in view, or may be one of several."""
    if depth > MAX_DEPTH:
        return None
    match node:
        case ast.Call():
            if module.resolve(node.func) & set(MAKERS):
                return node
            definition = module.definition(node.func)
            if definition is None or definition[0] is not module or not isinstance(definition[1], ast.FunctionDef):
                return None
            return _one(_made_by(module, value.value, depth + 1) for value in returns(definition[1]) if value.value)
        case ast.Name():
            return _one(_made_by_binding(module, node, depth))
        case ast.Attribute(value=ast.Name(id=owner)):
            function = module.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
            cls = module.parent(function) if function is not None else None
            if isinstance(cls, ast.ClassDef) and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                if function.args.args and function.args.args[0].arg == owner:
                    values = [value for value, _, _ in class_attributes(cls).get(node.attr, ())]
                    return _one(_made_by(module, value, depth + 1) if value is not None else None for value in values)
    return None


def _made_by_binding(module: Module, name: ast.Name, depth: int) -> Iterator[ast.Call | None]:
    for binding in settled_bindings(module, name):
        if binding.kind in ("assignment", "with") and binding.value is not None and not binding.path:
            yield _made_by(module, binding.value, depth + 1)
        elif binding.kind == "parameter" and isinstance(binding.statement, ast.FunctionDef):
            function = binding.statement
            bound = isinstance(module.parent(function), ast.ClassDef)
            for call in direct_calls(module, function):
                argument = argument_for(function, call, name.id, bound=bound)
                yield None if argument is None else _made_by(module, argument, depth + 1)
        else:
            yield None


def _one(found: Iterator[ast.Call | None]) -> ast.Call | None:
    """The call where all are the same one."""
    calls = list(found)
    return calls[0] if calls and all(call is calls[0] for call in calls) else None


def _spec_text(module: Module, call: Call, argument: ast.expr) -> str | None:
    """The code of the spec for an argument of the mapped function."""
    in_specs = _followed(module, call.value("in_specs", 2))
    site = module.parent(argument)
    if in_specs is None or not isinstance(site, ast.Call) or argument not in site.args:
        return None
    if isinstance(in_specs, ast.Tuple | ast.List):
        index = site.args.index(argument)
        return module.text(in_specs.elts[index]) if index < len(in_specs.elts) else None
    return module.text(in_specs)
