"""Strings, tuples and lists where JAX wants a sharding or a PartitionSpec.

What JAX says
    ``TypeError: `out_sharding` argument of jnp.zeros only supports instances of `NamedSharding` or `PartitionSpec`. Got x
    of type: <class 'str'>``. Lists end in ``unhashable type: 'list'``, ``x.at[i].get(...)`` in a bare ``AssertionError``,
    ``shard_map`` in ``... argument must be a pytree of `jax.sharding.PartitionSpec` instances``, ``jnp.zeros(device=...)`` in
    ``'str' object has no attribute '_is_concrete'``.

Why
    An axis name says nothing without its mesh. JAX takes a ``NamedSharding``, which holds both, or under a mesh context a
    ``PartitionSpec``. A string stands for one axis, a tuple or list for a spec, a tuple inside it for one dimension over
    several axes.

    Where a mesh can be named the repair is ``NamedSharding(mesh, P(...))``, with the mesh that is nearest: the one given to
    the enclosing ``jax.set_mesh``, a parameter or variable, an attribute of ``self``, a module global. Elsewhere it is
    ``P(...)``, which needs a mesh context.

    Not every place takes an ``out_sharding``, whatever it says. A function that makes an array has no operand to bring the
    mesh: without a mesh context it raises or leaves the array on one device, so there the sharding goes to ``device=``, or
    around the call with ``jax.device_put``. On a mesh with Auto axes it goes around the call with
    ``jax.lax.with_sharding_constraint``, and in the body of a ``shard_map`` the argument goes.

Before
    import jax
    import jax.numpy as jnp

    mesh = jax.make_mesh((8,), ("data",))


    def embed(tokens):
        return jnp.reshape(tokens, (16, 4), out_sharding=("data", None))


    with jax.set_mesh(mesh):
        print(jax.typeof(embed(jnp.arange(64))))
    print(jnp.zeros((8, 4), out_sharding="data").sharding)

After
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((8,), ("data",))


    def embed(tokens):
        return jnp.reshape(tokens, (16, 4), out_sharding=NamedSharding(mesh, P("data", None)))


    with jax.set_mesh(mesh):
        print(jax.typeof(embed(jnp.arange(64))))
    print(jnp.zeros((8, 4), device=NamedSharding(mesh, P("data"))).sharding)

When it does not fix
    - The mesh in view has no such axis: the nearest one is shown, and taken only where it is one letter off.
    - Several meshes are equally near, or the function is never under a mesh context and no mesh is in view.
    - A tuple could be one spec or one leaf for each argument, and neither the operand nor the function is in view.
    - The method is called on an object that is not known to be a JAX array.
    - A value that comes in through a parameter which the function also uses otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range
from shardfix.edits import Edit, RemoveArgument, RenameArgument, Replace, Wrap, named
from shardfix.edits.spec_conversions import Conversion, Problem, convert, leaves_of
from shardfix.semantics.contexts import State
from shardfix.semantics.gates import is_provoked
from shardfix.semantics.jax_api import Takes
from shardfix.semantics.meshes import MeshInView
from shardfix.semantics.operand_shardings import operands_are_off_mesh
from shardfix.semantics.passed_values import PassedValue, passed_values, values_of_shared_parameter
from shardfix.semantics.readings import Kind, Reading, joined, leaves, read, substituted
from shardfix.semantics.sharding_arguments import ShardingArgument, sharding_arguments
from shardfix.semantics.situations import AxisKind, Situation, situation
from shardfix.semantics.structures import structure
from shardfix.target import NEWEST_JAX, has

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

NAMED_SHARDING = named("jax.sharding.NamedSharding")
CONSTRAINT = "jax.lax.with_sharding_constraint"
PLATFORMS = frozenset("cpu gpu tpu cuda rocm METAL".split())
NEEDS_CONTEXT = "a mesh context (jax.set_mesh) must be active where this runs"
ARRAYS_ONLY_UNDER_CONTEXT = frozenset(
    {"jax.numpy.array", "jax.numpy.asarray", "jax.numpy.linspace", "jax.numpy.astype", "jax.Array.astype"}
)
"""``device=`` of these takes a mesh with Explicit axes only while that mesh is set."""
NEVER_MESHED = frozenset({"jax.numpy.fft.fftfreq", "jax.numpy.fft.rfftfreq"})


class StringShardings(Codemod):
    triggers = (
        rb"out_sharding",
        rb"\bshard_map\b",
        rb"with_sharding_constraint|device_put|NamedSharding|reshard|ShapeDtypeStruct|make_array_from",
        rb"\b(?:in|out)_shardings\b",
        rb"\bdevice\s*=\s*[(\[\w'\"]",
        rb"auto_axes|explicit_axes|top_level_all_gather|nn\.initializers",
    )
    evidence: ClassVar[frozenset[str]] = frozenset({"sharding-type", "spec-type"})

    def findings(self, module: Module) -> Iterator[Finding]:
        seen: set[tuple[ast.expr, str]] = set()
        arguments = [
            item
            for item in sharding_arguments(module)
            if not module.is_compatibility_code(item.node) and not is_provoked(module, item.node)
        ]
        for argument in arguments:
            if (argument.value, argument.parameter.name) in seen:
                continue
            seen.add((argument.value, argument.parameter.name))
            readings = dict(_shared_parameters(module, argument, arguments))
            found = self._examine(module, replace(argument, readings=readings), arguments)
            if found is not None:
                yield found
        for fed in passed_values(module, arguments):
            if (fed.value, "") not in seen:
                seen.add((fed.value, ""))
                found = self._examine(module, fed.argument, arguments, fed)
                if found is not None:
                    yield found

    def _examine(
        self,
        module: Module,
        argument: ShardingArgument,
        arguments: list[ShardingArgument],
        fed: PassedValue | None = None,
    ) -> Finding | None:
        value = fed.value if fed is not None else argument.value
        parts_of_value = leaves_of(module, value, argument)
        if all(leaf.reading.kind is not Kind.MAPPING and not leaf.reading.is_wrong for leaf in parts_of_value):
            return None  # before its structure is asked for, which runs the function it belongs to
        parts = list(convert(module, value, structure(module, argument), argument))
        problems = [part for part in parts if isinstance(part, Problem)]
        conversions = [part for part in parts if isinstance(part, Conversion)]
        if not parts:
            return None
        message = _message(module, argument, (problems or conversions)[0])
        if problems:
            return self.finding(problems[0].node, message, reason=problems[0].why)
        place = conversions[0].node if len(conversions) == 1 else value
        if not argument.certain:
            reason = f"whether `{module.text(argument.function)}` is a method of a JAX array is not in view"
            return self.finding(place, message, reason=reason)
        if not argument.in_call and fed is None and not _only_for_jax(module, argument, arguments):
            return self.finding(place, message, reason="the dict it stands in is also used otherwise")
        return _Repair(self, module, argument, value, conversions, message, place, fed).finding()


def _message(module: Module, argument: ShardingArgument, part: Conversion | Problem) -> str:
    wanted = {
        Takes.SPEC: "a PartitionSpec",
        Takes.SPEC_TREE: "PartitionSpecs",
        Takes.DEVICE: "a device or a NamedSharding",
        Takes.DEVICE_TREE: "a device, a NamedSharding or a PartitionSpec",
    }.get(argument.parameter.takes, "a NamedSharding or a PartitionSpec")
    text = " ".join(module.text(part.node).split())
    kind = "dict" if part.reading.kind is Kind.MAPPING else str(part.reading.kind)
    written = f"the {kind} `{text}`" if len(text) <= 50 else f"a {kind}"
    return f"`{argument.parameter.name}` of {argument.name} takes {wanted}, not {written}"


def _shared_parameters(
    module: Module, argument: ShardingArgument, arguments: list[ShardingArgument]
) -> Iterator[tuple[ast.expr, Reading]]:
    """What is known of the parameters in an argument that their functions use otherwise as well."""
    for leaf in leaves(module, argument.value):
        if leaf.reading.kind is Kind.UNKNOWN and isinstance(leaf.node, ast.Name):
            values = values_of_shared_parameter(module, leaf.node, arguments)
            if values:
                yield leaf.node, joined([read(module, value) for value in values])


# Repairs


@dataclass(frozen=True)
class _Repair:
    """Works out the repair of one argument."""

    codemod: StringShardings
    module: Module
    argument: ShardingArgument
    value: ast.expr
    conversions: list[Conversion]
    message: str
    place: ast.expr
    fed: PassedValue | None

    @property
    def target(self) -> str:
        return self.codemod.settings.target_jax or NEWEST_JAX

    @property
    def axes(self) -> frozenset[str] | None:
        found = [conversion.reading.axes for conversion in self.conversions]
        return None if None in found else frozenset[str]().union(*[axes for axes in found if axes is not None])

    def finding(self) -> Finding:
        at = situation(
            self.module,
            self.argument.context(self.module),
            self.value,
            self._named_axes(),
            self.codemod.settings.target_jax,
        )
        if self.argument.parameter.takes is Takes.SPEC:
            at = self._against_own_mesh(at, "mesh", 0)
        elif self.argument.parameter.takes is Takes.SPEC_TREE:
            at = self._against_own_mesh(at, "mesh", 1 if "experimental" in self.argument.api else None)
        repair = self
        if self.argument.parameter.takes in (Takes.DEVICE, Takes.DEVICE_TREE):
            platform = self._platform(at)
            if platform:
                return self._manual(f"a platform is no device: jax.devices({platform!r})[0] is one")
        if at.missing:
            corrected = self._corrected(at)
            if corrected is None:
                return self._unknown_axes(at)
            repair = corrected
            at = situation(
                self.module,
                self.argument.context(self.module),
                self.value,
                repair._named_axes(),
                self.codemod.settings.target_jax,
            )
        return repair._at(at)

    def _named_axes(self) -> frozenset[str] | None:
        """The axes that are known to be named, also where others are not known."""
        known: set[str] = set()
        for conversion in self.conversions:
            for entry in conversion.reading.entries or ():
                known.update(entry if isinstance(entry, tuple) else [entry] if isinstance(entry, str) else [])
        return frozenset(known) if known or self.axes is not None else None

    def _against_own_mesh(self, at: Situation, name: str, index: int | None) -> Situation:
        """For specs that are given together with their mesh: only that mesh counts."""
        from shardfix.semantics.meshes import Home, mesh_view

        call = self.argument.call
        mesh = call.value(name, index) if call is not None else None
        if mesh is None:
            return at if at.context.is_set else replace(at, missing=frozenset())
        known = mesh_view(self.module).mesh_of(mesh)
        if known is None or known.axes is None:
            return replace(at, missing=frozenset(), known_axes=())
        own = MeshInView(self.module.text(mesh), known, Home.LOCAL, self.module)
        return replace(at, missing=own.lacks(self._named_axes()), known_axes=known.axes, mesh=own)

    def _corrected(self, at: Situation) -> _Repair | None:
        """The repair with misspelt axes corrected, where all of them certainly are and stand in the text as literals."""
        corrections = {axis: at.certain_correction(axis) for axis in at.missing}
        if None in corrections.values():
            return None
        changed = []
        for conversion in self.conversions:
            axes = conversion.reading.axes or frozenset()
            if not axes & at.missing:
                changed.append(conversion)
                continue
            literals = {
                node: node.value
                for node in ast.walk(conversion.node)
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in at.missing
            }
            if set(literals.values()) != axes & at.missing:
                return None
            spec = conversion.spec
            for name in literals.values():
                right = corrections[name]
                spec = spec.replace(f'"{name}"', f'"{right}"').replace(f"'{name}'", f"'{right}'")
            entries = tuple(_renamed(entry, corrections) for entry in conversion.reading.entries or ())
            changed.append(replace(conversion, spec=spec, reading=replace(conversion.reading, entries=entries)))
        wrong, right = next(iter(corrections.items()))
        return replace(
            self, conversions=changed, message=f"{self.message}; the mesh has no axis `{wrong}`, but `{right}`"
        )

    def _unknown_axes(self, at: Situation) -> Finding:
        names = ", ".join(f"`{axis}`" for axis in sorted(at.missing))
        known = ", ".join(f"`{axis}`" for axis in dict.fromkeys(at.known_axes))
        axis = min(at.missing)
        nearest = at.nearest(axis)
        reason = (
            f"the mesh in view has no axis {names}; it has {known}" if known else f"no mesh in view has an axis {names}"
        )
        if nearest is not None:
            reason += f": did you mean `{nearest}`?"
        return self.codemod.finding(self.place, self.message, reason=reason)

    def _at(self, at: Situation) -> Finding:
        """The finding, with the repair that fits the situation."""
        parameter = self.argument.parameter
        if parameter.takes in (Takes.SPEC, Takes.SPEC_TREE):
            return self._fixed(self._replaced(None), "write a PartitionSpec")
        if (
            at.context.is_manual
            and parameter.name == "out_sharding"
            and self.fed is None
            and not self._is_tree_of_results
        ):
            return self._dropped()
        if at.rivals:
            names = " or ".join(f"`{item.code}`" for item in (at.mesh, *at.rivals) if item is not None)
            return self.codemod.finding(self.place, self.message, reason=f"which mesh is meant is not in view: {names}")
        if parameter.takes.tree:
            return self._tree(at)
        if parameter.name == "out_sharding":
            return self._out_sharding(at)
        if parameter.name == "device":
            return self._device(at)
        return self._sharding(at)

    def _platform(self, at: Situation) -> str | None:
        for conversion in self.conversions:
            for entry in conversion.reading.entries or ():
                if isinstance(entry, str) and entry.partition(":")[0] in PLATFORMS and entry not in at.known_axes:
                    return entry.partition(":")[0]
        return None

    @property
    def _is_tree_of_results(self) -> bool:
        return self.argument.api.endswith(("auto_axes", "explicit_axes"))

    # The ways to write it

    def _sharding_code(self, mesh: MeshInView | None, spec: str) -> str:
        return f"{NAMED_SHARDING}({mesh.code}, {spec})" if mesh is not None else spec

    def _codes(self, mesh: MeshInView | None) -> dict[ast.expr, str]:
        found: dict[ast.expr, str] = {}
        for conversion in self.conversions:
            if not conversion.spec:
                assert isinstance(conversion.node, ast.Tuple | ast.List)
                found[conversion.node] = self.module.text(conversion.node.elts[0])
            else:
                mesh_here = None if conversion.raw else mesh
                found[conversion.node] = conversion.code(self._sharding_code(mesh_here, conversion.spec))
        return found

    def _replaced(self, mesh: MeshInView | None) -> tuple[Edit, ...]:
        return tuple(Replace(Range.of(node), code) for node, code in self._codes(mesh).items())

    def _whole(self, mesh: MeshInView | None) -> str:
        """The code of the whole argument."""
        return substituted(self.module, self.argument.value, self._codes(mesh))

    def _around(self, function: str, mesh: MeshInView | None) -> tuple[Edit, ...]:
        """The call without the argument, handed to ``function`` together with the sharding."""
        call = Range.of(self.argument.node)
        name: str | int = self.argument.parameter.name if self.argument.index is None else self.argument.index
        return (RemoveArgument(call, name), Wrap(call, f"{named(function)}(", f", {self._whole(mesh)})"))

    def _fixed(self, edits: tuple[Edit, ...], title: str, note: str = "", needs_jax: str | None = None) -> Finding:
        fix = Fix(edits, title=title, needs_jax=needs_jax)
        return self.codemod.finding(self.place, self.message, fix=fix, reason=note)

    def _manual(self, reason: str) -> Finding:
        return self.codemod.finding(self.place, self.message, reason=reason)

    def _can_move(self) -> bool:
        """Whether the argument can leave the call: it is written there, in a call of its own."""
        return self.fed is None and self.argument.in_call and not self.argument.is_partial

    # The places

    def _dropped(self) -> Finding:
        if not self._can_move():
            return self._manual("in the body of a mapped function no out_sharding is accepted; take the argument out")
        name: str | int = self.argument.parameter.name if self.argument.index is None else self.argument.index
        title = "drop out_sharding: the body of a mapped function works on one device's block"
        return self._fixed((RemoveArgument(Range.of(self.argument.node), name),), title)

    def _out_sharding(self, at: Situation) -> Finding:
        parameter = self.argument.parameter
        if at.kind is AxisKind.AUTO and self.axes != frozenset():
            return self._on_auto_mesh(at)
        makes = parameter.creates or parameter.device or self._works_off_mesh(at)
        if makes and at.context.may_lack_mesh and State.UNKNOWN not in at.context.states:
            return self._outside(at)
        if at.mesh is None and at.context.lacks_mesh:
            return self._manual(
                "no mesh is in view here, and no mesh context is active: make one with jax.make_mesh and set it"
            )
        note = "" if at.context.is_set else self._note(at)
        return self._fixed(self._replaced(at.mesh), self._title(at.mesh), note)

    def _works_off_mesh(self, at: Situation) -> bool:
        """Whether no operand brings a mesh along, so that without a mesh context the sharding would be ignored."""
        return at.context.may_lack_mesh and operands_are_off_mesh(
            self.module, self.argument, self.codemod.settings.target_jax
        )

    def _note(self, at: Situation) -> str:
        if at.mesh is None:
            return NEEDS_CONTEXT
        if self.argument.parameter.creates or self.argument.parameter.device:
            return NEEDS_CONTEXT
        return "without a mesh context (jax.set_mesh) the operand must lie on this mesh"

    @staticmethod
    def _title(mesh: MeshInView | None) -> str:
        return "write a NamedSharding" if mesh is not None else "write a PartitionSpec"

    def _on_auto_mesh(self, at: Situation) -> Finding:
        """No out_sharding is accepted for axes that the compiler divides."""
        if not self._can_move():
            return self._manual(
                "the mesh has Auto axes, where out_sharding is not accepted; use jax.lax.with_sharding_constraint"
            )
        if at.mesh is None and not at.context.is_set:
            return self._manual("the mesh has Auto axes, and it cannot be named here")
        parameter = self.argument.parameter
        if parameter.device and at.context.traced is False and at.mesh is not None and self._keyword:
            return self._as_device(at)
        title = "the mesh has Auto axes: constrain the result"
        return self._fixed(self._around(CONSTRAINT, at.mesh), title)

    @property
    def _keyword(self) -> bool:
        return self.argument.index is None

    def _as_device(self, at: Situation) -> Finding:
        call = Range.of(self.argument.node)
        edits = (RenameArgument(call, self.argument.parameter.name, "device"), *self._replaced(at.mesh))
        return self._fixed(edits, "no mesh context is active: place it with device=")

    def _outside(self, at: Situation) -> Finding:
        """A function that makes an array, where no mesh is set: out_sharding would raise, or be ignored."""
        if at.mesh is None:
            return self._manual(
                "no mesh is in view here, and no mesh context is active: make one with jax.make_mesh and set it"
            )
        if not self._can_move():
            return self._manual(
                "no mesh context is active where this runs: enter jax.set_mesh, or place the array with jax.device_put"
            )
        in_place = self.argument.parameter.device and self.argument.api not in ARRAYS_ONLY_UNDER_CONTEXT
        if in_place and at.context.traced is False and self._keyword:
            return self._as_device(at)
        return self._fixed(self._around("jax.device_put", at.mesh), "no mesh context is active: place the result")

    def _device(self, at: Situation) -> Finding:
        """``device=`` of a function that makes an array: no PartitionSpec, and inside jit it is ignored."""
        api = self.argument.api
        if api in NEVER_MESHED or (
            api in ARRAYS_ONLY_UNDER_CONTEXT and at.kind is not AxisKind.AUTO and not at.context.is_set
        ):
            if at.mesh is None or not self._can_move():
                return self._manual(
                    "device= of this function takes no such sharding; place the result with jax.device_put"
                )
            return self._fixed(self._around("jax.device_put", at.mesh), "place the result")
        if at.mesh is None:
            if at.context.is_set and at.kind is AxisKind.EXPLICIT and self._can_move() and self._takes_out_sharding:
                call = Range.of(self.argument.node)
                return self._fixed(
                    (RenameArgument(call, "device", "out_sharding"), *self._replaced(None)), "use out_sharding"
                )
            return self._manual("device= takes a NamedSharding, and no mesh is in view here")
        if at.context.traced and api.startswith("jax.numpy.") and self._can_move():
            function = CONSTRAINT if at.kind is AxisKind.AUTO else "jax.device_put"
            return self._fixed(self._around(function, at.mesh), "device= is ignored inside jit: place the result")
        return self._fixed(self._replaced(at.mesh), self._title(at.mesh))

    @property
    def _takes_out_sharding(self) -> bool:
        from shardfix.semantics.jax_api import out_sharding_parameter

        return out_sharding_parameter(self.argument.api) is not None and self._keyword

    def _sharding(self, at: Situation) -> Finding:
        """``sharding=`` of ShapeDtypeStruct, lax.full, make_array_from_callback."""
        if at.mesh is not None:
            return self._fixed(self._replaced(at.mesh), self._title(at.mesh))
        if self.argument.api == "jax.ShapeDtypeStruct" and State.SET in at.context.states:
            return self._fixed(self._replaced(None), self._title(None), NEEDS_CONTEXT)
        return self._manual("it takes a NamedSharding, and no mesh is in view here")

    def _tree(self, at: Situation) -> Finding:
        """Where a pytree of shardings is taken: device_put, reshard, with_sharding_constraint, jit, auto_axes."""
        function = self.argument.api.rpartition(".")[2]
        if function == "reshard" and at.kind is AxisKind.AUTO:
            return self._swapped(
                "with_sharding_constraint", at, "jax.reshard works on Explicit axes only, and these are Auto"
            )
        if function == "with_sharding_constraint" and at.kind is AxisKind.EXPLICIT:
            return self._swapped(
                "reshard", at, "on Explicit axes with_sharding_constraint only asserts; jax.reshard moves"
            )
        if at.mesh is None and at.context.lacks_mesh:
            legacy = at.context.states == {State.LEGACY} and function == "with_sharding_constraint"
            if not legacy and not self._is_tree_of_results:
                return self._manual(
                    "no mesh is in view here, and no mesh context is active: make one with jax.make_mesh and set it"
                )
        mesh = at.mesh
        note = "" if mesh is not None or at.context.is_set else NEEDS_CONTEXT
        return self._fixed(self._replaced(mesh), self._title(mesh), note)

    def _swapped(self, function: str, at: Situation, why: str) -> Finding:
        """The same placement through the function that the kind of axes asks for."""
        if not self._can_move() or self.argument.call is None:
            return self._manual(why)
        if function == "reshard":
            new = "jax.reshard" if has(self.target, "0.8.2") else "jax.sharding.reshard"
            renamed, needs = {"shardings": "out_shardings"}, "0.7"
        else:
            new, renamed, needs = CONSTRAINT, {"out_shardings": "shardings", "xs": "x"}, None
        call = self.argument.node
        edits: list[Edit] = [Replace(Range.of(self.argument.function), named(new)), *self._replaced(at.mesh)]
        if function == "reshard":
            renamed["x"] = "xs"
        for keyword in call.keywords:
            if keyword.arg in renamed:
                edits.append(RenameArgument(Range.of(call), keyword.arg, renamed[keyword.arg]))
        if at.mesh is None and not at.context.is_set:
            return self._manual(why)
        return self._fixed(tuple(edits), why, needs_jax=needs)


def _renamed(entry: object, corrections: dict[str, str | None]) -> str | tuple[str, ...] | None:
    if isinstance(entry, tuple):
        return tuple(corrections.get(name) or name for name in entry)
    return corrections.get(entry) or entry if isinstance(entry, str) else None


def _only_for_jax(module: Module, argument: ShardingArgument, arguments: list[ShardingArgument]) -> bool:
    """Whether a value in a dict that ``**`` spreads reaches nothing but JAX's functions that take a sharding there."""
    spread = next(
        (
            keyword.value
            for keyword in argument.node.keywords
            if keyword.arg is None and isinstance(keyword.value, ast.Name)
        ),
        None,
    )
    if spread is None:
        return True
    takers = {item.node for item in arguments if item.value is argument.value}
    for node in module.nodes(ast.Name):
        if node.id != spread.id or isinstance(node.ctx, ast.Store):
            continue
        parent = module.parent(node)
        if isinstance(parent, ast.keyword) and module.parent(parent) in takers:
            continue
        if isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant):
            if parent.slice.value != argument.parameter.name:
                continue
        return False
    return True
