"""A file as a reader of its findings wants it: the stretches that change, or that a finding is about, in their order."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.documents import document
from shardfix.edits.pen import spliced
from shardfix.lines import Lines
from shardfix.outcomes import Outcome
from shardfix.reporters.side_by_side import Line, Row, hunks

if TYPE_CHECKING:
    from shardfix.edits.pen import Splice
    from shardfix.outcomes import FileOutcome, ReportedFinding

__all__ = ["Excerpt", "Kind", "excerpts"]

AROUND = 2
"""Lines shown before and after a finding that nothing is changed at."""
MOST_LINES = 8
"""Lines of a finding that are shown; of a longer one the head."""


class Kind(enum.Enum):
    """What an excerpt shows."""

    REPAIR = enum.auto()
    """A stretch that the run changes, before and after."""
    PROPOSAL = enum.auto()
    """What a repair would change that is not carried out, before and after."""
    CODE = enum.auto()
    """A stretch that stays: its rows have no other side, and what differs in them is the place of the finding."""


@dataclass(frozen=True)
class Excerpt:
    """One stretch of a file. Findings are given by their places in the findings of the file."""

    kind: Kind
    findings: tuple[int, ...]
    """Those to tell of here."""
    company: tuple[int, ...]
    """Those that are told of elsewhere, and have a part in what is changed here (an import)."""
    hunks: tuple[tuple[Row, ...], ...]

    @property
    def line(self) -> int:
        """Its first line in the text before."""
        return min((row.before.number for rows in self.hunks for row in rows if row.before), default=0)


def excerpts(outcome: FileOutcome) -> list[Excerpt]:
    """The excerpts of one file; each of its findings is told of in exactly one of them."""
    if not outcome.findings:
        return []
    source = document(outcome.path, outcome.before).text
    found = [*_repairs(outcome, source), *_proposals(outcome, source)]
    told = {number for excerpt in found for number in excerpt.findings}
    lines = Lines(source).texts
    for number, finding in enumerate(outcome.findings):
        if number not in told:
            found.append(Excerpt(Kind.CODE, (number,), (), (tuple(_code(finding, lines)),)))
    return sorted(found, key=lambda excerpt: (excerpt.line, excerpt.findings))


def _repairs(outcome: FileOutcome, source: str) -> Iterator[Excerpt]:
    if outcome.after is None or outcome.outcome is Outcome.FAILED:
        return
    lines = Lines(source)
    changed = list(hunks(lines.texts, Lines(document(outcome.path, outcome.after).text).texts))
    fixed = {number: finding for number, finding in enumerate(outcome.findings) if finding.fixed}
    places = {
        number: [finding.line, *(lines.position(change.start)[0] for change in finding.changes)]
        for number, finding in fixed.items()
    }
    homes = {
        number: next(filter(None, (_home(line, changed) for line in lines)), 0) for number, lines in places.items()
    }
    for place, rows in enumerate(changed, 1):
        here = tuple(number for number in fixed if homes[number] == place)
        near = tuple(number for number in fixed if any(_home(line, changed) == place for line in places[number]))
        company = tuple(number for number in near if number not in here)
        yield Excerpt(Kind.REPAIR, here, company or (() if here else tuple(fixed)), (rows,))


def _home(line: int, changed: Iterable[tuple[Row, ...]]) -> int:
    """The number, from 1, of the hunk that ``line`` of the text before lies in; 0 for none."""
    for place, rows in enumerate(changed, 1):
        numbers = [row.before.number for row in rows if row.before]
        if numbers and numbers[0] <= line <= numbers[-1]:
            return place
    return 0


def _proposals(outcome: FileOutcome, source: str) -> Iterator[Excerpt]:
    """One for each repair that is not carried out; findings may share it."""
    wanted: dict[tuple[Splice, ...], list[int]] = {}
    for number, finding in enumerate(outcome.findings):
        if finding.changes and not finding.fixed:
            wanted.setdefault(finding.changes, []).append(number)
    before = Lines(source).texts
    for changes, numbers in wanted.items():
        after = Lines(spliced(source, changes)).texts
        yield Excerpt(Kind.PROPOSAL, tuple(numbers), (), tuple(hunks(before, after)))


def _code(finding: ReportedFinding, lines: list[str]) -> Iterator[Row]:
    last = min(finding.end_line, finding.line + MOST_LINES - 1)
    for number in range(max(1, finding.line - AROUND), min(len(lines), last + AROUND) + 1):
        text = lines[number - 1]
        start = finding.column - 1 if number == finding.line else len(text) - len(text.lstrip())
        end = finding.end_column - 1 if number == finding.end_line else len(text)
        if not finding.line <= number <= finding.end_line:
            start = end = 0
        parts = ((text[:start], False), (text[start:end], True), (text[end:], False))
        yield Row(Line(number, tuple(part for part in parts if part[0])), None, False)
