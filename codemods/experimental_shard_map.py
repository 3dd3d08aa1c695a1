"""`jax.experimental.shard_map.shard_map`, and what `jax.shard_map` no longer takes.

What JAX says
    Since JAX 0.8:

    DeprecationWarning: jax.experimental.shard_map is deprecated in v0.8.0. Used jax.shard_map instead.

    But `jax.shard_map` takes all but the function as keywords, and two of them have new names:

    TypeError: shard_map() takes from 0 to 1 positional arguments but 4 were given
    TypeError: shard_map() got an unexpected keyword argument 'check_rep'
    TypeError: shard_map() got an unexpected keyword argument 'auto'
    TypeError: shard_map() got some positional-only arguments passed as keyword arguments: 'f'

Why
    The function moved to `jax.shard_map` in JAX 0.6.1. `check_rep` became `check_vma` (the same flag), and `auto`, the
    mesh axes that the compiler looks after, became `axis_names`, the axes that the function sees: the *complement* of `auto`.
    The import and the calls are moved together, since neither works without the other.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental.shard_map import shard_map
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    total = shard_map(
        lambda x: jax.lax.psum(x, "data"), mesh, in_specs=P("data"), out_specs=P(), check_rep=False
    )
    assert total(jnp.ones(4)).tolist() == [4.0]

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import shard_map
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    total = shard_map(
        lambda x: jax.lax.psum(x, "data"), mesh=mesh, in_specs=P("data"), out_specs=P(), check_vma=False
    )
    assert total(jnp.ones(4)).tolist() == [4.0]

When it does not fix
    - Compatibility code (`try`/`except ImportError`, version tests, `hasattr`) stays as it is.
    - Where `*args` or `**kwargs` pass arguments that are not in view, or the function is handed on as a value, the import stays;
  the calls that can be converted are converted to `jax.shard_map`.
    - Where other modules of the project import the function from this one, or `__all__` lists it, the import stays: their calls
  use the old signature.
    - `auto=` without a mesh in view, or over every axis of the mesh, has no counterpart that is known.
    - Where the mesh comes from `jax.make_mesh` without `axis_types` and the arguments are not placed on it, JAX rejects the call
  under either name; the fix then waits for `--unsafe`. See `make-mesh-defaults`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import (
    DropImport,
    Edit,
    KeywordToPositional,
    MoveImport,
    PositionalToKeyword,
    RemoveArgument,
    RemoveStatement,
    RenameArgument,
    Replace,
    named,
)
from shardfix.semantics.calls import PARTIALS
from shardfix.semantics.flow import Flow, flows, importers, names_in_all
from shardfix.semantics.meshes import is_dotted, mesh_view
from shardfix.semantics.placement import unplaced_argument

if TYPE_CHECKING:
    from shardfix.semantics.calls import Argument, Call
    from shardfix.semantics.module import ImportedName, Module

__all__ = ["ExperimentalShardMap"]

OLD = "jax.experimental.shard_map.shard_map"
NEW = "jax.shard_map"
NEEDS = "0.6.1"
PARAMETERS = ("f", "mesh", "in_specs", "out_specs", "check_rep", "auto")
RENAMED = {"check_rep": "check_vma", "auto": "axis_names"}
IN_HOME = {
    "P": "jax.sharding.PartitionSpec",
    "PartitionSpec": "jax.sharding.PartitionSpec",
    "Mesh": "jax.sharding.Mesh",
    "NamedSharding": "jax.sharding.NamedSharding",
    "AbstractMesh": "jax.sharding.AbstractMesh",
}
"""What the old module happened to hold beside the function, until JAX 0.6.1 emptied it, with its own home."""
DEPRECATED = "jax.experimental.shard_map is deprecated since JAX 0.8; the function is jax.shard_map now"


@dataclass(frozen=True)
class Unconvertible(Exception):
    """Why a call cannot be written for ``jax.shard_map``."""

    reason: str


class ExperimentalShardMap(Codemod):
    """The old home of shard_map, its positional arguments, ``check_rep``, ``auto`` and ``f=``."""

    triggers = (rb"\bshard_map\b",)
    evidence: ClassVar[frozenset[str]] = frozenset(
        {
            "deprecated-name",
            "missing-argument",
            "missing-module",
            "positional-arguments",
            "positional-only-keyword",
            "removed-name",
            "unexpected-keyword",
        }
    )
    deprecated = "0.8.0"
    replacement_since = NEEDS

    def findings(self, module: Module) -> Iterator[Finding]:
        for flow in flows(module, OLD):
            if not flow.gated:
                yield from self._moved(module, flow)
        yield from self._other_names(module)
        for call in module.calls_to(NEW):
            if _is_certain(module, call) and not module.is_compatibility_code(call.node):
                yield from self._half_moved(module, call)

    def _moved(self, module: Module, flow: Flow) -> Iterator[Finding]:
        """The findings for one import (or one dotted use) and all the calls that go through it."""
        changes: dict[ast.Call, list[Edit]] = {}
        left: dict[ast.AST, str] = {escape.node: f"it {escape.why}" for escape in flow.escapes}
        for call in flow.calls:
            try:
                changes[call.node] = convert(module, call, flow)
            except Unconvertible as error:
                left[call.node] = error.reason
        stays = _why_import_stays(module, flow)
        if left or stays:
            yield from self._apart(module, flow, changes, left, stays)
            return
        if not flow.spelled:
            yield self._unused(flow)
            return
        edits = [edit for some in changes.values() for edit in some]
        if flow.imported is not None and flow.imported.dotted == OLD:
            edits.insert(0, MoveImport(Range.of(flow.imported.statement), flow.imported.alias.name, NEW))
        else:
            edits = [Replace(Range.of(use), named(NEW)) for use in flow.spelled] + edits
            if flow.imported is not None:
                edits.append(_without_import(module, flow, flow.imported))
            if flow.loads is not None:
                edits.append(DropImport(Range.of(flow.loads.statement), flow.loads.bound))
        explicit = next((reason for call in flow.calls if (reason := _explicit_mesh(module, call))), "")
        safety = Safety.UNSAFE if explicit else Safety.SAFE
        fix = Fix(tuple(dict.fromkeys(edits)), safety, _title(flow), NEEDS)
        yield self.finding(
            flow.imported.statement if flow.imported else flow.spelled[0],
            DEPRECATED,
            fix=fix,
            reason=explicit or _note_on_defaults(module, flow),
        )

    def _apart(
        self,
        module: Module,
        flow: Flow,
        changes: dict[ast.Call, list[Edit]],
        left: dict[ast.AST, str],
        stays: str,
    ) -> Iterator[Finding]:
        """Where the import has to stay: each call that can be converted moves on its own."""
        left_partials = {escape.partial.node for escape in flow.escapes if escape.partial is not None}
        for call in flow.calls:
            if call.earlier is not None or call.node not in changes:
                continue
            unit = [
                call,
                *(other for other in flow.calls if other.earlier is not None and other.earlier.node is call.node),
            ]
            if call.node in left_partials or any(member.node in left for member in unit):
                continue
            edits: list[Edit] = [Replace(Range.of(call.function), named(NEW))]
            edits += [edit for member in unit for edit in changes[member.node]]
            explicit = next((reason for member in unit if (reason := _explicit_mesh(module, member))), "")
            safety = Safety.UNSAFE if explicit else Safety.SAFE
            fix = Fix(tuple(dict.fromkeys(edits)), safety, "call jax.shard_map", NEEDS)
            yield self.finding(call.node, DEPRECATED, fix=fix, reason=explicit)
        for node, reason in left.items():
            yield self.finding(node, DEPRECATED, reason=f"{reason}; the import stays")
        if stays and flow.imported is not None:
            yield self.finding(flow.imported.statement, DEPRECATED, reason=stays)

    def _unused(self, flow: Flow) -> Finding:
        assert flow.imported is not None
        at = Range.of(flow.imported.statement)
        edit = (
            MoveImport(at, flow.imported.alias.name, NEW)
            if flow.imported.dotted == OLD
            else DropImport(at, flow.imported.bound)
        )
        return self.finding(
            at,
            DEPRECATED,
            fix=Fix((edit,), Safety.UNSAFE, "import jax.shard_map", NEEDS),
            reason="nothing in this file uses the import; what takes it from here calls it with the old signature",
        )

    def _other_names(self, module: Module) -> Iterator[Finding]:
        for name in module.imports:
            home, _, last = name.dotted.rpartition(".")
            if home == OLD.rpartition(".")[0] and last in IN_HOME and not module.is_compatibility_code(name.statement):
                yield self.finding(
                    name.alias,
                    f"jax.experimental.shard_map has no {last} since JAX 0.6.1; it is {IN_HOME[last]}",
                    fix=Fix(
                        (MoveImport(Range.of(name.statement), last, IN_HOME[last]),), title=f"import {IN_HOME[last]}"
                    ),
                )

    def _half_moved(self, module: Module, call: Call) -> Iterator[Finding]:
        """Old arguments in a call of the new function."""
        try:
            edits = convert(module, call, None)
        except Unconvertible as error:
            if _old_keywords(call) or len(_positional(call)) > 1:
                yield self.finding(call.node, "jax.shard_map does not take these arguments", reason=error.reason)
            return
        if edits:
            yield self.finding(
                call.node,
                f"jax.shard_map does not take {_old_arguments(call)}",
                fix=Fix(tuple(edits), Safety.SAFE, "write the arguments for jax.shard_map", NEEDS),
            )


def _is_certain(module: Module, call: Call) -> bool:
    """Whether the node calls nothing else on another path (a partial is two calls: of ``partial``, and of what it is partial of)."""
    return {other.dotted for other in module.calls_at(call.node)} - PARTIALS == {call.dotted}


def convert(module: Module, call: Call, flow: Flow | None) -> list[Edit]:
    """The edits that write the arguments of a call of the old function for the new one.

    Raises:
        Unconvertible: the arguments are not all in view, or have no counterpart.
    """
    if flow is not None and call.has_hidden_arguments:
        raise Unconvertible("arguments are passed through * or ** that are not in view")
    at = Range.of(call.node)
    edits: list[Edit] = []
    names: list[tuple[int, str]] = []
    for index, position, value in _positional(call):
        if isinstance(value, ast.Starred):
            raise Unconvertible("arguments are passed through * that are not in view")
        if index >= len(PARAMETERS):
            raise Unconvertible("the call has more arguments than the function takes")
        if index == 0:
            continue
        name = PARAMETERS[index]
        if name == "auto":
            axes = _axis_names(module, call, value)
            if axes is None:
                edits.append(RemoveArgument(at, position))
                continue
            edits.append(Replace(Range.of(value), axes))
        names.append((position, RENAMED.get(name, name)))
    if names:
        edits.append(PositionalToKeyword(at, tuple(names)))
    own = [
        argument
        for argument in call.arguments()
        if argument.name is not None and argument.owner is not _earlier_node(call)
    ]
    for argument in own:
        if argument.name == "f":
            edits += _function_first(call, argument)
        elif argument.name in RENAMED:
            edits += _rename(module, call, argument, flow)
    return edits


def _positional(call: Call) -> list[tuple[int, int, ast.expr]]:
    """The positional arguments written in the call's own node: index for the callee, index in the node, value."""
    before = 0
    earlier = call.earlier
    while earlier is not None:
        before += len(earlier.own_arguments)
        earlier = earlier.earlier
    shift = 1 if call.is_partial else 0
    return [(before + index, index + shift, value) for index, value in enumerate(call.own_arguments)]


def _earlier_node(call: Call) -> ast.Call | None:
    return None if call.earlier is None else call.earlier.node


def _function_first(call: Call, argument: Argument) -> list[Edit]:
    if argument.owner is not call.node or call.is_partial or _positional(call):
        raise Unconvertible("f= is positional-only in jax.shard_map, and cannot be moved here")
    return [KeywordToPositional(Range.of(call.node), "f")]


def _rename(module: Module, call: Call, argument: Argument, flow: Flow | None) -> list[Edit]:
    """The edits for ``check_rep`` or ``auto`` given as a keyword, be it in the call or in a dict that ``**`` spreads."""
    name = argument.name or ""
    if call.argument(RENAMED[name]) is not None:
        raise Unconvertible(f"the call has both {name} and {RENAMED[name]}")
    edits: list[Edit] = []
    if argument.owner is not call.node and not argument.direct:
        if not _spread_is_ours(module, argument, flow):
            raise Unconvertible(f"{name} comes from a dict that is also used elsewhere")
    if name == "auto":
        axes = _axis_names(module, call, argument.value)
        if axes is None:
            if isinstance(argument.owner, ast.Dict):
                raise Unconvertible("auto comes from a dict")
            return [RemoveArgument(Range.of(argument.owner), name)]
        edits.append(Replace(Range.of(argument.value), axes))
    if isinstance(argument.owner, ast.Dict):
        key = next(
            key
            for key, value in zip(argument.owner.keys, argument.owner.values, strict=True)
            if value is argument.value and key is not None
        )
        edits.append(Replace(Range.of(key), module.text(key).replace(name, RENAMED[name])))
    else:
        edits.append(RenameArgument(Range.of(argument.owner), name, RENAMED[name]))
    return edits


def _spread_is_ours(module: Module, argument: Argument, flow: Flow | None) -> bool:
    """Whether the dict that holds an argument is only ever spread into calls that are converted with this one."""
    if flow is None:
        return False
    calls = {call.node for call in flow.calls}
    parent = module.parent(argument.owner)
    if isinstance(parent, ast.keyword):
        return module.parent(parent) in calls
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1 or not isinstance(parent.targets[0], ast.Name):
        return False
    name = parent.targets[0].id
    home = module.scope_of(parent.targets[0])
    for node in module.nodes(ast.Name):
        if node.id != name or not isinstance(node.ctx, ast.Load):
            continue
        known = module.scope_of(node).lookup(name)
        if known is None or known[0] is not home:
            continue
        spread = module.parent(node)
        if not isinstance(spread, ast.keyword) or spread.arg is not None or module.parent(spread) not in calls:
            return False
    return True


def _axis_names(module: Module, call: Call, auto: ast.expr) -> str | None:
    """The code of ``axis_names`` for a value of ``auto``; None where there is nothing to say because ``auto`` is empty."""
    names = _literal_set(module, auto)
    if names is not None and not names:
        return None
    mesh = call.value("mesh", 1)
    if mesh is None:
        raise Unconvertible("auto= needs the mesh, which is not in view, to be written as axis_names=")
    known = mesh_view(module).mesh_of(mesh)
    if is_dotted(mesh) and _is_local(module, auto):
        return f"frozenset({module.text(mesh)}.axis_names) - {module.text(auto)}"  # the variable stays in use
    if names is not None and known is not None and known.axes is not None and names <= set(known.axes):
        manual = [axis for axis in known.axes if axis not in names]
        if not manual:
            raise Unconvertible("auto= over every axis of the mesh has no counterpart in jax.shard_map")
        return "{" + ", ".join(f'"{axis}"' for axis in manual) + "}"
    rest = _all_axes_but(module, auto, mesh)
    if rest is not None:
        return module.text(rest)
    if not is_dotted(mesh):
        raise Unconvertible("auto= needs a name for the mesh to be written as axis_names=")
    text = module.text(auto)
    if not isinstance(auto, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Set):
        text = f"({text})"
    return f"frozenset({module.text(mesh)}.axis_names) - {text}"


def _all_axes_but(module: Module, auto: ast.expr, mesh: ast.expr) -> ast.expr | None:
    """``{"x"}`` of ``frozenset(mesh.axis_names) - {"x"}``: what such a value of ``auto`` leaves, where it is written out as a set."""
    sets = {"builtins.frozenset", "builtins.set"}
    match auto:
        case ast.Call(func=function, args=[inner], keywords=[]) if module.resolve(function) & sets:
            return _all_axes_but(module, inner, mesh)
        case ast.BinOp(
            left=ast.Call(func=function, args=[ast.Attribute(value=owner, attr="axis_names" | "shape")], keywords=[]),
            op=ast.Sub(),
            right=ast.Set(elts=elements) as rest,
        ) if module.resolve(function) & sets and not any(isinstance(element, ast.Starred) for element in elements):
            return rest if is_dotted(mesh) and ast.dump(owner) == ast.dump(mesh) else None
    return None


def _is_local(module: Module, node: ast.expr) -> bool:
    known = module.scope_of(node).lookup(node.id) if isinstance(node, ast.Name) else None
    return known is not None and known[0] is not module.module_scope


def _literal_set(module: Module, node: ast.expr) -> set[str] | None:
    """The strings of a set that is written out; None where it is not."""
    match node:
        case ast.Call(args=[], keywords=[]) if module.resolve(node.func) & {"builtins.frozenset", "builtins.set"}:
            return set()
        case ast.Call(args=[inner], keywords=[]) if module.resolve(node.func) & {"builtins.frozenset", "builtins.set"}:
            return _literal_set(module, inner)
        case ast.Set(elts=elements) | ast.Tuple(elts=elements) | ast.List(elts=elements):
            texts = {item.value for item in elements if isinstance(item, ast.Constant) and isinstance(item.value, str)}
            return texts if len(texts) == len(elements) else None
        case ast.Dict(keys=[]):
            return set()
        case ast.Name():
            bindings = module.reaching(node) or []
            if len(bindings) == 1 and bindings[0].kind == "assignment" and bindings[0].value and not bindings[0].path:
                return _literal_set(module, bindings[0].value)
    return None


def _why_import_stays(module: Module, flow: Flow) -> str:
    """Why other code needs the function under the imported name, as it was; empty where none does."""
    if flow.imported is None or not flow.names:
        return ""
    listed = flow.names & names_in_all(module)
    if listed:
        return f"__all__ exports {', '.join(sorted(listed))}, whose users call it with the old signature"
    explicit = flow.imported.alias.asname == flow.imported.alias.name
    if not flow.spelled and (explicit or module.path.endswith("__init__.py")):
        return "it is exported from here, and its users call it with the old signature"
    users = importers(module, flow.names)
    if users:
        return f"{users[0]} takes it from here, and calls it with the old signature"
    return ""


def _without_import(module: Module, flow: Flow, imported: ImportedName) -> Edit:
    """The edit that takes away the import of the function's module."""
    at = Range.of(imported.statement)
    bindings = module.scope_of(imported.statement).bindings.get(imported.bound, ())
    if len(bindings) > 1 and len(imported.statement.names) == 1 and not flow.other_uses:
        return RemoveStatement(
            at
        )  # what still refers to the name means another binding: ``shard_map = shard_map.shard_map``
    return DropImport(at, imported.bound)


def _explicit_mesh(module: Module, call: Call) -> str:
    """What stands against moving a call that JAX rejects anyway, since its default mesh became Explicit; else empty."""
    mesh = call.value("mesh", 1)
    if call.is_partial or mesh is None:
        return ""
    known = mesh_view(module).mesh_of(mesh)
    if known is None or not known.default_types or unplaced_argument(module, call) is None:
        return ""
    return (
        "the mesh has JAX 0.9's default axis types, Explicit, and the arguments are not placed on it: jax.shard_map rejects "
        "that, as the old function does (see make-mesh-defaults)"
    )


def _note_on_defaults(module: Module, flow: Flow) -> str:
    """What to know where the mesh of a call has the default axis types, and its arguments are not seen."""
    for call in flow.calls:
        mesh = call.value("mesh", 1)
        known = mesh_view(module).mesh_of(mesh) if mesh is not None else None
        if known is not None and known.default_types:
            return (
                f"the mesh of the call on line {call.node.lineno} has JAX 0.9's default axis types, Explicit: in_specs is an "
                "assertion there"
            )
    return ""


def _old_keywords(call: Call) -> list[str]:
    return [name for name in ("f", *RENAMED) if call.argument(name) is not None]


def _old_arguments(call: Call) -> str:
    old = [f"{name}=" for name in _old_keywords(call)]
    if any(index > 0 for index, _, _ in _positional(call)):
        old.append("its mesh and specs by position")
    return " and ".join(old)


def _title(flow: Flow) -> str:
    count = len({call.node for call in flow.calls})
    return "use jax.shard_map" + (f", and write its {count} calls for it" if count > 1 else "")
