"""For people: the patch or one line a finding on stdout, what is left to do and the sum on stderr."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from shardfix.application import Mode
from shardfix.codemod import Safety
from shardfix.documents import document
from shardfix.patch import lies_outside
from shardfix.reporters.base import Reporter, Stream, Style
from shardfix.reporters.code_frame import code_frame
from shardfix.reporters.patches import write_patch
from shardfix.target import NEWEST_JAX

if TYPE_CHECKING:
    from shardfix.outcomes import FileOutcome, ReportedFinding, Summary

__all__ = ["TextReporter", "counted", "finding_line", "position"]

MOST_PLACES = 5
"""Places of one task that are listed at the end of a run that has listed all of them before."""
LINES = re.compile(r" \(line \d+\)")
SAFETY_STYLE = {Safety.SAFE: Style.GREEN, Safety.UNSAFE: Style.YELLOW, Safety.MANUAL: Style.RED}


class TextReporter(Reporter):
    """The default report."""

    def show(self, outcome: FileOutcome) -> None:
        if self.mode is Mode.CHECK:
            for finding in outcome.findings:
                self.out.line(finding_line(outcome.path, finding, self.out))
        elif outcome.after is not None:
            write_patch(outcome.path, outcome.before, outcome.after, self.out)

    def finish(self, outcomes: Sequence[FileOutcome], summary: Summary) -> None:
        self.out.file.flush()  # where both streams go to one place, the patch comes first
        if self.mode is Mode.CHECK and not self.quiet:
            self._list_tasks(outcomes)
        elif not self.quiet:
            for outcome in outcomes:
                for finding in outcome.findings:
                    if not finding.fixed:
                        self._explain(outcome, finding)
        self._report_failures(outcomes)
        if not self.quiet:
            if self.mode is Mode.DIFF and any(one.after is not None and lies_outside(one.path) for one in outcomes):
                self.err.line("The patch reaches outside this folder: apply it with `git apply --unsafe-paths`.")
            self.err.line(_sentence(summary, self.mode))

    def _list_tasks(self, outcomes: Sequence[FileOutcome]) -> None:
        """What only the author can do; findings that say the same are one task."""
        tasks: dict[tuple[str, str, str, tuple[str, ...]], list[str]] = {}
        for outcome in outcomes:
            for finding in outcome.findings:
                if finding.safety is Safety.MANUAL and not finding.fixed:
                    # the lines that a reason names are those of one place
                    task = finding.codemod, finding.message, LINES.sub("", finding.reason), finding.choices
                    tasks.setdefault(task, []).append(f"{outcome.path}:{position(finding)}")
        if tasks:
            self.err.line(self.err.paint("To do by hand:", Style.BOLD))
        for (codemod, message, reason, choices), places in sorted(tasks.items(), key=lambda task: -len(task[1])):
            self.err.line(f"  {self.err.paint(codemod, Style.CYAN)}: {message}")
            more = f" and {len(places) - MOST_PLACES:,} more" if len(places) > MOST_PLACES else ""
            self._labelled("at", ", ".join(places[:MOST_PLACES]) + more)
            self._say_why(reason, choices)

    def _explain(self, outcome: FileOutcome, finding: ReportedFinding) -> None:
        self.err.line(finding_line(outcome.path, finding, self.err))
        for line in code_frame(document(outcome.path, outcome.before).shown, finding, self.err):
            self.err.line(line)
        self._say_why(finding.reason, finding.choices)

    def _say_why(self, reason: str, choices: Sequence[str]) -> None:
        if reason:
            self._labelled("why:", reason)
        for choice in choices:
            self._labelled("choice:", choice)

    def _labelled(self, label: str, text: str) -> None:
        self.err.line(f"    {self.err.paint(label, Style.DIM)} {text}")


def finding_line(path: str, finding: ReportedFinding, stream: Stream) -> str:
    """One finding in one line."""
    place = stream.paint(path, Style.BOLD) + f":{position(finding)}"
    codemod = stream.paint(finding.codemod, Style.CYAN)
    safety = stream.paint(f"[{finding.safety}]", SAFETY_STYLE[finding.safety])
    return f"{place}: {codemod}: {finding.message} {safety}"


def position(finding: ReportedFinding) -> str:
    """Line and column; in a notebook those in the cell, after the cell."""
    place = finding.in_cell
    return f"cell {place.cell}:{place.line}:{place.column}" if place else f"{finding.line}:{finding.column}"


def _sentence(summary: Summary, mode: Mode) -> str:
    """The run in one line."""
    return "; ".join(_parts(summary, mode)) + "."


def _parts(summary: Summary, mode: Mode) -> Iterator[str]:
    if not summary.files:
        yield "No Python files found"
    elif not summary.found:
        clean = summary.files - summary.failed
        yield f"{counted(clean, 'file')} looked at, nothing to fix" if clean else "Nothing could be looked at"
    else:
        target = f" for JAX {summary.target_jax} and newer" if summary.target_jax != NEWEST_JAX else ""
        yield f"{counted(summary.found, 'finding')} in {counted(summary.files_with_findings, 'file')}{target}"
        if summary.fixed:
            yield f"{summary.fixed} fixed" if mode is Mode.WRITE else f"--write fixes {summary.fixed}"
        if summary.left[Safety.SAFE]:
            yield f"{summary.left[Safety.SAFE]} left for the reason given"
        if summary.left[Safety.UNSAFE]:
            yield f"{summary.left[Safety.UNSAFE]} with an unsafe fix (--unsafe)"
        if summary.left[Safety.MANUAL]:
            yield f"{summary.left[Safety.MANUAL]} to do by hand"
    if summary.failed:
        yield f"{counted(summary.failed, 'file')} could not be processed"


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
