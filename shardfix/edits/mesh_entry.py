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
    number, column = block.statement.lineno, block.statement.col_offset
    indentation = module.source[module.offset(number, 0) : module.offset(number, column)]
    lines = module.text(block.item.context_expr).splitlines()
    made = "\n".join(line.removeprefix(indentation) for line in lines)  # what is inserted is indented anew
    return (
        InsertStatement(Range.of(block.statement), f"{name.id} = {made}"),
        Replace(place, f"{SET_MESH}({name.id})"),
        RemoveAs(place),
    )
