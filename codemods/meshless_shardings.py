"""Shardings that are right in themselves, where JAX has no mesh for them or takes none.

What JAX says
    ``Using PartitionSpec when you are not under a mesh context is not allowed. Please pass a NamedSharding instance or enter
    into a mesh context via `jax.set_mesh```; ``Length of device assignment 1 is not equal to the size of the mesh``;
    ``PartitionSpec passed to normal cannot contain axis names that are of type Auto or Manual``; ``take() got an unexpected
    keyword argument 'out_sharding'``; ``Contracting dimensions are sharded and it is ambiguous how the output should be
    sharded``; ``Use `.at[...].get(out_sharding=)```; or nothing: ``jnp.zeros(..., out_sharding=NamedSharding(...))`` outside a
    mesh context is ignored since JAX 0.11, and the array lies on one device.

Why
    A ``PartitionSpec`` names axes of the mesh that is set, a ``NamedSharding`` brings its own. For ``out_sharding`` JAX wants
    a mesh with Explicit axes, and has to meet it: as the mesh that is set, or on an operand. ``with mesh:`` sets no mesh that
    ``out_sharding`` sees.

    Where a mesh is in view, and every path in view is without a mesh context, a spec becomes ``NamedSharding(mesh, spec)``.
    A function that makes an array gets the sharding as ``device=`` instead, or is wrapped in ``jax.device_put`` where it has no
    ``device=`` or runs under jit, which ignores it.

Before
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((8,), ("data",))


    @jax.jit
    def gram(x):
        return jnp.matmul(x, x.T, out_sharding=P("data", None))


    x = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("data", None)))
    print(gram(x).sharding)
    print(jnp.zeros((8, 4), out_sharding=P("data")).sharding)

After
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((8,), ("data",))


    @jax.jit
    def gram(x):
        return jnp.matmul(x, x.T, out_sharding=NamedSharding(mesh, P("data", None)))


    x = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("data", None)))
    print(gram(x).sharding)
    print(jnp.zeros((8, 4), device=NamedSharding(mesh, P("data"))).sharding)

When it does not fix
    - The mesh has Auto axes: constrain the result with ``jax.lax.with_sharding_constraint``, or make the axes Explicit. The
  same choice for ``jax.reshard``.
    - ``with_sharding_constraint`` on a mesh that is Explicit on purpose: it only asserts there; ``jax.reshard`` moves.
    - The callable has no ``out_sharding``. For ``jnp.take`` there is ``x.at[ids].get(out_sharding=...)``.
    - A product or a gather whose operands leave open how the result is divided: which sharding is wanted is the author's choice.
    - No mesh, or more than one, is in view.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range
from shardfix.edits import Edit, RemoveArgument, RenameArgument, Replace, SetArgument, Wrap, named
from shardfix.semantics.ambiguity import ambiguous_results, as_owner
from shardfix.semantics.contexts import State
from shardfix.semantics.gates import is_provoked
from shardfix.semantics.jax_api import Takes, out_sharding_callables
from shardfix.semantics.meshes import MeshInView, mesh_view
from shardfix.semantics.operand_shardings import PLACING, operands_are_off_mesh, placement
from shardfix.semantics.passed_values import passed_values
from shardfix.semantics.placement import all_calls_of_result
from shardfix.semantics.readings import leaf_nodes, substituted
from shardfix.semantics.sharding_arguments import ShardingArgument, sharding_arguments
from shardfix.semantics.situations import AxisKind, Situation, axis_kind, situation
from shardfix.semantics.values import Mesh, Sharding, Spec
from shardfix.target import NEWEST_JAX, has

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

NAMED_SHARDING = named("jax.sharding.NamedSharding")
CONSTRAINT = "jax.lax.with_sharding_constraint"
ARRAY_FUNCTIONS = ("jax.numpy.", "jax.lax.", "jax.nn.", "jax.random.", "jax.scipy.", "jax.image.", "jax.ops.")
NO_DEVICE_UNMESHED = frozenset({"jax.numpy.array", "jax.numpy.asarray"})


@dataclass(frozen=True)
class Given:
    """A sharding that is given to JAX, or one of a pytree of them."""

    node: ast.expr
    value: Spec | Sharding

    @property
    def spec(self) -> Spec | None:
        if isinstance(self.value, Spec):
            return self.value
        return self.value.spec if isinstance(self.value.spec, Spec) else None

    @property
    def axes(self) -> frozenset[str] | None:
        return self.spec.axes if self.spec is not None else None


class MeshlessShardings(Codemod):
    triggers = (
        rb"out_sharding",
        rb"with_sharding_constraint|\breshard\b|device_put|ShapeDtypeStruct|make_array_from",
        rb"\b(?:in|out)_shardings\b",
        rb"\bset_mesh\b|use_mesh",
        rb"\bdevice\s*=",
    )
    evidence: ClassVar[frozenset[str]] = frozenset(
        {
            "ambiguous-operation",
            "auto-axes",
            "explicit-constraint",
            "manual-constraint",
            "mesh-mismatch",
            "missing-mesh",
            "sharding-type",
            "unexpected-keyword",
        }
    )

    def findings(self, module: Module) -> Iterator[Finding]:
        arguments = [
            item
            for item in sharding_arguments(module)
            if not module.is_compatibility_code(item.node) and not is_provoked(module, item.node)
        ]
        done: set[ast.expr] = set()
        for argument in arguments:
            if argument.value not in done and argument.certain:
                done.add(argument.value)
                yield from self._examine(module, argument, argument.value, passed=False)
        for passed in passed_values(module, arguments):
            if passed.value not in done:
                done.add(passed.value)
                yield from self._examine(module, passed.argument, passed.value, passed=True)
        yield from self._without_parameter(module)
        if arguments or module.called_names & PLACING:
            for result in ambiguous_results(module, self.settings.target_jax):
                yield self.finding(result.node, result.message, reason=result.remedy)

    def _examine(
        self, module: Module, argument: ShardingArgument, value: ast.expr, *, passed: bool
    ) -> Iterator[Finding]:
        given = list(_given(module, value))
        if not given or argument.parameter.takes in (Takes.SPEC, Takes.SPEC_TREE):
            return
        axes: frozenset[str] | None = frozenset()
        for item in given:
            axes = None if axes is None or item.axes is None else axes | item.axes
        at = situation(module, argument.context(module), value, axes, self.settings.target_jax)
        if at.missing:
            return  # a misspelt axis is another fault
        found = _Judgement(self, module, argument, value, tuple(given), axes, at, passed).finding()
        if found is not None:
            yield found

    def _without_parameter(self, module: Module) -> Iterator[Finding]:
        """Calls with an ``out_sharding`` that the callable does not have."""
        for keyword in module.nodes(ast.keyword):
            call = module.parent(keyword)
            if (
                keyword.arg != "out_sharding"
                or not isinstance(call, ast.Call)
                or module.is_compatibility_code(call)
                or is_provoked(module, call)
            ):
                continue
            names = module.resolve(call.func)
            unknown = {name for name in names if _lacks_out_sharding(name)}
            if not names or unknown != names:
                if isinstance(call.func, ast.Attribute) and call.func.attr == "apply" and _is_at(call.func.value):
                    reason = "of the updates through .at only get, set, add, multiply, ... have one"
                    yield self.finding(keyword, "`.at[...].apply` has no `out_sharding`", reason=reason)
                continue
            name = min(names)
            shown = name.replace("jax.numpy.", "jnp.")
            reason, choices = self._instead(module, call, name, keyword)
            message = f"{shown} has no `out_sharding` up to JAX {NEWEST_JAX}"
            yield self.finding(keyword, message, reason=reason, choices=choices)

    def _instead(self, module: Module, call: ast.Call, name: str, keyword: ast.keyword) -> tuple[str, tuple[Fix, ...]]:
        sharding = module.text(keyword.value)
        if name == "jax.numpy.take" and len(call.args) >= 2:
            axis = next((item.value for item in call.keywords if item.arg == "axis"), None)
            axis = axis or (call.args[2] if len(call.args) > 2 else None)
            count = axis.value if isinstance(axis, ast.Constant) else None
            if count == 0:
                table, ids = (module.text(value) for value in call.args[:2])
                code = f"{as_owner(table, call.args[0])}.at[{ids}].get(out_sharding={sharding})"
                return f"the gather that has one: {code}", (Fix((Replace(Range.of(call), code),), title=code),)
        placed = Fix(
            (
                RemoveArgument(Range.of(call), "out_sharding"),
                Wrap(Range.of(call), f"{named('jax.reshard')}(", f", {sharding})"),
            ),
            title="reshard the result",
            needs_jax="0.8.2",
        )
        return "jax.reshard moves the result (on Auto axes jax.lax.with_sharding_constraint)", (placed,)

    # What the operands leave open


def _is_at(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "at"


def _lacks_out_sharding(name: str) -> bool:
    if not name.startswith(ARRAY_FUNCTIONS) or name in out_sharding_callables():
        return False
    last = name.rpartition(".")[2]
    return (
        last[:1].islower()
        and not name.startswith("jax.nn.initializers.")
        and last not in ("vectorize", "apply_over_axes")
    )


def _given(module: Module, expression: ast.expr) -> Iterator[Given]:
    """The specs and shardings that an argument may be, or hold."""
    for node in leaf_nodes(expression):
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for element in elements:
                    yield from _given(module, element)
            case ast.Dict(values=items):
                for item in items:
                    yield from _given(module, item)
            case ast.Starred() | ast.Constant():
                continue
            case _:
                value = module.value_of(node)
                if isinstance(value, Spec | Sharding):
                    yield Given(node, value)


@dataclass(frozen=True)
class _Judgement:
    """What is wrong with one argument, and what would be right."""

    codemod: MeshlessShardings
    module: Module
    argument: ShardingArgument
    value: ast.expr
    given: tuple[Given, ...]
    axes: frozenset[str] | None
    at: Situation
    passed: bool

    @property
    def target(self) -> str:
        return self.codemod.settings.target_jax or NEWEST_JAX

    @property
    def only_specs(self) -> bool:
        return all(isinstance(item.value, Spec) for item in self.given)

    @property
    def only_shardings(self) -> bool:
        return all(isinstance(item.value, Sharding) for item in self.given)

    @property
    def kind(self) -> AxisKind:
        """The kind of the axes on the mesh that JAX goes by: the sharding's own, or the one that is set."""
        if self.only_shardings:
            kinds = {
                axis_kind(item.value.mesh, item.axes, self.codemod.settings.target_jax)
                if isinstance(item.value, Sharding) and isinstance(item.value.mesh, Mesh)
                else AxisKind.UNKNOWN
                for item in self.given
            }
            return next(iter(kinds)) if len(kinds) == 1 else AxisKind.UNKNOWN
        if self.at.context.is_set:
            meshes = [mesh_view(where).mesh_of(mesh) or Mesh() for where, mesh in self.at.context.meshes]
            found = {axis_kind(mesh, self.axes, self.codemod.settings.target_jax) for mesh in meshes}
            return next(iter(found)) if len(found) == 1 else AxisKind.UNKNOWN
        return self.at.kind if self.at.context.lacks_mesh else AxisKind.UNKNOWN

    @property
    def can_move(self) -> bool:
        """Whether the argument can leave the call: it is written there, in a call of its own."""
        return not self.passed and self.argument.in_call and not self.argument.is_partial

    def finding(self) -> Finding | None:
        parameter, api = self.argument.parameter, self.argument.api
        function = api.rpartition(".")[2]
        if function in ("auto_axes", "explicit_axes", "top_level_all_gather"):
            return None
        if parameter.name == "out_sharding":
            return self._out_sharding()
        if function == "reshard" and self.kind is AxisKind.AUTO and self.axes:
            return self._reshard_on_auto()
        if function == "with_sharding_constraint":
            return self._constraint()
        if parameter.name in ("device", "sharding") and self.only_specs and self._never_takes_specs:
            return self._spec_for_device()
        if (
            self.only_specs and self.at.context.lacks_mesh and api != "jax.ShapeDtypeStruct"
        ):  # which asks when it is used
            return self._spec_without_mesh()
        return None

    # out_sharding

    def _out_sharding(self) -> Finding | None:
        parameter, context = self.argument.parameter, self.at.context
        name = f"`out_sharding` of {self.argument.name}"
        if context.is_manual and self.axes:
            return self._in_mapped_body(name)
        if self.kind is AxisKind.AUTO and self.axes and not context.is_manual:
            return self._on_auto_axes(name)
        if not context.lacks_mesh:
            return None
        makes = parameter.creates or parameter.device
        off = makes or operands_are_off_mesh(self.module, self.argument, self.codemod.settings.target_jax)
        if self.only_specs:
            message = f"{name} is a PartitionSpec, and no mesh context is active"
            return self._placed(message) if off else self._named(message)
        if self.only_shardings and off:
            return self._placed(
                f"{name} is raised on or ignored: no mesh context is active, and no operand is on the mesh"
            )
        return None

    def _in_mapped_body(self, name: str) -> Finding:
        message = f"{name} names axes that are manual in the body of a mapped function"
        if not self.can_move:
            return self.codemod.finding(self.value, message, reason="take the argument out")
        where: str | int = self.argument.parameter.name if self.argument.index is None else self.argument.index
        choice = Fix((RemoveArgument(Range.of(self.argument.node), where),), title="drop the argument")
        return self.codemod.finding(
            self.value, message, reason="the body works on one device's block: drop the argument", choices=(choice,)
        )

    def _on_auto_axes(self, name: str) -> Finding:
        mesh = self._mesh_text()
        message = f"{name} names axes of {mesh} that are Auto, where JAX accepts none"
        choices = []
        if self.can_move:
            choices.append(
                Fix(self._around(CONSTRAINT, None), title="constrain the result with jax.lax.with_sharding_constraint")
            )
        explicit = self._made_explicit()
        if explicit is not None:
            choices.append(explicit)
        reason = "constrain the result with jax.lax.with_sharding_constraint, or make the mesh with Explicit axes"
        return self.codemod.finding(self.value, message, reason=reason, choices=choices)

    def _mesh_text(self) -> str:
        if self.at.mesh is not None and (self.only_specs or self.at.mesh.code in self.module.text(self.value)):
            return f"`{self.at.mesh.code}`"
        return "the mesh"

    def _made_explicit(self) -> Fix | None:
        """Explicit axes for the ``make_mesh`` in view that says Auto."""
        made = self.at.mesh.expression if self.at.mesh is not None else None
        statement = self.module.parent(made) if made is not None else None
        if self.at.mesh is None or self.at.mesh.module is not self.module or not isinstance(statement, ast.Assign):
            return None
        call = statement.value
        axes = self.at.mesh.mesh.axes
        if not isinstance(call, ast.Call) or self.module.resolve(call.func) != {"jax.make_mesh"} or axes is None:
            return None
        if len(call.args) > 2:
            return None
        one = f"({named('jax.sharding.AxisType')}.Explicit,)"
        types = one if len(axes) == 1 else f"{one} * {len(axes)}"
        return Fix(
            (SetArgument(Range.of(call), "axis_types", types),), title="make the axes Explicit", needs_jax="0.5.3"
        )

    def _named(self, message: str) -> Finding:
        """The spec together with its mesh."""
        if self.at.rivals:
            return self.codemod.finding(self.value, message, reason=self._which())
        if self.at.mesh is None:
            return self.codemod.finding(
                self.value, message, reason="enter a mesh with jax.set_mesh, or bring one here for a NamedSharding"
            )
        return self._fixed(message, self._with_mesh(self.at.mesh), "name the mesh: NamedSharding")

    def _which(self) -> str:
        codes = [item.code for item in (self.at.mesh, *self.at.rivals) if item is not None]
        return "which mesh is meant is not in view: " + " or ".join(f"`{code}`" for code in codes)

    def _placed(self, message: str) -> Finding:
        """An array that is made, or whose operands lie on no mesh: placed by device= or device_put."""
        mesh = self.at.mesh if self.only_specs else None
        if self.only_specs and self.at.rivals:
            return self.codemod.finding(self.value, message, reason=self._which())
        if self.only_specs and mesh is None:
            return self.codemod.finding(
                self.value,
                message,
                reason="enter a mesh with jax.set_mesh, or bring one here and place the array with device=",
            )
        if not self.can_move:
            return self.codemod.finding(
                self.value, message, reason="enter jax.set_mesh where this runs, or place the array with jax.device_put"
            )
        parameter = self.argument.parameter
        in_place = parameter.device and self.argument.api not in NO_DEVICE_UNMESHED
        if in_place and self.at.context.traced is False and self.argument.index is None:
            rename = RenameArgument(Range.of(self.argument.node), "out_sharding", "device")
            edits: tuple[Edit, ...] = (rename, *(self._with_mesh(mesh) if mesh is not None else ()))
            return self._fixed(message, edits, "place it with device=")
        return self._fixed(message, self._around("jax.device_put", mesh), "place the result with jax.device_put")

    # Where a spec is no sharding

    @property
    def _never_takes_specs(self) -> bool:
        api = self.argument.api
        if self.argument.parameter.name == "sharding":
            return api not in ("jax.ShapeDtypeStruct", "jax.make_array_from_process_local_data")
        return api.startswith("jax.numpy.") and api not in ("jax.numpy.empty", "jax.numpy.eye")

    def _spec_for_device(self) -> Finding | None:
        name = self.argument.parameter.name
        message = f"`{name}` of {self.argument.name} takes a NamedSharding, and a PartitionSpec names no mesh"
        mesh = self.at.mesh
        if self.at.rivals:
            return self.codemod.finding(self.value, message, reason=self._which())
        if mesh is not None and not (self.argument.api in NO_DEVICE_UNMESHED and self.kind is not AxisKind.AUTO):
            if not (self.at.context.traced and name == "device"):
                return self._fixed(message, self._with_mesh(mesh), "name the mesh: NamedSharding")
        takes_out_sharding = self.argument.api in out_sharding_callables() and self.argument.index is None
        if (
            name == "device"
            and self.at.context.is_set
            and self.kind is AxisKind.EXPLICIT
            and takes_out_sharding
            and self.can_move
        ):
            edit = RenameArgument(Range.of(self.argument.node), "device", "out_sharding")
            return self._fixed(message, (edit,), "the argument that takes a spec is out_sharding")
        return self.codemod.finding(self.value, message, reason="bring the mesh here, and write a NamedSharding")

    def _spec_without_mesh(self) -> Finding | None:
        """A PartitionSpec for device_put, reshard or jit, and no mesh that it could belong to."""
        if self.argument.api.endswith("pjit"):
            return None  # it resolves specs through ``with mesh:``; the codemod pjit looks after both
        if self.argument.api == "jax.jit" and not self._is_called_without_mesh():
            return None
        name = f"`{self.argument.parameter.name}` of {self.argument.name}"
        return self._named(f"{name} is a PartitionSpec, and no mesh context is active")

    def _is_called_without_mesh(self) -> bool:
        """Whether a jitted function is certainly called where no mesh is set: that is where jit resolves its specs."""
        calls = all_calls_of_result(self.module, self.argument.node)
        return bool(calls) and all(mesh_view(self.module).context(call).lacks_mesh for call in calls or ())

    def _reshard_on_auto(self) -> Finding:
        message = "jax.reshard works on Explicit axes, and those named here are Auto"
        choices = []
        if self.can_move and len(self.argument.node.args) >= 2:
            edit = Replace(Range.of(self.argument.function), named(CONSTRAINT))
            choices.append(Fix((edit,), title="jax.lax.with_sharding_constraint, which works on Auto axes"))
        explicit = self._made_explicit()
        if explicit is not None:
            choices.append(explicit)
        reason = "use jax.lax.with_sharding_constraint, or make the mesh with Explicit axes"
        return self.codemod.finding(self.value, message, reason=reason, choices=choices)

    def _constraint(self) -> Finding | None:
        """``with_sharding_constraint``: on Explicit axes an assertion, on none a mistake."""
        context = self.at.context
        if self.only_specs and context.states == {State.NONE}:
            if self.at.mesh is not None and self.at.kind is AxisKind.AUTO:
                return self._named(
                    "`shardings` of jax.lax.with_sharding_constraint is a PartitionSpec, and no mesh context is active"
                )
            reason = "enter jax.set_mesh where this runs; on a mesh with Explicit axes use jax.reshard"
            return self.codemod.finding(
                self.value,
                "`shardings` of jax.lax.with_sharding_constraint is a PartitionSpec, and no mesh context is active",
                reason=reason,
            )
        if self.kind is not AxisKind.EXPLICIT or not self.axes or not self._explicit_on_purpose:
            return None
        operand = self.argument.node.args[0] if self.argument.node.args else None
        if operand is not None and len(self.given) == 1:
            known = placement(self.module, operand, self.codemod.settings.target_jax)
            spec = self.given[0].spec
            if known is not None and spec is not None and known.entries is not None and spec.entries is not None:
                longer = max(len(known.entries), len(spec.entries))
                if known.entries + (None,) * (longer - len(known.entries)) == spec.entries + (None,) * (
                    longer - len(spec.entries)
                ):
                    return None  # the assertion holds
        message = "on a mesh with Explicit axes jax.lax.with_sharding_constraint does not move anything: it asserts"
        choices = []
        if self.can_move and len(self.argument.node.args) >= 2:
            new = "jax.reshard" if has(self.target, "0.8.2") else "jax.sharding.reshard"
            edit = Replace(Range.of(self.argument.function), named(new))
            choices.append(Fix((edit,), title="jax.reshard, which moves", needs_jax="0.7"))
        return self.codemod.finding(
            self.value, message, reason="jax.reshard moves; keep it if an assertion is meant", choices=choices
        )

    @property
    def _explicit_on_purpose(self) -> bool:
        """Whether the axis types are written out: where they are a default, what changed is the default."""
        if self.only_shardings:
            meshes = [item.value.mesh for item in self.given if isinstance(item.value, Sharding)]
        else:
            meshes = [mesh_view(where).mesh_of(mesh) or Mesh() for where, mesh in self.at.context.meshes]
        return all(isinstance(mesh, Mesh) and mesh.types is not None and not mesh.default_types for mesh in meshes)

    # Edits

    def _with_mesh(self, mesh: MeshInView) -> tuple[Edit, ...]:
        return tuple(
            Wrap(Range.of(item.node), f"{NAMED_SHARDING}({mesh.code}, ", ")")
            for item in self.given
            if isinstance(item.value, Spec)
        )

    def _whole(self, mesh: MeshInView | None) -> str:
        if mesh is None:
            return self.module.text(self.value)
        codes = {
            item.node: f"{NAMED_SHARDING}({mesh.code}, {self.module.text(item.node)})"
            for item in self.given
            if isinstance(item.value, Spec)
        }
        return substituted(self.module, self.value, codes)

    def _around(self, function: str, mesh: MeshInView | None) -> tuple[Edit, ...]:
        """The call without the argument, handed to ``function`` together with the sharding."""
        call = Range.of(self.argument.node)
        where: str | int = self.argument.parameter.name if self.argument.index is None else self.argument.index
        return (RemoveArgument(call, where), Wrap(call, f"{named(function)}(", f", {self._whole(mesh)})"))

    def _fixed(self, message: str, edits: tuple[Edit, ...], title: str) -> Finding:
        return self.codemod.finding(self.value, message, fix=Fix(edits, title=title))
