"""pjit, which is jit since JAX 0.4.7 but for one thing: it resolves specs through `with mesh:`.

What JAX says
    DeprecationWarning: jax.experimental.pjit.pjit has been deprecated. Please use `jax.jit` instead.
    TypeError: pjit() got an unexpected keyword argument 'in_axis_resources'

    Renamed alone, it says instead:

    RuntimeError: jit requires a non-empty mesh in context if you are passing `PartitionSpec`s to in_shardings.
    TypeError: jit() takes from 0 to 1 positional arguments but 3 were given

Why
    `jax.jit` takes shardings as keywords, and never looks at `with mesh:`. Where pjit was given specs, either the specs name their
    mesh (`NamedSharding(mesh, spec)`), or the block becomes `with jax.set_mesh(mesh):`, together with the call. `None` under
    `with mesh:` means replicated over the mesh, which jit writes `PartitionSpec()`.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental.pjit import pjit
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    ones = jnp.ones(8)
    step = pjit(lambda a: a + 1, P("x"), out_shardings=P("x"))
    with mesh:
        result = step(ones)
    assert result.addressable_shards[0].data.shape == (1,)

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    ones = jnp.ones(8)
    step = jax.jit(lambda a: a + 1, in_shardings=P("x"), out_shardings=P("x"))
    with jax.set_mesh(mesh):
        result = step(ones)
    assert result.addressable_shards[0].data.shape == (1,)

When it does not fix
    - Where the specs are computed out of view, or the block that resolves them is, the fix is unsafe or there is none.
    - Where the block runs code out of view, or one of the traps of `mesh-contexts` may apply, the fix that changes it is unsafe.
    - Positional arguments after `static_argnums`: their order changed between versions of JAX.
    - Arguments passed through `*args` or `**kwargs` that are not in view.
    - Compatibility code stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import (
    DropImport,
    Edit,
    KeywordToPositional,
    MoveImport,
    PositionalToKeyword,
    RenameArgument,
    Replace,
    Wrap,
    named,
)
from shardfix.edits.mesh_entry import enter_with_set_mesh
from shardfix.semantics.contexts import State
from shardfix.semantics.definitions import class_attributes
from shardfix.semantics.flow import Flow, flows, importers, names_in_all
from shardfix.semantics.mesh_blocks import MeshBlock, class_of_self, enters_mesh_elsewhere, mesh_blocks
from shardfix.semantics.mesh_traps import Trap, obstacles
from shardfix.semantics.meshes import is_dotted, mesh_view
from shardfix.semantics.placement import all_calls_of_result, calls_of_function
from shardfix.semantics.values import Sequence, Sharding, Spec, Value
from shardfix.target import has

if TYPE_CHECKING:
    from shardfix.semantics.calls import Call
    from shardfix.semantics.module import Module

__all__ = ["Pjit"]

OLD = "jax.experimental.pjit.pjit"
NEW = "jax.jit"
SET_MESH_SINCE = "0.7.1"
PARAMETERS = ("fun", "in_shardings", "out_shardings", "static_argnums")
RENAMED = {"in_axis_resources": "in_shardings", "out_axis_resources": "out_shardings"}
SHARDINGS = ("in_shardings", "out_shardings", *RENAMED)
DEPRECATED = "pjit is deprecated since JAX 0.8; it is jax.jit"
NEVER = frozenset(
    {
        Trap.TRACED,
        Trap.IN_MODULE,
        Trap.BINDS_NAME,
        Trap.READS_CONTEXT,
        Trap.READ_ELSEWHERE,
        Trap.CLASH,
        Trap.DEFAULT_TYPES,
    }
)
"""What rules out changing a block for certain."""
BY_HAND = "pass NamedSharding(mesh, spec) to jax.jit, or enter the mesh with jax.set_mesh"


@dataclass(frozen=True)
class Unconvertible(Exception):
    """Why a call cannot be written for ``jax.jit``."""

    reason: str


@dataclass(eq=False)
class _Site:
    """One call of pjit (a partial with its completions, a bare decorator), seen as a call of jit."""

    node: ast.AST
    function: ast.expr
    """The expression that names pjit."""
    edits: list[Edit] = field(default_factory=list)
    specs: list[ast.expr] = field(default_factory=list)
    """Entries of the shardings that are specs."""
    nones: list[ast.expr] = field(default_factory=list)
    """Entries that are None."""
    hidden: list[ast.expr] = field(default_factory=list)
    """Entries that are not in view."""
    placed: bool = False
    """Whether some entry is a sharding that names its mesh."""
    calls: list[ast.Call] | None = None
    """The calls of what pjit gives; None where some are out of view."""

    @property
    def says_nothing(self) -> bool:
        return not (self.specs or self.nones or self.hidden or self.placed)


class Pjit(Codemod):
    """``jax.experimental.pjit.pjit``, its older keywords, and the blocks that resolve its specs."""

    triggers = (rb"\bpjit\b",)
    evidence: ClassVar[frozenset[str]] = frozenset(
        {
            "deprecated-name",
            "missing-mesh",
            "positional-arguments",
            "positional-only-keyword",
            "removed-name",
            "unexpected-keyword",
        }
    )
    deprecated = "0.8.0"
    replacement_since = "0.4.4"

    def findings(self, module: Module) -> Iterator[Finding]:
        blocks = [block for block in mesh_blocks(module) if not module.is_compatibility_code(block.statement)]
        for flow in flows(module, OLD):
            if not flow.gated:
                yield from self._moved(module, flow, blocks)

    def _moved(self, module: Module, flow: Flow, blocks: list[MeshBlock]) -> Iterator[Finding]:
        sites, left = _sites(module, flow)
        for escape in flow.escapes:
            left.append((escape.node, f"it {escape.why}"))
        stays = _why_import_stays(module, flow)
        place = flow.imported.statement if flow.imported else flow.spelled[0]
        if not flow.spelled and not stays:
            fix = Fix(_import_edits(flow), Safety.UNSAFE, "drop the import")
            yield self.finding(place, DEPRECATED, fix=fix, reason="nothing in this file uses the import")
            return
        whole = self._plan(module, sites, blocks)
        if isinstance(whole, Fix) and whole.safety is Safety.SAFE and not left and not stays:
            fix = Fix(_together(flow, whole.edits), whole.safety, whole.title, whole.needs_jax)
            yield self.finding(place, DEPRECATED, fix=fix)
            return
        alone = [(site, self._plan(module, [site], blocks, alone=True)) for site in sites]
        certain = [(site, one) for site, one in alone if isinstance(one, Fix) and one.safety is Safety.SAFE]
        rest = [site for site, _ in alone if site not in (other for other, _ in certain)]
        for site, one in certain:
            yield self.finding(site.node, DEPRECATED, fix=_respelled(flow, [site], one, stays=bool(stays)))
        together = self._plan(module, rest, blocks) if rest and not left else ""
        if isinstance(together, Fix):
            reason = _doubts(module, rest, blocks)
            if certain or stays:
                at = rest[0].node if stays else place  # as it will be once the certain ones are fixed
                yield self.finding(
                    at, DEPRECATED, fix=_respelled(flow, rest, together, stays=bool(stays)), reason=reason
                )
            else:
                edits = _together(flow, together.edits)
                fix = Fix(edits, together.safety, together.title, together.needs_jax)
                yield self.finding(place, DEPRECATED, fix=fix, reason=reason)
        else:
            for site, own in alone:
                if site in rest and isinstance(own, Fix):
                    yield self.finding(
                        site.node,
                        DEPRECATED,
                        fix=_respelled(flow, [site], own, stays=bool(stays)),
                        reason=_doubts(module, [site], []),
                    )
                elif site in rest:
                    yield self.finding(site.node, DEPRECATED, reason=str(own))
        for node, reason in left:
            yield self.finding(node, DEPRECATED, reason=f"{reason}; the import stays")
        if stays:
            yield self.finding(place, DEPRECATED, reason=stays)

    def _plan(self, module: Module, sites: list[_Site], blocks: list[MeshBlock], *, alone: bool = False) -> Fix | str:
        """The fix that turns these calls into calls of jit, without their imports; or why there is none.

        ``alone`` rules out changing the blocks, which other calls need as they are.
        """
        edits = [edit for site in sites for edit in site.edits]
        needy = [site for site in sites if not _is_plain(module, site, blocks)]
        if not needy:
            return Fix(tuple(edits), Safety.SAFE, "call jax.jit")
        may_set = not alone and bool(blocks)
        target = self.settings.target_jax
        prefers_names = target is not None and not has(target, SET_MESH_SINCE)
        if may_set and not prefers_names and _blocks_are_safe(module, sites, blocks):
            return self._set_mesh(module, sites, blocks, edits, Safety.SAFE)
        named_shardings = _name_the_mesh(module, needy, blocks)
        if named_shardings is not None:
            return Fix((*edits, *named_shardings), Safety.SAFE, "call jax.jit with shardings that name their mesh")
        moved = frozenset(site.node for site in sites if isinstance(site.node, ast.Call))
        if may_set and not any(o.trap in NEVER for block in blocks for o in obstacles(module, block, moved=moved)):
            return self._set_mesh(module, sites, blocks, edits, Safety.UNSAFE)
        if all(site.says_nothing for site in needy):
            return Fix(tuple(edits), Safety.UNSAFE, "call jax.jit")
        where = (
            "the block that resolves its specs is not in view"
            if not blocks
            else "its specs are resolved by `with mesh:`"
        )
        return f"{where}: {BY_HAND}"

    def _set_mesh(
        self, module: Module, sites: list[_Site], blocks: list[MeshBlock], edits: list[Edit], safety: Safety
    ) -> Fix:
        replicated = f"{named('jax.sharding.PartitionSpec')}()"
        changes = [*edits, *(Replace(Range.of(node), replicated) for site in sites for node in site.nones)]
        changes += [edit for block in blocks for edit in enter_with_set_mesh(module, block)]
        return Fix(tuple(changes), safety, "call jax.jit, and enter the mesh with jax.set_mesh", SET_MESH_SINCE)


def _sites(module: Module, flow: Flow) -> tuple[list[_Site], list[tuple[ast.AST, str]]]:
    """The uses of pjit that can be written for jit, and the calls that cannot, with the reason."""
    found: list[_Site] = []
    left: list[tuple[ast.AST, str]] = []
    gone = {escape.partial.node for escape in flow.escapes if escape.partial is not None}
    for call in flow.calls:
        if call.earlier is not None or call.node in gone:
            continue
        unit = [call, *(other for other in flow.calls if other.earlier is not None and other.earlier.node is call.node)]
        site = _Site(call.node, call.function, calls=all_calls_of_result(module, call.node))
        try:
            for member in unit:
                _convert(module, member, site)
        except Unconvertible as error:
            left.append((call.node, error.reason))
        else:
            found.append(site)
    for function in flow.decorated:
        decorator = next(
            node for node in function.decorator_list if node in flow.spelled or module.resolve(node) == {OLD}
        )
        calls = list(calls_of_function(module, function))
        in_view = None if None in calls else [call for call in calls if call is not None]
        found.append(_Site(decorator, decorator, calls=in_view))
    return found, left


def _convert(module: Module, call: Call, site: _Site) -> None:
    """Add to ``site`` the edits that write a call's arguments for jit, and what its shardings are.

    Raises:
        Unconvertible: the arguments are not all in view, or have no counterpart.
    """
    if call.has_hidden_arguments:
        raise Unconvertible("arguments are passed through * or ** that are not in view")
    at = Range.of(call.node)
    before = 0 if call.earlier is None else len(call.earlier.own_arguments)
    shift = 1 if call.is_partial else 0
    names: list[tuple[int, str]] = []
    for index, value in enumerate(call.own_arguments):
        if before + index >= len(PARAMETERS):
            raise Unconvertible(
                "the order of the positional arguments after static_argnums changed between versions of JAX"
            )
        if before + index > 0:
            name = PARAMETERS[before + index]
            names.append((index + shift, name))
            if name in SHARDINGS:
                _classify(module, value, site)
    if names:
        site.edits.append(PositionalToKeyword(at, tuple(names)))
    for keyword in call.node.keywords:
        if keyword.arg is None:
            raise Unconvertible("arguments are passed through **")
        if keyword.arg == "fun":
            if call.is_partial or call.own_arguments:
                raise Unconvertible("fun= is positional-only in jax.jit, and cannot be moved here")
            site.edits.append(KeywordToPositional(at, "fun"))
        if keyword.arg in RENAMED:
            site.edits.append(RenameArgument(at, keyword.arg, RENAMED[keyword.arg]))
        if keyword.arg in SHARDINGS:
            _classify(module, keyword.value, site)


def _classify(module: Module, node: ast.expr, site: _Site) -> None:
    """Sort the entries of a tree of shardings by what they are."""
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for element in elements:
                _classify(module, element, site)
            return
        case ast.Dict(values=entries):
            for entry in entries:
                _classify(module, entry, site)
            return
        case ast.IfExp(body=body, orelse=orelse):
            _classify(module, body, site)
            _classify(module, orelse, site)
            return
        case ast.Constant(value=None):
            site.nones.append(node)
            return
    value = module.value_of(node)
    if isinstance(value, Spec):
        site.specs.append(node)
    elif _names_mesh(value) or (
        isinstance(node, ast.Call) and any(name.endswith("Sharding") for name in module.resolve(node.func))
    ):
        site.placed = True
    else:
        site.hidden.append(node)


def _names_mesh(value: Value) -> bool:
    """Whether a value is a sharding, or a tree of nothing else."""
    if isinstance(value, Sequence) and value.items:
        return all(_names_mesh(item) for item in value.items)
    return isinstance(value, Sharding)


def _is_plain(module: Module, site: _Site, blocks: list[MeshBlock]) -> bool:
    """Whether jit does what pjit did, whatever mesh is entered where it is called."""
    if site.specs or site.hidden:
        return False
    if site.placed and not site.nones:
        return True
    if not blocks and not enters_mesh_elsewhere(module) and not _may_enter_by_hand(module):
        return True
    if site.calls is None:
        return False
    return all(mesh_view(module).context(call).states == {State.NONE} for call in site.calls)


def _may_enter_by_hand(module: Module) -> bool:
    """Whether a mesh may be entered without a ``with``: by ``enter_context``, ``__enter__``, or into ``thread_resources.env``."""
    return bool(module.project.mentioning("thread_resources")) or any(
        word in module.source for word in ("thread_resources", "enter_context(", ".__enter__(")
    )


def _blocks_are_safe(module: Module, sites: list[_Site], blocks: list[MeshBlock]) -> bool:
    """Whether every block can be changed, and every call of what pjit gives runs in one."""
    moved = frozenset(site.node for site in sites if isinstance(site.node, ast.Call))
    if len(moved) != len(sites) or any(site.hidden for site in sites):
        return False
    for site in sites:
        if not site.calls:
            return False
        if any(mesh_view(module).context(call).states != {State.LEGACY} for call in site.calls):
            return False
    return not any(obstacles(module, block, moved=moved) for block in blocks)


def _name_the_mesh(module: Module, sites: list[_Site], blocks: list[MeshBlock]) -> list[Edit] | None:
    """The edits that give each spec its mesh; None where the mesh is not certain, or has no name at the call."""
    edits: list[Edit] = []
    for site in sites:
        if site.hidden or site.says_nothing or not site.calls:
            return None
        meshes = {_mesh_around(module, call, blocks) for call in site.calls}
        mesh = next(iter(meshes)) if len(meshes) == 1 else None
        if mesh is None or not _can_be_named(module, mesh, site.node):
            return None
        text = module.text(mesh)
        sharding = named("jax.sharding.NamedSharding")
        edits += [Wrap(Range.of(spec), f"{sharding}({text}, ", ")") for spec in site.specs]
        replicated = f"{sharding}({text}, {named('jax.sharding.PartitionSpec')}())"
        edits += [Replace(Range.of(node), replicated) for node in site.nones]
    return edits


def _mesh_around(module: Module, call: ast.Call, blocks: list[MeshBlock]) -> ast.expr | None:
    """The mesh of the innermost block around a call; the one mesh of all blocks where it is called from within one."""
    around = set(module.ancestors(call))
    inner = [block for block in blocks if block.statement in around]
    block = inner[-1] if inner else None
    if block is None and len(blocks) == 1 and mesh_view(module).context(call).states == {State.LEGACY}:
        block = blocks[0]
    return None if block is None else block.item.optional_vars or block.item.context_expr


def _can_be_named(module: Module, mesh: ast.expr, place: ast.AST) -> bool:
    """Whether the expression ``mesh`` means the same mesh at ``place``, and is bound there."""
    if not is_dotted(mesh):
        return False
    root = mesh
    while isinstance(root, ast.Attribute):
        root = root.value
    assert isinstance(root, ast.Name)
    if isinstance(mesh, ast.Attribute) and mesh.value is root and class_of_self(module, root) is not None:
        return _is_bound_in_self(module, mesh, place)
    here, there = module.scope_of(place), module.scope_of(root)
    known, meant = here.lookup(root.id), there.lookup(root.id)
    if known is None or meant is None or known[0] is not meant[0] or len(known[1]) != 1:
        return False
    binding = known[1][0]
    if known[0] is here or not isinstance(known[0].node, ast.Module):
        return binding.kind == "parameter" or binding.position < (place.lineno, place.col_offset)  # type: ignore[attr-defined]
    return True


def _is_bound_in_self(module: Module, mesh: ast.Attribute, place: ast.AST) -> bool:
    """Whether ``self.mesh`` has its one value at ``place``, in a method of the same class with the same ``self``."""
    cls = class_of_self(module, mesh.value)
    method = next((node for node in module.ancestors(place) if cls is not None and module.parent(node) is cls), None)
    if cls is None or not isinstance(method, ast.FunctionDef):
        return False
    arguments = [*method.args.posonlyargs, *method.args.args]
    if not arguments or arguments[0].arg != getattr(mesh.value, "id", None):
        return False
    assigned = class_attributes(cls).get(mesh.attr, [])
    if len(assigned) != 1:
        return False
    statement = assigned[0][2]
    in_method = method in module.ancestors(statement)
    if not in_method:
        maker = next((node for node in module.ancestors(statement) if module.parent(node) is cls), None)
        return maker is None or getattr(maker, "name", "") == "__init__"
    return module.parent(statement) is method and (statement.lineno, 0) < (place.lineno, 0)  # type: ignore[attr-defined]


def _import_edits(flow: Flow) -> tuple[Edit, ...]:
    assert flow.imported is not None
    at = Range.of(flow.imported.statement)
    if flow.imported.dotted == OLD and flow.imported.alias.asname not in (None, "pjit"):
        return (MoveImport(at, flow.imported.alias.name, NEW),)
    return (DropImport(at, flow.imported.bound),)


def _respelled(flow: Flow, sites: list[_Site], fix: Fix, *, stays: bool) -> Fix:
    """``fix`` with the edits that call ``jax.jit`` by its own name; the last such fix of a file takes the import away."""
    edits = [*(Replace(Range.of(site.function), named(NEW)) for site in sites), *fix.edits]
    loads = flow.imported or flow.loads
    if loads is not None and not stays:
        edits.append(DropImport(Range.of(loads.statement), loads.bound))
    return Fix(tuple(edits), fix.safety, fix.title, fix.needs_jax)


def _together(flow: Flow, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """The edits of the calls with those of the import and of the names that go through it."""
    if flow.imported is None:
        loads = [DropImport(Range.of(flow.loads.statement), flow.loads.bound)] if flow.loads is not None else []
        return (*(Replace(Range.of(use), named(NEW)) for use in flow.spelled), *edits, *loads)
    imports = _import_edits(flow)
    if isinstance(imports[0], MoveImport):
        return (*imports, *edits)
    return tuple(dict.fromkeys((*(Replace(Range.of(use), named(NEW)) for use in flow.spelled), *edits, *imports)))


def _why_import_stays(module: Module, flow: Flow) -> str:
    if flow.imported is None or not flow.names:
        return ""
    listed = flow.names & names_in_all(module)
    if listed:
        return f"__all__ exports {', '.join(sorted(listed))}"
    if not flow.spelled and module.path.endswith("__init__.py"):
        return "it is exported from here"
    users = importers(module, flow.names)
    return f"{users[0]} takes it from here" if users else ""


def _doubts(module: Module, sites: list[_Site], blocks: list[MeshBlock]) -> str:
    """What makes a fix unsafe."""
    found: list[str] = []
    if any(site.hidden for site in sites):
        found.append("the specs are not all in view, and None among them would no longer mean replicated")
    if blocks:
        moved = frozenset(site.node for site in sites if isinstance(site.node, ast.Call))
        traps = {obstacle.trap for block in blocks for obstacle in obstacles(module, block, moved=moved)} - {Trap.PJIT}
        found += [str(trap) for trap in Trap if trap in traps][:2]
    if not found:
        found.append("where it is called is not all in view, and jax.jit does not see `with mesh:`")
    return "; ".join(found)
