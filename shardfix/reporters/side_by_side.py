"""Two texts beside each other: rows of lines, with what differs within a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

from shardfix.patch import grouped_opcodes

__all__ = ["Line", "Row", "hunks"]

WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
LONGEST = 500
"""Characters of a line that is still compared word by word."""
ALIKE = 0.4
"""Lines less alike than this differ as a whole."""


@dataclass(frozen=True)
class Line:
    """A line of one of the texts."""

    number: int
    parts: tuple[tuple[str, bool], ...]
    """Its text in pieces, each with whether it differs from the line beside it."""


@dataclass(frozen=True)
class Row:
    """A line of either text, or of both."""

    before: Line | None
    after: Line | None
    changed: bool


def hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[Row, ...]]:
    """What differs between two texts, given as lines, each stretch with three lines around it."""
    for group in grouped_opcodes(before, after):
        rows: list[Row] = []
        for tag, start, end, new_start, new_end in group:
            old, new = enumerate(before[start:end], start + 1), enumerate(after[new_start:new_end], new_start + 1)
            rows.extend(_row(left, right, tag != "equal") for left, right in zip_longest(old, new))
        yield tuple(rows)


def _row(left: tuple[int, str] | None, right: tuple[int, str] | None, changed: bool) -> Row:
    if left is None or right is None or not changed:
        return Row(_whole(left), _whole(right), changed)
    (old_number, old), (new_number, new) = left, right
    old_words, new_words = WORD.findall(old), WORD.findall(new)
    matcher = SequenceMatcher(None, old_words, new_words, autojunk=False)
    if max(len(old), len(new)) > LONGEST or matcher.ratio() < ALIKE:
        return Row(_whole(left), _whole(right), changed)
    codes = matcher.get_opcodes()
    old_parts = ((old_words[start:end], tag != "equal") for tag, start, end, _, _ in codes)
    new_parts = ((new_words[start:end], tag != "equal") for tag, _, _, start, end in codes)
    return Row(Line(old_number, _parts(old_parts)), Line(new_number, _parts(new_parts)), changed)


def _whole(line: tuple[int, str] | None) -> Line | None:
    return None if line is None else Line(line[0], ((line[1], False),))


def _parts(words: Iterable[tuple[list[str], bool]]) -> tuple[tuple[str, bool], ...]:
    return tuple(("".join(some), differs) for some, differs in words if some)
