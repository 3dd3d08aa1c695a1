"""Meshes that are missing, that are no meshes, or of which there is one too many. (Found from a traceback.)

What JAX says
    ValueError: The context mesh cannot be empty. Use `jax.set_mesh(mesh)` to enter into a mesh context

    ValueError: The context mesh AbstractMesh('i': 4) should match the mesh passed to shard_map Mesh('i': 8)

    TypeError: shard_map requires a `jax.sharding.Mesh` ... for its second argument, but got [CpuDevice(id=0) ...]

Why
    Axis names mean nothing without a mesh, and one part of a program runs on one mesh.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))
    double = jax.shard_map(lambda x: x * 2, in_specs=P("i"), out_specs=P("i"))
    print(double(jnp.arange(16.0)))

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))
    double = jax.shard_map(lambda x: x * 2, in_specs=P("i"), out_specs=P("i"), mesh=mesh)
    print(double(jnp.arange(16.0)))

When it does not fix
    It never does unasked: which mesh is meant, only the author knows.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Edit, InsertStatement, RemoveArgument, RemoveStatement, Replace, SetArgument, Wrap, named
from shardfix.semantics.meshes import mesh_view
from shardfix.semantics.reported import MAPS, calls_at, frames_in, mesh_code, reported
from shardfix.semantics.values import Spec

if TYPE_CHECKING:
    from shardfix.semantics.calls import Call
    from shardfix.semantics.module import Module
    from shardfix.tracebacks import Evidence, Frame


class MeshesAtOdds(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = ()
    evidence: ClassVar[frozenset[str]] = frozenset(
        {"mesh-mismatch", "mesh-type", "missing-mesh", "set-mesh-inside-jit", "sharding-type"}
    )

    def findings(self, module: Module) -> Iterator[Finding]:
        for evidence, frame in reported(module, *self.evidence):
            match evidence.kind:
                case "sharding-type" if (evidence.value_type or "").endswith("Mesh"):
                    yield from self._mesh_as_sharding(module, evidence, frame)
                case "set-mesh-inside-jit":
                    yield from self._set_inside(module, evidence, frame)
                case "missing-mesh":
                    yield from self._missing(module, evidence)
                case "mesh-mismatch":
                    yield from self._mismatch(module, evidence)
                case "mesh-type":
                    yield from self._wrong_type(module)

    # No mesh

    def _missing(self, module: Module, evidence: Evidence) -> Iterator[Finding]:
        if evidence.api in ("shard_map", "smap"):
            for call in module.calls_to(*MAPS):
                mesh = mesh_code(module, call.node)
                if mesh and not call.dotted.endswith("smap") and call.argument("mesh") is None:
                    edit = SetArgument(Range.of(call.node), "mesh", mesh)
                    choice = Fix((edit,), Safety.UNSAFE, f"map over {mesh}")
                    yield self.finding(call.node, "shard_map is given no mesh", choices=[choice])
        if evidence.argument in ("in_shardings", "out_shardings") and (jitted := list(self._jit_specs(module))):
            yield from jitted
            return  # arrays that are made under a mesh are on it: in_shardings would then be at odds with them
        if (found := _outermost(module, evidence)) is None:
            return
        statement, mesh = found
        code = f"{named('jax.set_mesh')}({mesh})"
        more: tuple[Edit, ...] = ()
        if evidence.api == "top_level_all_gather":
            code, more = _put_on(module, statement, code)
        insert = InsertStatement(Range.of(statement), code)
        choice = Fix((insert, *more), Safety.UNSAFE, f"set {mesh} from here on", needs_jax="0.7.1")
        yield self.finding(statement, "no mesh is set here", choices=[choice])

    def _jit_specs(self, module: Module) -> Iterator[Finding]:
        """The bare specs in the shardings of jitted functions: with the mesh beside them they need no context."""
        for call in module.calls_to("jax.jit"):
            mesh = mesh_code(module, call.node)
            arguments = [call.argument(name) for name in ("in_shardings", "out_shardings")]
            specs = [
                node
                for argument in arguments
                for node in (ast.walk(argument.value) if argument is not None else ())
                if isinstance(node, ast.Call)
                and module.resolve(node.func) & {"jax.sharding.PartitionSpec", "jax.P"}
                and not _is_in_sharding(module, node)
            ]
            if mesh is not None and specs:
                before = f"{named('jax.sharding.NamedSharding')}({mesh}, "
                edits = tuple(Wrap(Range.of(spec), before, ")") for spec in specs)
                fix = Fix(edits, title="name the mesh: NamedSharding")
                yield self.finding(call.node, "jit is given specs, and no mesh for them", fix=fix)

    def _mesh_as_sharding(self, module: Module, evidence: Evidence, frame: Frame) -> Iterator[Finding]:
        for call in calls_at(module, frame):
            for keyword in call.keywords:
                if keyword.arg == evidence.argument:
                    mesh = mesh_view(module).mesh_of(keyword.value)
                    axes = (mesh.axes if mesh is not None else None) or ()
                    specs = [*(f'P("{axis}")' for axis in axes[:2]), "P()"]
                    choices = [_sharded(keyword.value, spec) for spec in specs]
                    yield self.finding(
                        keyword.value, "a mesh alone does not say what is split over it", choices=choices
                    )

    def _set_inside(self, module: Module, evidence: Evidence, frame: Frame) -> Iterator[Finding]:
        for block in module.nodes(ast.With):
            item = block.items[0].context_expr
            if block.lineno != frame.line or len(block.items) != 1 or not isinstance(item, ast.Call) or not item.args:
                continue
            mesh = module.text(item.args[0])
            code = _unindented(module, block, mesh)
            away = RemoveStatement(Range.of(block))
            choices = []
            if code != (plain := _unindented(module, block, None)):
                edits = (InsertStatement(Range.of(block), code), away)
                choices.append(Fix(edits, Safety.UNSAFE, "name the mesh in the constraints, and set none"))
            outside = _outermost(module, evidence)
            if outside is not None and outside[0].lineno != block.lineno:
                around = InsertStatement(Range.of(outside[0]), f"{named('jax.set_mesh')}({outside[1]})")
                within = InsertStatement(Range.of(block), plain)
                choices.append(
                    Fix((around, within, away), Safety.UNSAFE, f"set {outside[1]} before the call", needs_jax="0.7.1")
                )
            yield self.finding(item, "a mesh can only be set outside of jit", choices=choices)

    # Two meshes

    def _mismatch(self, module: Module, evidence: Evidence) -> Iterator[Finding]:
        meshes = [evidence.known.get(name, "") for name in ("context", "given")]
        both_abstract = all("AbstractMesh" in mesh and "Manual" not in mesh for mesh in meshes)
        for call in module.calls_to(*MAPS):
            mesh = call.argument("mesh")
            if mesh is not None and mesh.direct and mesh.name == "mesh":
                yield from self._two_meshes(module, call, mesh.value)
            elif mesh is None and both_abstract and isinstance(call.node.func, ast.Attribute | ast.Name):
                wrap = Wrap(Range.of(call.node), "lambda *args: ", "(*args)")
                choice = Fix((wrap,), Safety.UNSAFE, "map anew at each call, over the mesh that is set then")
                yield self.finding(call.node, "a map keeps the mesh of its first call", choices=[choice])

    def _two_meshes(self, module: Module, call: Call, mesh: ast.expr) -> Iterator[Finding]:
        drop = Fix(
            (RemoveArgument(Range.of(call.node), "mesh"),), Safety.UNSAFE, "take the mesh that is set around the call"
        )
        choices = [drop]
        contexts = [
            item.context_expr.args[0]
            for block in module.nodes(ast.With)
            for item in block.items
            if isinstance(item.context_expr, ast.Call)
            and item.context_expr.args
            and module.resolve(item.context_expr.func)
            & {"jax.set_mesh", "jax.sharding.set_mesh", "jax.sharding.use_mesh"}
        ]
        others = [node for node in contexts if module.text(node) != module.text(mesh)]
        if len(others) == 1 and isinstance(mesh, ast.Name):
            replace = Replace(Range.of(others[0]), mesh.id)
            choices.append(Fix((replace,), Safety.UNSAFE, f"set {mesh.id} around the call"))
        yield self.finding(call.node, "the map's mesh is another than the one that is set", choices=choices)

    # No mesh, though it is passed as one

    def _wrong_type(self, module: Module) -> Iterator[Finding]:
        for call in module.calls_to(*MAPS):
            mesh = call.argument("mesh", 1)
            axes = _axes(module, call)
            if mesh is None or not axes:
                continue
            names = "".join(f'"{axis}", ' for axis in axes)
            names = names.rstrip() if len(axes) == 1 else names.rstrip(", ")
            wrap = Wrap(Range.of(mesh.value), f"{named('jax.sharding.Mesh')}(", f", ({names}))")
            choice = Fix((wrap,), Safety.UNSAFE, "make a mesh of the devices, with the axes that the specs name")
            yield self.finding(mesh.value, "devices are no mesh: they have no axis names", choices=[choice])


def _put_on(module: Module, statement: ast.stmt, code: str) -> tuple[str, tuple[Edit, ...]]:
    """``top_level_all_gather`` also wants an array that is split over the mesh, and a target that says what is gathered."""
    spec = named("jax.sharding.PartitionSpec")
    for call in module.nodes(ast.Call):
        gathers = any(name.endswith(".top_level_all_gather") for name in module.resolve(call.func))
        if not gathers or module.statement(call) is not statement or len(call.args) != 2:
            continue
        mesh = next((one.mesh for one in mesh_view(module).meshes(call)), None)
        array = call.args[0]
        if isinstance(array, ast.Name) and mesh is not None and mesh.axes:
            axis = mesh.axes[0]
            code += f'\n{array.id} = {named("jax.device_put")}({array.id}, {spec}("{axis}"))'
            return code, (Replace(Range.of(call.args[1]), f'{spec}(None, reduced={{"{axis}"}})'),)
    return code, ()


def _sharded(mesh: ast.expr, spec: str) -> Fix:
    code = spec.replace("P", named("jax.sharding.PartitionSpec"), 1)
    wrap = Wrap(Range.of(mesh), f"{named('jax.sharding.NamedSharding')}(", f", {code})")
    return Fix((wrap,), Safety.UNSAFE, f"split over it as {spec}")


def _unindented(module: Module, block: ast.With, mesh: str | None) -> str:
    """The statements of a block as they stand outside of it, with the mesh, if one is given, in each constraint."""
    start, end = module.offset(block.body[0].lineno, 0), module.span(block.body[-1])[1]
    text = module.source[start:end]
    for call in sorted(module.calls_to("jax.lax.with_sharding_constraint"), key=lambda one: -one.node.lineno):
        spec = call.argument("shardings", 1)
        if mesh is None or spec is None or block not in module.ancestors(call.node):
            continue
        if isinstance(spec.value, ast.Call) and module.resolve(spec.value.func) & {
            "jax.sharding.PartitionSpec",
            "jax.P",
        }:
            first, last = (offset - start for offset in module.span(spec.value))
            sharding = f"{named('jax.sharding.NamedSharding')}({mesh}, {text[first:last]})"
            text = text[:first] + sharding + text[last:]
    return textwrap.dedent(text)


def _is_in_sharding(module: Module, node: ast.AST) -> bool:
    return any(
        isinstance(parent, ast.Call)
        and module.resolve(parent.func) & {"jax.sharding.NamedSharding", "jax.NamedSharding"}
        for parent in module.ancestors(node)
    )


def _axes(module: Module, call: Call) -> tuple[str, ...]:
    """The axes that the specs of a map name, in the order in which they do."""
    found: dict[str, None] = {}
    for name in ("in_specs", "out_specs"):
        argument = call.argument(name)
        for node in ast.walk(argument.value) if argument is not None else ():
            value = module.value_of(node) if isinstance(node, ast.Call) else None
            if isinstance(value, Spec):
                found.update(dict.fromkeys(sorted(value.axes or ())))
    return tuple(found)


def _outermost(module: Module, evidence: Evidence) -> tuple[ast.stmt, str] | None:
    """The outermost statement in which the error came about and before which a mesh can be set, with a mesh in view."""
    for frame in reversed(frames_in(module, evidence)):
        around = [
            node
            for kind in (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)
            for node in module.nodes(kind)
            if node.lineno <= frame.line <= (node.end_lineno or node.lineno)
        ]
        for statement in around[:1]:
            parents = list(module.ancestors(statement))
            functions = [
                node for node in parents if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            ]
            if any(getattr(function, "decorator_list", None) for function in functions):
                return None  # it may be traced: no mesh can be set in there
            if any(isinstance(node, ast.With) for node in parents):
                return None
            mesh = mesh_code(module, statement)
            if mesh is not None:
                return statement, mesh
    return None
