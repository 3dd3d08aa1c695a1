"""The edits that enter a mesh with ``jax.set_mesh`` where a block enters the mesh itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardfix.codemod import Range
from shardfix.edits import Edit, InsertStatement, RemoveAs, Replace, Wrap, named

if TYPE_CHECKING:
    from shardfix.semantics.mesh_blocks import MeshBlock
    from shardfix.semantics.module import Module

__all__ = ["enter_with_set_mesh"]

SET_MESH = named("jax.set_mesh")


def enter_with_set_mesh(module: Module, block: MeshBlock) -> tuple[Edit, ...]:
    """``with jax.set_mesh(mesh):`` for a block, with ``mesh = ...`` before it where ``as mesh`` binds the mesh.

    The block must bind a plain name, as its first item, or none: see :attr:`MeshBlock.can_bind_before`.
    """
    place = Range.of(block.item.context_expr)
    name = block.item.optional_vars
    if not isinstance(name, ast.Name):
        return (Wrap(place, f"{SET_MESH}(", ")"),)
    made = f"{name.id} = {_unindented(module, block, shift=len(f'{name.id} = ') - len('with '))}"
    return (
        InsertStatement(Range.of(block.statement), made),
        Replace(place, f"{SET_MESH}({name.id})"),
        RemoveAs(place),
    )


def _unindented(module: Module, block: MeshBlock, *, shift: int) -> str:
    """The expression that gives the mesh, for a statement that is indented anew; what is aligned moves with its first line."""
    number, column = block.statement.lineno, block.statement.col_offset
    indentation = module.source[module.offset(number, 0) : module.offset(number, column)]
    first, *others = module.text(block.item.context_expr).splitlines()
    others = [line.removeprefix(indentation) for line in others]
    if first.rstrip().endswith(("(", "[", "{")) or not all(line.startswith(" " * max(-shift, 1)) for line in others):
        return "\n".join([first, *others])
    return "\n".join([first, *(" " * shift + line if shift > 0 else line[-shift:] for line in others)])
