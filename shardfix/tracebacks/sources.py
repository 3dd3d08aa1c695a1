"""From a path in a traceback, perhaps of another machine, to a file below the current folder."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from shardfix import files

if TYPE_CHECKING:
    from shardfix.tracebacks.reader import Frame

__all__ = ["find_cell", "find_source", "shows"]


def find_source(frame: Frame, root: Path, contents: Mapping[str, bytes] | None = None) -> tuple[Path, ...]:
    """The files that ``frame.path`` may mean: none, one, or several that fit equally well.

    A file that exists under that very path is it, unless another below ``root`` alone has the line that the traceback
    shows. Otherwise those files below ``root`` are candidates whose path ends in the most components of ``frame.path``;
    those that fit what the traceback shows win. ``contents`` are what files held when the traceback was printed, by
    absolute path, where that is not what they hold now.
    """
    if frame.path.startswith("<"):
        return ()
    parts = [part for part in re.split(r"[\\/]+", frame.path) if part not in ("", ".", "~")]
    if not parts or not parts[-1].endswith((".py", ".pyw")):
        return ()
    path = Path(frame.path).expanduser()
    exact = path if path.is_absolute() else root / path
    is_there = exact.is_file()
    if is_there and shows(exact, frame, contents):
        return (exact,)
    candidates = [path for found in files.discover((str(root),)) if (path := Path(found.path)).name == parts[-1]]
    best = max((_shared_suffix(candidate, parts) for candidate in candidates), default=0)
    candidates = sorted(candidate for candidate in candidates if _shared_suffix(candidate, parts) == best)
    fitting = tuple(candidate for candidate in candidates if shows(candidate, frame, contents))
    if is_there:
        return fitting if frame.text and len(fitting) == 1 else (exact,)
    return fitting or tuple(candidates)


_CELL = re.compile(r"(?:Cell|Input) In ?\[(?P<count>\d+)\]$|<ipython-input-(?P<count_2>\d+)-")
_MARKER = re.compile(r"^# (?:In\[[ \d]*\]:|%%)")


def find_cell(frame: Frame, root: Path) -> tuple[tuple[Path, int], ...]:
    """The notebooks, and the modules that were exported from one, that have the line of a frame in a cell, and where.

    That is a line of the program that a notebook's cells make. If several cells have the line, those that ran at that
    count win.
    """
    match = _CELL.match(frame.path)
    shown = _words(frame.text.partition("\n")[0])
    if not match or not shown:
        return ()
    ran: list[tuple[Path, int]] = []
    others: list[tuple[Path, int]] = []
    for found in files.discover((str(root),)):
        path = Path(found.path)
        cells = _notebook_cells(path) if path.suffix == files.NOTEBOOK_SUFFIX else _exported_cells(path)
        for count, lines, first in cells:
            if frame.line <= len(lines) and re.fullmatch(shown, _words(lines[frame.line - 1])):
                is_it = count == int(match["count"] or match["count_2"])
                (ran if is_it else others).append((path, first + frame.line - 1))
    return tuple(ran or others)


def _notebook_cells(path: Path) -> Iterator[tuple[int | None, list[str], int]]:
    """The execution count, the lines and the first line in the program of each cell of code."""
    from shardfix.notebooks import Notebook

    try:
        notebook = Notebook.of(path.read_bytes())
        written = json.loads(notebook.json.removeprefix("\ufeff"))["cells"]
    except (OSError, ValueError, KeyError, TypeError, files.FileProblem):
        return
    for cell in notebook.cells:
        yield (
            written[cell.number - 1].get("execution_count"),
            cell.source.split("\n"),
            notebook.line_of_program(cell, 1),
        )


def _exported_cells(path: Path) -> Iterator[tuple[int | None, list[str], int]]:
    """The same of a module that nbconvert or jupytext made of a notebook: no counts that could be trusted."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return
    starts = [number for number, line in enumerate(lines) if _MARKER.match(line)]
    for start, end in pairwise([*starts, len(lines)]):
        first = next((number for number in range(start + 1, end) if lines[number].strip()), end)
        yield None, lines[first:end], first + 1


def shows(path: Path, frame: Frame, contents: Mapping[str, bytes] | None = None) -> bool:
    """Whether the file holds, in the line of the frame, what the traceback shows of it.

    Where it shows no source, the line must at least be in a function of that name. Words alone are compared: logs do
    all kinds of things to blanks and quotes, and cut long lines.
    """
    text = _text_of(path, contents)
    lines = re.split(r"\r\n|\r|\n", text)
    if frame.line > len(lines):
        return False
    shown, there = _words(frame.text.partition("\n")[0]), _words(lines[frame.line - 1])
    if shown:
        return re.fullmatch(shown, there) is not None or (len(shown) > 20 and re.match(shown, there) is not None)
    return not frame.function.isidentifier() or _is_in_function(text, frame)


def _text_of(path: Path, contents: Mapping[str, bytes] | None) -> str:
    data = (contents or {}).get(str(path.absolute()))
    try:
        data = path.read_bytes() if data is None else data
        return files.decode(data).text
    except files.FileProblem:
        return (data or b"").decode(errors="replace")
    except OSError:
        return ""


def _words(line: str) -> str:
    """The words of a source line, as a regular expression; a character that a log has lost may be any."""
    return re.sub(r"\ufffd+", ".*", re.sub(r"[^\w\ufffd]+", "", line))


def _is_in_function(text: str, frame: Frame) -> bool:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name == frame.function
        and node.lineno <= frame.line <= (node.end_lineno or node.lineno)
        for node in ast.walk(tree)
    )


def _shared_suffix(candidate: Path, parts: list[str]) -> int:
    count = 0
    for mine, theirs in zip(reversed(candidate.parts), reversed(parts), strict=False):
        if mine != theirs:
            break
        count += 1
    return count
