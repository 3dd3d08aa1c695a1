"""What all reports have in common: two streams, of which only stdout carries the product."""

from __future__ import annotations

import enum
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from shardfix.outcomes import Outcome

if TYPE_CHECKING:
    from shardfix.application import Mode
    from shardfix.outcomes import FileOutcome, ReportedFinding, Summary

__all__ = ["Color", "Reporter", "Stream", "Style"]


MOST_REASONS = 2


class Color(enum.StrEnum):
    """When to colour."""

    AUTO = "auto"
    """On a terminal, unless NO_COLOR is set or the terminal is dumb."""
    ALWAYS = "always"
    NEVER = "never"


class Style(enum.Enum):
    """What a stretch of text is, as terminal attributes."""

    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    CYAN = "36"


@dataclass(frozen=True)
class Stream:
    """A binary stream with or without colour."""

    file: BinaryIO
    colored: bool = False

    @classmethod
    def on(cls, file: BinaryIO, color: Color) -> Stream:
        if color is Color.AUTO:
            return cls(file, file.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")
        return cls(file, color is Color.ALWAYS)

    def paint(self, text: str, style: Style) -> str:
        """``text`` in ``style``, where the stream has colour."""
        return f"\x1b[{style.value}m{text}\x1b[0m" if self.colored else text

    def line(self, text: str) -> None:
        """Write one line; undecodable bytes of file names come out as they were."""
        self.raw(f"{text}\n".encode(errors="surrogateescape"))

    def raw(self, data: bytes) -> None:
        self.file.write(data)


class Reporter(ABC):
    """Shows what a run finds.

    Args:
        out: takes the product of the run, and nothing else.
        err: takes every sentence that is meant for people.
        mode: what is done with the repairs.
        quiet: leave out all sentences but those that tell of trouble.
    """

    def __init__(self, out: Stream, err: Stream, mode: Mode, quiet: bool = False) -> None:
        self.out = out
        self.err = err
        self.mode = mode
        self.quiet = quiet

    @abstractmethod
    def show(self, outcome: FileOutcome) -> None:
        """Show a file that was analysed, before it is written."""

    @abstractmethod
    def finish(self, outcomes: Sequence[FileOutcome], summary: Summary) -> None:
        """Show what remains to be said when all is done; ``outcomes`` are those with findings or failures."""

    def count(self, summary: Summary) -> None:
        """Show what came of the findings of each codemod, the most first."""
        tallies = sorted(summary.codemods.items(), key=lambda item: (-item[1].found, item[0]))
        rows = [("codemod", "found", "fixed" if self.mode.writes else "fixable", "left", "")]
        for name, tally in tallies:
            why = _in_words(tally.left)
            rows.append((name, f"{tally.found:,}", f"{tally.fixed:,}", f"{tally.found - tally.fixed:,}", why))
        if len(tallies) > 1:
            left = summary.found - summary.fixed
            rows.append(("in all", f"{summary.found:,}", f"{summary.fixed:,}", f"{left:,}", ""))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for place, (name, *numbers, why) in enumerate(rows if tallies else ()):
            style = Style.CYAN if 0 < place <= len(tallies) else Style.BOLD
            cells = "".join(number.rjust(width + 2) for number, width in zip(numbers, widths[1:], strict=False))
            self.err.line(f"{self.err.paint(name.ljust(widths[0]), style)}{cells}  {why}".rstrip())

    def complain(self, sentence: str) -> None:
        """Tell of trouble that is not of one file."""
        self.err.line(f"shardfix: {sentence}")

    def _left(self, outcome: FileOutcome) -> tuple[ReportedFinding, ...]:
        """The findings that the file has when the run is over."""
        written = outcome.outcome is Outcome.FIXED
        return tuple(finding for finding in outcome.findings if not (written and finding.fixed))

    def _report_failures(self, outcomes: Sequence[FileOutcome]) -> None:
        for outcome in outcomes:
            for failure in outcome.failures:
                place = outcome.path if failure.line is None else f"{outcome.path}:{failure.line}"
                self.err.line(
                    f"{self.err.paint(place, Style.BOLD)}: {self.err.paint('error', Style.RED)}: {failure.reason}"
                )


def _in_words(left: Sequence[tuple[str, int]]) -> str:
    """Why findings are left: the usual reasons, and for how many there are others."""
    if len(left) == 1:
        return left[0][0]
    words = [f"{number:,} {reason}" for reason, number in left[:MOST_REASONS]]
    others = sum(number for _, number in left[MOST_REASONS:])
    return ", ".join([*words, f"{others:,} for other reasons"] if others else words)
