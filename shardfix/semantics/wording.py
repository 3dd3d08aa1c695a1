"""How facts are put into words, the same in every message."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from shardfix.semantics.values import Array, Origin, Spec, Value

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

__all__ = ["EXPECTED", "axes_text", "entries_text", "origin_text", "spec_text"]

EXPECTED = "the code around the map expects this error: nothing to mend, unless it is out of date"
"""Why a fault that a test provokes is only told."""
LONGEST_QUOTE = 60
CHAIN = 3


def spec_text(spec: Spec) -> str:
    """``P('x', None)``."""
    if spec.entries is None:
        return "P(...)"
    return f"P({', '.join(map(_entry_text, spec.entries))})"


def entries_text(count: int) -> str:
    """``1 entry``, ``2 entries``."""
    return "1 entry" if count == 1 else f"{count} entries"


def _entry_text(entry: Any) -> str:
    if entry is ...:
        return "..."
    return repr(entry)


def axes_text(axes: Iterable[str]) -> str:
    """``'x'`` or ``'x' and 'y'``."""
    names = [repr(axis) for axis in sorted(axes)]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def origin_text(value: Value, module: Module) -> str:
    """``: `jnp.sum(block)` at line 12``, with the chain through helpers; empty where nothing is known."""
    if not isinstance(value, Array) or value.origin is None:
        return ""
    parts: list[str] = []
    origin: Origin | None = value.origin
    while origin is not None and len(parts) < CHAIN:
        parts.append(f"`{_quoted(origin.note)}` at {_where(origin, module)}")
        origin = origin.cause
    return ": " + ", from ".join(parts[:1] + parts[1:2])


def _quoted(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST_QUOTE else flat[: LONGEST_QUOTE - 3] + "..."


def _where(origin: Origin, module: Module) -> str:
    if os.path.abspath(origin.path) == os.path.abspath(module.path):
        return f"line {origin.line}"
    return f"{os.path.basename(origin.path)}:{origin.line}"
