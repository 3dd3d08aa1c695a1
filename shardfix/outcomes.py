"""What came of each file, and of the run: the plain values that runner, writer and reporters pass on."""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfix.codemod import Safety

if TYPE_CHECKING:
    from shardfix.edits.pen import Splice

__all__ = [
    "CodemodTally",
    "ExitCode",
    "Failure",
    "FileOutcome",
    "FindingKey",
    "InCell",
    "Outcome",
    "ReportedFinding",
    "Summary",
    "exit_code",
    "summarise",
]


FindingKey = tuple[str, int, int, str]
"""What a finding is known by: its codemod, its line and column in the original text, and its message."""


PLACE = re.compile(r"^line \d+(?: of cell \d+)?: ")


class ExitCode(enum.IntEnum):
    """What the process says of the run as a whole."""

    CLEAN = 0
    """Nothing was found; with ``--write``: nothing is left."""
    FINDINGS = 1
    """Something was found; with ``--write``: something is left."""
    TROUBLE = 2
    """The command line is wrong, or a file could not be processed."""
    INTERRUPTED = 130


class Outcome(enum.StrEnum):
    """What came of one file."""

    FIXED = "fixed"
    """The file was rewritten."""
    FIXABLE = "fixable"
    """It has findings, and was not rewritten."""
    CLEAN = "clean"
    """It has no findings."""
    FAILED = "failed"
    """It could not be read, analysed or written, and is as it was."""


@dataclass(frozen=True)
class InCell:
    """Where something stands in a notebook: the cell, of all cells from 1, and lines and columns in it."""

    cell: int
    line: int
    column: int
    end_line: int
    end_column: int
    file_line: int
    """The line of the file, which is JSON, that holds the line of the cell."""
    message: str
    """The message of the finding with the lines that it names as the analysis counts them."""


@dataclass(frozen=True)
class ReportedFinding:
    """A finding as it is shown: where it stands in the original text, and what was done about it.

    Lines and columns count from 1; columns are in characters, and ``end_column`` is one past the last. In a notebook they
    are those of the program that its code cells make (see :mod:`shardfix.documents`), and ``in_cell`` says where that is.
    """

    codemod: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    safety: Safety
    fixed: bool
    """Whether the new text of the file no longer has the fault."""
    reason: str = ""
    """Why it was not fixed, or what to mind."""
    fix: str = ""
    """The repair in a few words; empty where there is none."""
    choices: tuple[str, ...] = ()
    """The repairs that only the author can choose between."""
    changes: tuple[Splice, ...] = field(default=(), repr=False)
    """What its repair alone changes in the original text (decoded, without byte-order mark); empty where there is none, or
    where it is possible only after others."""
    in_cell: InCell | None = None
    """Where it stands in a notebook; None in other files."""

    @property
    def in_file(self) -> tuple[int, int, int, int]:
        """Its first line and column and its last in the file as that is on disk; of a notebook the first line alone."""
        if self.in_cell is not None:
            return self.in_cell.file_line, 1, self.in_cell.file_line, 1
        return self.line, self.column, self.end_line, self.end_column

    @property
    def where(self) -> str:
        """The line in words; in a notebook with the cell."""
        return f"cell {self.in_cell.cell}, line {self.in_cell.line}" if self.in_cell else f"line {self.line}"

    @property
    def placed_message(self) -> str:
        """The message; in a notebook with the cell, for those who show the lines of the file."""
        return f"{self.message} ({self.where})" if self.in_cell else self.message

    @property
    def key(self) -> FindingKey:
        """What it is known by in its text."""
        return self.codemod, self.line, self.column, self.in_cell.message if self.in_cell else self.message


@dataclass(frozen=True)
class Failure:
    """Why a file, or one codemod on it, could not be dealt with."""

    reason: str
    line: int | None = None

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}" if self.line else self.reason


@dataclass(frozen=True)
class FileOutcome:
    """All that the run knows of one file."""

    path: str
    outcome: Outcome
    findings: tuple[ReportedFinding, ...] = ()
    failures: tuple[Failure, ...] = ()
    """Why the file failed; or, where the outcome is another, what went wrong beside it (a codemod that crashed)."""
    before: bytes = field(default=b"", repr=False)
    after: bytes | None = field(default=None, repr=False)
    """The new content; None where nothing changes."""
    target_jax: str | None = None
    """The oldest JAX that the file must still run on, as the run took it."""

    @classmethod
    def failed(cls, path: str, reason: str, line: int | None = None) -> FileOutcome:
        return cls(path, Outcome.FAILED, failures=(Failure(reason, line),))


@dataclass(frozen=True)
class CodemodTally:
    """The findings of one codemod over the run."""

    found: int = 0
    fixed: int = 0
    left: tuple[tuple[str, int], ...] = ()
    """Why the others are left, with how many for each reason, the most first."""


@dataclass(frozen=True)
class Summary:
    """The run in numbers."""

    files: int
    """Files looked at, those that the prefilter passed over included."""
    files_with_findings: int
    files_fixed: int
    failed: int
    """Files that could not be processed, or not by every codemod."""
    codemods: dict[str, CodemodTally]
    left: dict[Safety, int]
    """Findings that were not fixed, by the safety of their fix."""
    target_jax: str
    """The oldest JAX that any of the files must still run on."""

    @property
    def found(self) -> int:
        return sum(tally.found for tally in self.codemods.values())

    @property
    def fixed(self) -> int:
        return sum(tally.fixed for tally in self.codemods.values())


def summarise(outcomes: Iterable[FileOutcome], files: int, target_jax: str) -> Summary:
    """Count what came of a run that looked at ``files`` files for ``target_jax``."""
    found: Counter[str] = Counter()
    fixed: Counter[str] = Counter()
    left: Counter[Safety] = Counter()
    reasons: dict[str, Counter[str]] = {}
    with_findings = rewritten = failed = 0
    for outcome in outcomes:
        with_findings += bool(outcome.findings)
        rewritten += outcome.outcome is Outcome.FIXED
        failed += bool(outcome.failures)
        for finding in outcome.findings:
            found[finding.codemod] += 1
            if finding.fixed:
                fixed[finding.codemod] += 1
            else:
                left[finding.safety] += 1
                reasons.setdefault(finding.codemod, Counter())[_why(finding)] += 1
    tallies = {
        name: CodemodTally(found[name], fixed[name], tuple(reasons.get(name, Counter()).most_common()))
        for name in sorted(found)
    }
    return Summary(
        files, with_findings, rewritten, failed, tallies, {safety: left[safety] for safety in Safety}, target_jax
    )


def _why(finding: ReportedFinding) -> str:
    """Why a finding is left, in a few words."""
    if finding.safety is Safety.MANUAL:
        return "by hand"
    return PLACE.sub("", finding.reason.partition(";")[0]).removeprefix("the repair is ")


def exit_code(summary: Summary, *, write: bool) -> ExitCode:
    """The exit code of a run that ended with ``summary``."""
    if summary.failed:
        return ExitCode.TROUBLE
    remaining = summary.found - summary.fixed if write else summary.found
    return ExitCode.FINDINGS if remaining else ExitCode.CLEAN
