"""Where texts stand in a JSON document, and how a part of one is changed with no other byte.

The document is known to be right; it is read a second time for the places of its values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

__all__ = ["JsonSource", "members", "sources"]

BLANKS = re.compile(r"[ \t\n\r]*")
CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL
)
"""One character of a string; two escapes may make one."""
LINE_END = re.compile("\r\n|\r|\n")
value_at = json.JSONDecoder().raw_decode


def members(text: str, start: int) -> dict[str, int]:
    """Where the value of each key begins in the object that begins at ``start``."""
    places: dict[str, int] = {}
    position = _after_blanks(text, start)
    while text[position] != "}":
        position = _after_blanks(text, position + 1)
        if text[position] == "}":
            break
        key, position = value_at(text, position)
        places[key] = _after_blanks(text, _after_blanks(text, position) + 1)
        position = _after_blanks(text, value_at(text, places[key])[1])
    return places


def items(text: str, start: int) -> Iterator[tuple[int, int, Any]]:
    """Where each item of the array that begins at ``start`` begins and ends, and the item."""
    position = start
    while text[position] != "]":
        position = _after_blanks(text, position + 1)
        if text[position] == "]":
            break
        value, end = value_at(text, position)
        yield position, end, value
        position = _after_blanks(text, end)


def sources(text: str, start: int) -> Iterator[tuple[Any, JsonSource | None]]:
    """The items of the array that begins at ``start``, each with what stands at its key ``source``."""
    for begin, _, value in items(text, start):
        source = value.get("source") if isinstance(value, dict) else None
        if isinstance(source, str):
            place = members(text, begin)["source"]
            end = value_at(text, place)[1]
            yield value, JsonSource(place, end, (_Literal(text[place:end], source),))
        elif isinstance(source, list) and all(isinstance(line, str) for line in source):
            yield value, _listed(text, members(text, begin)["source"])
        else:
            yield value, None


def _listed(text: str, start: int) -> JsonSource:
    literals: list[_Literal] = []
    done = start + 1
    for begin, end, value in items(text, start):
        literals.append(_Literal(text[begin:end], value, text[done:begin]))
        done = end
    close = text.index("]", done)
    return JsonSource(start, close + 1, tuple(literals), text[done:close])


def _after_blanks(text: str, position: int) -> int:
    return BLANKS.match(text, position).end()  # type: ignore[union-attr]  # it always matches


@dataclass(frozen=True)
class _Literal:
    """A string in JSON."""

    raw: str
    """With its quotes."""
    value: str
    before: str = ""
    """What stands between it and the one before, or the bracket."""

    @cached_property
    def places(self) -> list[int]:
        """Where in ``raw`` each character of the value begins, and where the last one ends."""
        return [*(match.start() for match in CHARACTER.finditer(self.raw, 1, len(self.raw) - 1)), len(self.raw) - 1]

    def edited(self, start: int, end: int, text: str, *, ascii_only: bool) -> _Literal:
        """The same with ``text`` in the place of the characters from ``start`` to ``end``."""
        raw = self.raw[: self.places[start]] + _escaped(text, ascii_only) + self.raw[self.places[end] :]
        return _Literal(raw, self.value[:start] + text + self.value[end:], self.before)

    def split(self, places: Iterable[int]) -> list[_Literal]:
        """The same as several strings, of which the others begin at ``places``."""
        bounds = list(pairwise([0, *places, len(self.value)]))
        raws = [f'"{self.raw[self.places[start] : self.places[end]]}"' for start, end in bounds]
        parts = [_Literal(raw, self.value[start:end]) for raw, (start, end) in zip(raws, bounds, strict=True)]
        return [replace(parts[0], before=self.before), *parts[1:]]


def _escaped(text: str, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


@dataclass(frozen=True)
class JsonSource:
    """A text that a document holds as one string, or as a list of strings that follow each other."""

    start: int
    end: int
    """Where the value begins and ends in the document."""
    literals: tuple[_Literal, ...] = field(repr=False)
    close: str | None = None
    """What stands between the last string of a list and its bracket; None where there is no list."""

    @cached_property
    def value(self) -> str:
        return "".join(literal.value for literal in self.literals)

    def offset_of(self, character: int) -> int:
        """Where that character of the text begins in the document."""
        position = self.start + (self.close is not None)
        for literal in self.literals:
            position += len(literal.before)
            if character < len(literal.value):
                return position + literal.places[character]
            character -= len(literal.value)
            position += len(literal.raw)
        return position

    def edited(self, edits: Iterable[tuple[int, int, str]], *, ascii_only: bool) -> str:
        """The value as JSON when the characters from ``start`` to ``end`` are replaced by a text, for each of the edits.

        They do not touch and stand in order. In a list, lines that are added become strings of their own.
        """
        literals = list(self.literals)
        for start, end, text in reversed(list(edits)):
            _edit(literals, start, end, text, ascii_only, as_lines=self.close is not None)
        if self.close is None:
            return "".join(literal.raw for literal in literals)
        lead = self.literals[0].before if self.literals else ""
        between = self.literals[1].before if len(self.literals) > 1 else f",{lead}"
        pieces = ["["]
        for literal in literals:
            is_first = len(pieces) == 1
            pieces += lead if is_first else literal.before if "," in literal.before else between, literal.raw
        return "".join([*pieces, self.close, "]"])


def _edit(literals: list[_Literal], start: int, end: int, text: str, ascii_only: bool, *, as_lines: bool) -> None:
    """Replace the characters from ``start`` to ``end`` by ``text``, in lines of their own where there are strings for lines."""
    starts = [0, *accumulate(len(literal.value) for literal in literals)]
    touched = [index for index in range(len(literals)) if starts[index] < end and start < starts[index + 1]]
    if not touched:
        touched = [index for index in range(len(literals)) if starts[index] <= start <= starts[index + 1]][-1:]
    if not touched:
        literals.append(_Literal('""', ""))
        touched = [0]
    for index in reversed(touched):
        literal = literals[index]
        low, high = max(start, starts[index]) - starts[index], min(end, starts[index + 1]) - starts[index]
        new = text if index == touched[0] else ""
        if as_lines and not new and high - low == len(literal.value):
            del literals[index]
            continue
        edited = literal.edited(low, high, new, ascii_only=ascii_only)
        ends = [low + match.end() for match in LINE_END.finditer(new)] if as_lines else []
        places = [
            place for place in (low, *ends) if 0 < place < len(edited.value) and edited.value[place - 1] in "\r\n"
        ]
        literals[index : index + 1] = edited.split(places if ends else ())
