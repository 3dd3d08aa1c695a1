"""What changes in a file, as its readers want it: people see the code, programs the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardfix.documents import is_notebook
from shardfix.patch import unified_diff
from shardfix.reporters.base import Stream, Style

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardfix.notebooks import Cell

__all__ = ["painted", "write_patch"]


def write_patch(path: str, before: bytes, after: bytes, stream: Stream) -> None:
    """Write the patch of a file.

    Of a notebook, the cells that change are shown on a terminal or in colours; all other readers get the patch of the JSON,
    which ``git apply`` takes.
    """
    for_people = stream.colored or stream.file.isatty()
    for patch in _of_cells(path, before, after) if for_people and is_notebook(path) else _of_file(path, before, after):
        stream.raw(painted(patch, stream))


def _of_file(path: str, before: bytes, after: bytes) -> Iterator[bytes]:
    yield unified_diff(path, before, after)


def _of_cells(path: str, before: bytes, after: bytes) -> Iterator[bytes]:
    from shardfix.notebooks import Notebook

    for old, new in zip(Notebook.of(before).cells, Notebook.of(after).cells, strict=True):
        if old.source != new.source:
            yield unified_diff(path, _encoded(old), _encoded(new), part=f":cell {old.number}")


def _encoded(cell: Cell) -> bytes:
    """The code of a cell, whose last line need not end to be a whole one."""
    end = "" if cell.source.endswith("\n") else "\n"
    return f"{cell.source}{end}".encode(errors="surrogatepass")


def painted(patch: bytes, stream: Stream) -> bytes:
    """A patch in colours, where the stream has them."""
    if not stream.colored:
        return patch
    styles = {b"-": Style.RED, b"+": Style.GREEN, b"@": Style.CYAN}
    lines = patch.split(b"\n")
    for number, line in enumerate(lines):
        style = Style.BOLD if number < 2 else styles.get(line[:1])
        if style:
            lines[number] = b"\x1b[%bm%b\x1b[0m" % (style.value.encode(), line)
    return b"\n".join(lines)
