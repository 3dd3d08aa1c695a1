"""From a path in a traceback, perhaps of another machine, to a file below the current folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from shardfix.files import discover

if TYPE_CHECKING:
    from shardfix.tracebacks.reader import Frame

__all__ = ["find_source"]


def find_source(frame: Frame, root: Path) -> tuple[Path, ...]:
    """The files that ``frame.path`` may mean: none, one, or several that fit equally well.

    A file that exists under that very path is it. Otherwise those files below ``root`` are candidates whose path ends
    in the most components of ``frame.path``; where the traceback shows the source line, files that have it there win.
    """
    if frame.path.startswith("<"):
        return ()
    parts = [part for part in re.split(r"[\\/]+", frame.path) if part not in ("", ".", "~")]
    if not parts or not parts[-1].endswith((".py", ".pyw")):
        return ()
    path = Path(frame.path).expanduser()
    exact = path if path.is_absolute() else root / path
    if exact.is_file():
        return (exact,)
    candidates = [path for found in discover((str(root),)) if (path := Path(found.path)).name == parts[-1]]
    best = max((_shared_suffix(candidate, parts) for candidate in candidates), default=0)
    candidates = sorted(candidate for candidate in candidates if _shared_suffix(candidate, parts) == best)
    fitting = [candidate for candidate in candidates if _has_line(candidate, frame)]
    return tuple(fitting or candidates)


def _shared_suffix(candidate: Path, parts: list[str]) -> int:
    count = 0
    for mine, theirs in zip(reversed(candidate.parts), reversed(parts), strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _has_line(candidate: Path, frame: Frame) -> bool:
    """Whether the file has the source line that the traceback shows, at that place."""
    if not frame.text:
        return False
    try:
        lines = candidate.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return frame.line <= len(lines) and lines[frame.line - 1].strip() == frame.text.partition("\n")[0].strip()
