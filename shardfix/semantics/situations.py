"""What a sharding that is written at a place has to look like: which mesh to name, and whether JAX has one there."""

from __future__ import annotations

import ast
import difflib
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.semantics.contexts import Context, State
from shardfix.semantics.meshes import Home, MeshInView, mesh_view
from shardfix.semantics.values import Mesh
from shardfix.target import NEWEST_JAX, has

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

__all__ = ["AxisKind", "Situation", "axis_kind", "situation"]


class AxisKind(enum.StrEnum):
    """What JAX makes of the mesh axes that a spec names."""

    EXPLICIT = "Explicit"
    AUTO = "Auto"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Situation:
    """What is known of a place where a sharding is written."""

    context: Context
    mesh: MeshInView | None
    """The mesh to name; None where none is in view, or where another one may be set."""
    kind: AxisKind
    """Of the axes that the spec names, on the mesh that is named or set."""
    rivals: tuple[MeshInView, ...] = ()
    """Other meshes in view, as near as ``mesh``, that have the axes too."""
    missing: frozenset[str] = frozenset()
    """Axes that no mesh in view has."""
    known_axes: tuple[str, ...] = ()
    """The axes of the meshes in view, for messages."""

    def nearest(self, axis: str) -> str | None:
        """The axis in view whose name is most like ``axis``."""
        close = difflib.get_close_matches(axis, self.known_axes, 1, 0.5)
        return close[0] if close else None

    def certain_correction(self, axis: str) -> str | None:
        """The axis that ``axis`` is a misspelling of, where that is beyond doubt: one letter off, and no other like it."""
        close = [name for name in dict.fromkeys(self.known_axes) if _is_slip(axis, name)]
        return close[0] if len(close) == 1 and len(axis) >= 4 else None


def _is_slip(wrong: str, right: str) -> bool:
    """Whether two names differ by one letter left out, put in, changed or swapped with the next."""
    if wrong.lower() == right.lower():
        return True
    if abs(len(wrong) - len(right)) > 1:
        return False
    start = 0
    while start < min(len(wrong), len(right)) and wrong[start] == right[start]:
        start += 1
    a, b = wrong[start:], right[start:]
    changed = a[1:] == b[1:] and not (a[:1].isdigit() or b[:1].isdigit())
    return a[1:] == b or a == b[1:] or changed or (len(a) > 1 and a[:2] == b[1::-1] and a[2:] == b[2:])


def axis_kind(mesh: Mesh, axes: frozenset[str] | None, target_jax: str | None) -> AxisKind:
    """The kind of the axes that a spec names on a mesh; of all its axes where the spec's are not known."""
    target = target_jax or NEWEST_JAX
    if mesh.types is None:
        explicit_since = "0.11.1" if mesh.abstract else "0.9"
        return AxisKind.EXPLICIT if mesh.default_types and has(target, explicit_since) else AxisKind.UNKNOWN
    types = set(mesh.types)
    if axes is not None and mesh.axes is not None and axes <= set(mesh.axes) and len(mesh.axes) == len(mesh.types):
        types = {kind for name, kind in zip(mesh.axes, mesh.types, strict=True) if name in axes} or types
    if types == {"Explicit"}:
        return AxisKind.EXPLICIT
    return AxisKind.AUTO if "Auto" in types and len(types) == 1 else AxisKind.UNKNOWN


def situation(
    module: Module, context: Context, place: ast.AST, axes: frozenset[str] | None, target_jax: str | None
) -> Situation:
    """The situation of a sharding over ``axes`` that is written at ``place`` and used in ``context``."""
    view = mesh_view(module)
    candidates = view.meshes(place)
    set_meshes = [mesh_view(where).mesh_of(mesh) or Mesh() for where, mesh in context.meshes]
    known = [name for mesh in (*set_meshes, *(item.mesh for item in candidates)) for name in mesh.axes or ()]
    set_here = [item for item in candidates if item.home is Home.CONTEXT]
    if set_here:
        mesh = set_here[0]
        return Situation(
            context, mesh, axis_kind(mesh.mesh, axes, target_jax), (), mesh.lacks(axes), mesh.mesh.axes or tuple(known)
        )
    if context.is_set and set_meshes and axes is not None:
        lacking = [axes - set(mesh.axes) if mesh.axes is not None else frozenset[str]() for mesh in set_meshes]
        missing = frozenset.intersection(*lacking)
        if missing:
            own = [name for mesh in set_meshes for name in mesh.axes or ()]
            return Situation(context, None, AxisKind.UNKNOWN, (), missing, tuple(own))
    fitting = [item for item in candidates if not item.lacks(axes)]
    if candidates and not fitting:
        missing = frozenset.intersection(*[item.lacks(axes) for item in candidates])
        missing = missing or candidates[0].lacks(axes)
        return Situation(context, None, AxisKind.UNKNOWN, (), missing, tuple(known))
    chosen = fitting[0] if fitting else None
    rivals = tuple(item for item in fitting[1:] if chosen and (item.home, item.guess) == (chosen.home, chosen.guess))
    if chosen is not None and not _is_the_one_set(context, chosen):
        chosen, rivals = None, ()
    if rivals and context.is_set:
        chosen, rivals = None, ()
    if chosen is not None:
        kind = axis_kind(chosen.mesh, axes, target_jax)
        if kind is AxisKind.UNKNOWN and chosen.mesh == Mesh() and set_meshes:
            kind = _common_kind(set_meshes, axes, target_jax)
    else:
        kind = _common_kind(set_meshes, axes, target_jax) if State.SET in context.states else AxisKind.UNKNOWN
    return Situation(context, chosen, kind, rivals, frozenset(), tuple(known))


def _common_kind(meshes: list[Mesh], axes: frozenset[str] | None, target_jax: str | None) -> AxisKind:
    kinds = {axis_kind(mesh, axes, target_jax) for mesh in meshes}
    return next(iter(kinds)) if len(kinds) == 1 else AxisKind.UNKNOWN


def _is_the_one_set(context: Context, chosen: MeshInView) -> bool:
    """Whether a mesh may be the one that is set, as far as names tell; a mesh that is handed in is trusted to be."""
    if State.SET not in context.states or chosen.home in (Home.CONTEXT, Home.LOCAL, Home.ATTRIBUTE):
        return True
    return all(mesh_view(where).identity(mesh) is chosen.expression for where, mesh in context.meshes)
