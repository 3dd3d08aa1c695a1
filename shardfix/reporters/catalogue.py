"""What there is to choose from: the list of codemods, and the manual page of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shardfix.reporters.base import Stream, Style

if TYPE_CHECKING:
    from shardfix.codemod import Codemod
    from shardfix.tracebacks import KnownError

__all__ = ["write_list", "write_manual_page", "write_page_of_error"]


def write_list(codemods: Mapping[str, type[Codemod]], out: Stream) -> int:
    """One line a codemod: its name, since when JAX warns or refuses, and what it finds."""
    width = max(map(len, codemods), default=0)
    for name, codemod in codemods.items():
        since = _since(codemod)
        summary = codemod.manual_page().partition("\n")[0]
        out.line(f"{out.paint(name.ljust(width), Style.CYAN)}  {summary}{out.paint(since, Style.DIM)}".rstrip())
    return 0


def write_manual_page(codemod: type[Codemod], out: Stream) -> int:
    """The codemod's docstring, under its name."""
    out.line(out.paint(codemod.codemod_name(), Style.BOLD) + out.paint(_since(codemod), Style.DIM))
    out.line("")
    out.line(codemod.manual_page())
    return 0


def write_page_of_error(error: KnownError, codemods: Mapping[str, type[Codemod]], out: Stream) -> int:
    """What is known of an error that JAX prints, and the codemods that act on it."""
    from shardfix.tracebacks import explain

    acting = [name for name, codemod in codemods.items() if error.name in codemod.evidence]
    out.line(explain(error, acting).rstrip())
    return 0


def _since(codemod: type[Codemod]) -> str:
    parts = []
    if codemod.deprecated:
        parts.append(f"deprecated in JAX {codemod.deprecated}")
    if codemod.removed:
        parts.append(f"removed in {codemod.removed}")
    return f" ({', '.join(parts)})" if parts else ""
