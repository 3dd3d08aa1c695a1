"""Places that a traceback points at: for codemods that act on evidence alone.

Lines count as they were when the program ran, so these answers hold for the text that ran and for no later one.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from shardfix.edits import named
from shardfix.semantics.meshes import mesh_view

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.tracebacks import Evidence, Frame

__all__ = [
    "MAPS",
    "applied_call",
    "calls_at",
    "frames_in",
    "jax_call",
    "likeliest",
    "mesh_code",
    "reported",
    "spec_code",
]

MAPS = ("jax.shard_map", "jax.experimental.shard_map.shard_map", "jax.smap")


def reported(module: Module, *kinds: str) -> Iterator[tuple[Evidence, Frame]]:
    """Evidence of these kinds, with the innermost line in this module that it points at."""
    for evidence in module.evidence:
        if evidence.kind in kinds:
            frames = frames_in(module, evidence)
            if frames:
                yield evidence, frames[0]


def frames_in(module: Module, evidence: Evidence) -> list[Frame]:
    """The lines of this module that evidence points at, innermost first."""
    here = os.path.abspath(module.path)
    return [frame for frame in evidence.frames if os.path.abspath(frame.path) == here]


def calls_at(module: Module, frame: Frame) -> list[ast.Call]:
    """The calls that may have failed at a line: the one that carets mark, else all that begin there or span it, outermost first."""
    calls = [node for node in module.nodes(ast.Call) if node.lineno <= frame.line <= (node.end_lineno or node.lineno)]
    marked = [node for node in calls if frame.marked and module.text(node) == frame.marked]
    if marked:
        return marked
    begin = [node for node in calls if node.lineno == frame.line]
    return sorted(
        begin or calls,
        key=lambda node: (-(node.end_lineno or 0) + node.lineno, node.col_offset, -(node.end_col_offset or 0)),
    )


def applied_call(module: Module, frame: Frame) -> ast.Call | None:
    """The call of a function of the user's (a mapped or jitted one) that failed at a line."""
    for call in calls_at(module, frame):
        function = call.func
        if isinstance(function, ast.Name) and (hasattr(builtins, function.id) or module.resolve(function)):
            continue
        if isinstance(function, ast.Attribute) and module.resolve(function):
            continue
        if call.args or call.keywords:
            return call
    return None


def jax_call(module: Module, frame: Frame, *names: str) -> ast.Call | None:
    """The call at a line of a function of JAX that has one of these last names (``reshape`` also as a method)."""
    for call in calls_at(module, frame):
        dotted = {name.rpartition(".")[2] for name in module.resolve(call.func)}
        if dotted & set(names) or (not dotted and isinstance(call.func, ast.Attribute) and call.func.attr in names):
            return call
    return None


def likeliest(wrong: str, names: Iterable[str]) -> list[str]:
    """The names that a wrong one may stand for: the one that is spelled like it, else all."""
    others = [name for name in names if name != wrong]
    near = difflib.get_close_matches(wrong, others, n=2, cutoff=0.6)
    return near if len(near) == 1 else others


def mesh_code(module: Module, node: ast.AST) -> str | None:
    """How the nearest mesh is written at a place; None where none is in view."""
    return next((mesh.code for mesh in mesh_view(module).meshes(node)), None)


def spec_code(entries: tuple[Any, ...] | None) -> str | None:
    """A spec as code; None where an entry is not known."""
    if entries is None or any(entry is ... for entry in entries):
        return None
    return f"{named('jax.sharding.PartitionSpec')}({', '.join(_quoted(entry) for entry in entries)})"


def _quoted(entry: Any) -> str:
    if isinstance(entry, tuple):
        return f"({', '.join(map(_quoted, entry))}{',' if len(entry) == 1 else ''})"
    return "None" if entry is None else '"' + str(entry).replace('"', '\\"') + '"'
