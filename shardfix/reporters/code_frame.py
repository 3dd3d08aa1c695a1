"""The code at a finding, with carets under it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardfix.lines import Lines
from shardfix.reporters.base import Stream, Style

if TYPE_CHECKING:
    from shardfix.outcomes import ReportedFinding

__all__ = ["code_frame"]

TAB = "    "
MOST_COLUMNS = 160
"""Of a longer line only the head is shown, and no line at all if the finding lies behind it."""


def code_frame(source: str, finding: ReportedFinding, stream: Stream) -> Iterator[str]:
    """The lines that show the first line of ``finding`` in ``source``, which is the code as it is shown."""
    text = Lines(source).texts[finding.line - 1]
    place = finding.in_cell or finding
    start = place.column - 1
    end = place.end_column - 1 if finding.end_line == finding.line else len(text.rstrip())
    left, marked = _width(text[:start]), max(1, _width(text[start:end]))
    if left + marked > MOST_COLUMNS:
        return
    number = str(place.line)
    bar = stream.paint("|", Style.DIM)
    more = "" if finding.end_line == finding.line else "..."
    yield f"    {' ' * len(number)} {bar}"
    yield f"    {stream.paint(number, Style.DIM)} {bar} {text.rstrip().replace(chr(9), TAB)[:MOST_COLUMNS]}"
    yield f"    {' ' * len(number)} {bar} {' ' * left}{stream.paint('^' * marked + more, Style.YELLOW)}"


def _width(text: str) -> int:
    """How many columns of a terminal ``text`` takes."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if character == "\t":
        return len(TAB)
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
