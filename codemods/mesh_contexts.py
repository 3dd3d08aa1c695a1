"""Older ways to enter a mesh, and to ask which mesh is entered.

What JAX says
    DeprecationWarning: `with mesh:` context manager has been deprecated. Please use `with jax.set_mesh(mesh):` instead.
    ImportError: cannot import name 'use_mesh' from 'jax.sharding'
    DeprecationWarning: jax.interpreters.pxla.thread_resources is deprecated as of JAX v0.8.2. Please switch to using
    `with jax.set_mesh(mesh)` instead of `with mesh:` and then use `jax.sharding.get_abstract_mesh()` to get the current mesh.

Why
    `jax.set_mesh` (JAX 0.7.1) is the one way to enter a mesh. `jax.sharding.use_mesh` was its name before, and
    `with jax.set_mesh(mesh):` does the same. `jax.sharding.set_mesh` is the very same function since, but up to JAX 0.7.0 it
    set the mesh for good and was no context manager. `with mesh:` (deprecated in 0.10.1) is something else: only pjit and
    `with_sharding_constraint` see it. Under `jax.set_mesh` arrays made in the block are placed on the mesh and then clash with
    `in_shardings`; it raises inside jit; `thread_resources` does not see it; on Explicit axes it turns on sharding in types. So
    the fix of `with mesh:` is safe only where all that the block runs is in view, and none of this can show.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    double = jax.jit(lambda a: jax.lax.with_sharding_constraint(a * 2, P("x")))
    ones = jnp.ones(8)
    with mesh:
        result = double(ones)
    assert result.addressable_shards[0].data.shape == (1,)

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    double = jax.jit(lambda a: jax.lax.with_sharding_constraint(a * 2, P("x")))
    ones = jnp.ones(8)
    with jax.set_mesh(mesh):
        result = double(ones)
    assert result.addressable_shards[0].data.shape == (1,)

When it does not fix
    - Where one of the traps may apply, the fix of `with mesh:` is unsafe, and the finding names the trap. Passing
  `NamedSharding(mesh, spec)` wherever a spec is resolved through the block is always right, inside jit too.
    - Inside jit `jax.set_mesh` raises; there is no fix there.
    - Where pjit resolves its specs through the block, both have to change together: see `pjit`.
    - `thread_resources.env.physical_mesh` and the blocks that it reads have to change together. Where both are in one file there is
  an unsafe fix; the mesh is then an AbstractMesh, which has axis names and sizes but no devices.
    - `use_mesh(mesh)` that is not entered at once, because `jax.set_mesh(mesh)` sets the mesh where it is called.
    - `jax.sharding.set_mesh(mesh)` as a statement is right as it is.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import DropImport, Edit, MoveImport, Replace, Wrap, named
from shardfix.edits.mesh_entry import enter_with_set_mesh
from shardfix.semantics.flow import Flow, flows, importers, names_in_all
from shardfix.semantics.mesh_blocks import MeshBlock, entered_mesh, enters_mesh_elsewhere, mesh_blocks
from shardfix.semantics.mesh_traps import RESOURCES, Obstacle, Trap, obstacles
from shardfix.semantics.meshes import mesh_view

if TYPE_CHECKING:
    from shardfix.semantics.module import ImportedName, Module

__all__ = ["MeshContexts"]

NEW = "jax.set_mesh"
NEEDS = "0.7.1"
USE_MESH = "jax.sharding.use_mesh"
SETTER = "jax.sharding.set_mesh"
PJIT = "jax.experimental.pjit.pjit"
BLOCK = "`with mesh:` is deprecated since JAX 0.10.1; jax.set_mesh takes its place"
SET_ALREADY = (
    "jax.set_mesh enters the same mesh here, and `with mesh:` beside it serves readers of thread_resources alone: remove it "
    "where there are none"
)
PJIT_FIRST = "pjit in this file may resolve its specs through the block, and is to be changed first"
NO_FIX = frozenset(
    {
        Trap.TRACED,
        Trap.IN_MODULE,
        Trap.BINDS_NAME,
        Trap.PJIT,
        Trap.READS_CONTEXT,
        Trap.READ_ELSEWHERE,
        Trap.CLASH,
        Trap.DEFAULT_TYPES,
    }
)
"""Traps that make the mechanical rewrite wrong for certain."""


class MeshContexts(Codemod):
    """``with mesh:``, ``use_mesh`` and ``thread_resources``."""

    triggers = (
        rb"\bwith\b[^:\n]*[mM]esh",
        rb"\bwith\s*\([^:]{0,400}?[mM]esh",
        rb"\bMesh\(",
        rb"\buse_mesh\b",
        rb"\bthread_resources\b",
        rb"\benter_context\([^\n]*[mM]esh",
    )
    evidence: ClassVar[frozenset[str]] = frozenset(
        {"deprecated-name", "missing-mesh", "newer-name", "removed-name", "set-mesh-inside-jit"}
    )
    deprecated = "0.10.1"
    replacement_since = NEEDS

    def findings(self, module: Module) -> Iterator[Finding]:
        for flow in flows(module, USE_MESH) if "use_mesh" in module.source else ():
            if not flow.gated:
                yield self._use_mesh(module, flow)
        if "set_mesh" in module.source:
            yield from self._previous_mesh(module)
            for flow in flows(module, SETTER):
                if not flow.gated and any(_is_entered(module, call.node) for call in flow.calls):
                    yield self._setter(module, flow)
        blocks = [block for block in mesh_blocks(module) if not module.is_compatibility_code(block.statement)]
        for block in blocks:
            yield self._block(module, block)
        yield from self._entered(module)
        yield from self._readers(module, blocks)

    def _use_mesh(self, module: Module, flow: Flow) -> Finding:
        edits = _called_by_new_name(flow)
        message = "jax.sharding.use_mesh is gone since JAX 0.7.1; jax.set_mesh takes its place"
        exported = _exported(module, flow)
        if exported is not None:
            edits = (MoveImport(Range.of(exported.statement), exported.alias.name, NEW),)
        place = flow.imported.alias if flow.imported else flow.spelled[0]
        if any(mesh_view(module).context(call.node).traced for call in flow.calls):
            return self.finding(place, message, reason=str(Trap.TRACED))
        kept: list[ast.AST] = [escape.node for escape in flow.escapes]
        kept += [call.node for call in flow.calls if not _is_entered(module, call.node)]
        if exported is not None:
            kept += _kept_elsewhere(module)
        reason = (
            "jax.set_mesh(mesh) sets the mesh where it is called, and this use is not entered at once" if kept else ""
        )
        safety = Safety.UNSAFE if kept else Safety.SAFE
        return self.finding(
            place, message, fix=Fix(edits, safety, "enter the mesh with jax.set_mesh", NEEDS), reason=reason
        )

    def _setter(self, module: Module, flow: Flow) -> Finding:
        """``with jax.sharding.set_mesh(mesh):``: from JAX 0.7.1 on the same object, before it no context manager."""
        entered = next(call.node for call in flow.calls if _is_entered(module, call.node))
        message = "jax.sharding.set_mesh is a context manager since JAX 0.7.1, where it is jax.set_mesh"
        if any(_is_kept(module, call.node) for call in flow.calls):
            return self.finding(entered, message, reason="what it returns is kept elsewhere in this file")
        if flow.imported is not None and flow.imported.dotted == SETTER:
            edits: tuple[Edit, ...] = (MoveImport(Range.of(flow.imported.statement), flow.imported.alias.name, NEW),)
        else:
            edits = _called_by_new_name(flow)
        fix = Fix(edits, Safety.SAFE, "enter the mesh with jax.set_mesh", NEEDS)
        return self.finding(flow.imported.alias if flow.imported else entered, message, fix=fix)

    def _previous_mesh(self, module: Module) -> Iterator[Finding]:
        """``previous = set_mesh(mesh)``: up to JAX 0.7.0 the mesh before, now an object that undoes the setting."""
        for call in module.calls_to(SETTER):
            if _is_kept(module, call.node) and not module.is_compatibility_code(call.node):
                yield self.finding(
                    call.node,
                    "jax.sharding.set_mesh does not return the mesh before since JAX 0.7.1",
                    reason="enter the mesh with `with jax.set_mesh(mesh):`, which restores the one before",
                )

    def _block(self, module: Module, block: MeshBlock) -> Finding:
        found = obstacles(module, block)
        has_pjit = bool(module.calls_to(PJIT))
        place = Range.of(block.item.context_expr)
        fix = Fix(enter_with_set_mesh(module, block), Safety.SAFE, "enter the mesh with jax.set_mesh", NEEDS)
        if _is_set_around(module, block):
            return self.finding(place, BLOCK, reason=SET_ALREADY)
        if not found and not has_pjit:
            return self.finding(place, BLOCK, fix=fix)
        if has_pjit:
            others = _reason([obstacle for obstacle in found if obstacle.trap is not Trap.PJIT])
            return self.finding(place, BLOCK, reason="; ".join(filter(None, (PJIT_FIRST, others))))
        reason = _reason(found)
        if any(obstacle.trap in NO_FIX for obstacle in found):
            return self.finding(place, BLOCK, reason=reason)
        return self.finding(place, BLOCK, fix=Fix(fix.edits, Safety.UNSAFE, fix.title, NEEDS), reason=reason)

    def _entered(self, module: Module) -> Iterator[Finding]:
        """A mesh entered without a ``with``: ``stack.enter_context(mesh)``, ``mesh.__enter__()``, ``@mesh``."""
        functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = [
            *module.nodes(ast.FunctionDef),
            *module.nodes(ast.AsyncFunctionDef),
        ]
        for function in functions:
            for decorator in function.decorator_list:
                entered, guess = entered_mesh(module, decorator)
                if entered is not None and not guess and not module.is_compatibility_code(function):
                    yield self.finding(
                        decorator, BLOCK, reason="the decorator enters the mesh for each call: do it with a block"
                    )
        for call in module.nodes(ast.Call):
            match call:
                case ast.Call(func=ast.Attribute(attr="enter_context"), args=[mesh]):
                    if entered_mesh(module, mesh)[0] is not None and not module.is_compatibility_code(call):
                        if not isinstance(module.parent(call), ast.Expr):
                            yield self.finding(mesh, BLOCK, reason=str(Trap.BINDS_NAME))
                            continue
                        edits = (Wrap(Range.of(mesh), f"{named(NEW)}(", ")"),)
                        fix = Fix(edits, Safety.UNSAFE, "enter the mesh with jax.set_mesh", NEEDS)
                        yield self.finding(mesh, BLOCK, fix=fix, reason=str(Trap.OUT_OF_VIEW))
                case ast.Call(func=ast.Attribute(value=mesh, attr="__enter__"), args=[]):
                    if entered_mesh(module, mesh)[0] is not None and not module.is_compatibility_code(call):
                        yield self.finding(call, BLOCK, reason="the mesh is entered and left by hand")

    def _readers(self, module: Module, blocks: list[MeshBlock]) -> Iterator[Finding]:
        """Code that asks ``thread_resources`` for the mesh that ``with mesh:`` has entered."""
        if "thread_resources" not in module.source:
            return
        uses = [use for use in module.uses_of(*RESOURCES) if not module.is_compatibility_code(use)]
        chains = [_outermost(module, use) for use in uses]
        together = self._together(module, chains, blocks)
        for chain in chains:
            yield self.finding(
                chain,
                "thread_resources is deprecated since JAX 0.8.2; it does not see jax.set_mesh",
                fix=together,
                reason=(
                    "jax.sharding.get_abstract_mesh() (inside jit too; no devices) or jax.sharding.get_mesh() (outside of jit) "
                    "reads the mesh of jax.set_mesh, and neither sees `with mesh:`: change the blocks that enter the mesh together "
                    "with their readers"
                ),
            )
            together = None  # one fix holds all of them

    def _together(self, module: Module, chains: list[ast.expr], blocks: list[MeshBlock]) -> Fix | None:
        """One fix for all readers and blocks, where this file has them all."""
        if not chains or not blocks or module.calls_to(PJIT) or not all(map(_is_physical_mesh, chains)):
            return None
        for block in blocks:
            if any(o.trap in NO_FIX and o.trap is not Trap.READS_CONTEXT for o in obstacles(module, block)):
                return None
        readers = {os.path.abspath(path) for path in module.project.mentioning("thread_resources")}
        if readers - {os.path.abspath(module.path)} or enters_mesh_elsewhere(module):
            return None
        edits: list[Edit] = [
            Replace(Range.of(chain), f"{named('jax.sharding.get_abstract_mesh')}()") for chain in chains
        ]
        edits += [edit for block in blocks for edit in enter_with_set_mesh(module, block)]
        edits += [
            DropImport(Range.of(name.statement), name.bound)
            for name in module.imports
            if isinstance(name.statement, ast.ImportFrom)
            and any(f"{reader}.".startswith(f"{name.dotted}.") for reader in RESOURCES)
        ]
        return Fix(tuple(edits), Safety.UNSAFE, "set the mesh with jax.set_mesh, and read that", NEEDS)


def _called_by_new_name(flow: Flow) -> tuple[Edit, ...]:
    edits: list[Edit] = [Replace(Range.of(use), named(NEW)) for use in flow.spelled]
    if flow.imported is not None:
        edits.append(DropImport(Range.of(flow.imported.statement), flow.imported.bound))
    return tuple(edits)


def _is_kept(module: Module, call: ast.Call) -> bool:
    """Whether a statement assigns what a call returns."""
    return isinstance(module.parent(call), ast.Assign)


def _is_set_around(module: Module, block: MeshBlock) -> bool:
    """Whether the same statement, or one around it in the same function, enters the same mesh with ``jax.set_mesh``."""
    mesh = ast.dump(block.item.context_expr)
    for statement in (block.statement, *module.ancestors(block.statement)):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return False
        if isinstance(statement, ast.With | ast.AsyncWith):
            for item in statement.items:
                match item.context_expr:
                    case ast.Call(func=function, args=[entered]) if NEW in module.resolve(function):
                        if ast.dump(entered) == mesh:
                            return True
    return False


def _exported(module: Module, flow: Flow) -> ImportedName | None:
    """The import of a function that other modules take from this one."""
    if flow.imported is None or flow.imported.dotted != flow.dotted or not flow.names:
        return None
    if flow.spelled and not flow.names & names_in_all(module) and not importers(module, flow.names):
        return None
    return flow.imported


def _kept_elsewhere(module: Module) -> list[ast.expr]:
    """The uses of ``use_mesh`` in other files of the project that are not entered at once."""
    found: list[ast.expr] = []
    for path in module.project.mentioning("use_mesh"):
        other = module.project.module_at(path)
        if other is not None and other is not module:
            entered = [call.function for call in other.calls_to(USE_MESH) if _is_entered(other, call.node)]
            found += [use for use in other.uses_of(USE_MESH) if use not in entered]
    return found


def _is_entered(module: Module, call: ast.Call) -> bool:
    """Whether a context manager is entered where it is made, and gives no name."""
    parent = module.parent(call)
    while isinstance(parent, ast.IfExp):
        parent = module.parent(parent)
    match parent:
        case ast.withitem(optional_vars=None):
            return True
        case ast.Call(func=ast.Attribute(attr="enter_context")):
            return True
    return False


def _reason(found: list[Obstacle]) -> str:
    """The traps in words, each once, with the line where it is met."""
    seen: dict[Trap, int] = {}
    for obstacle in found:
        seen.setdefault(obstacle.trap, obstacle.line)
    return "; ".join(f"{trap} (line {line})" for trap, line in list(seen.items())[:3])


def _outermost(module: Module, use: ast.expr) -> ast.expr:
    """``thread_resources.env.physical_mesh`` around ``thread_resources``."""
    node = use
    for attribute in ("env", "physical_mesh"):
        parent = module.parent(node)
        if not isinstance(parent, ast.Attribute) or parent.attr != attribute:
            break
        node = parent
    return node


def _is_physical_mesh(chain: ast.expr) -> bool:
    return isinstance(chain, ast.Attribute) and chain.attr == "physical_mesh" and isinstance(chain.ctx, ast.Load)
