"""For GitHub: workflow commands, which become annotations in a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shardfix.reporters.base import Reporter

if TYPE_CHECKING:
    from shardfix.outcomes import FileOutcome, Summary

__all__ = ["GithubReporter"]


class GithubReporter(Reporter):
    """One command a finding, and one a file that could not be processed."""

    def show(self, outcome: FileOutcome) -> None:
        """Nothing: what is left is known when all is done."""

    def finish(self, outcomes: Sequence[FileOutcome], summary: Summary) -> None:
        for outcome in outcomes:
            for finding in self._left(outcome):
                message = ": ".join(filter(None, (finding.placed_message, finding.reason)))
                line, column, end_line, end_column = finding.in_file
                self._command(
                    "warning",
                    f"{message} [{finding.safety}]",
                    file=outcome.path,
                    line=line,
                    col=column,
                    endLine=end_line,
                    endColumn=end_column,
                    title=f"shardfix: {finding.codemod}",
                )
            for failure in outcome.failures:
                self._command("error", failure.reason, file=outcome.path, line=failure.line or 1, title="shardfix")
        self._report_failures(outcomes)

    def _command(self, kind: str, message: str, **properties: object) -> None:
        listed = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in properties.items())
        self.out.line(f"::{kind} {listed}::{_escaped(message)}")


def _escaped(text: str, more: str = "") -> str:
    """``text`` with what has a meaning in a command as percent and code."""
    special = "%\r\n" + more
    return "".join(f"%{ord(character):02X}" if character in special else character for character in text)
