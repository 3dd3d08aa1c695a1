"""For scripts: one JSON document on stdout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shardfix import __version__
from shardfix.reporters.base import Reporter

if TYPE_CHECKING:
    from shardfix.outcomes import FileOutcome, ReportedFinding, Summary

__all__ = ["JsonReporter", "finding_document"]


class JsonReporter(Reporter):
    """The whole run as one document; files that are clean are left out."""

    def show(self, outcome: FileOutcome) -> None:
        """Nothing: the document is written when all is known."""

    def finish(self, outcomes: Sequence[FileOutcome], summary: Summary) -> None:
        document = {
            "shardfix": __version__,
            "target_jax": summary.target_jax,
            "files": [_file(outcome) for outcome in outcomes],
            "summary": _summary(summary),
        }
        self.out.line(json.dumps(document, indent=2))
        self._report_failures(outcomes)


def _file(outcome: FileOutcome) -> dict[str, Any]:
    return {
        "path": outcome.path,
        "outcome": outcome.outcome,
        "error": "; ".join(map(str, outcome.failures)) or None,
        "findings": [finding_document(finding) for finding in outcome.findings],
    }


def finding_document(finding: ReportedFinding) -> dict[str, Any]:
    """One finding, as all formats of JSON have it; in a notebook lines and columns are those in the cell."""
    place = finding.in_cell or finding
    return {
        "codemod": finding.codemod,
        "cell": finding.in_cell.cell if finding.in_cell else None,
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
        "message": finding.message,
        "safety": finding.safety,
        "fixed": finding.fixed,
        "reason": finding.reason,
        "fix": finding.fix,
        "choices": list(finding.choices),
    }


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "files": summary.files,
        "files_with_findings": summary.files_with_findings,
        "files_fixed": summary.files_fixed,
        "failed": summary.failed,
        "found": summary.found,
        "fixed": summary.fixed,
        "left": {safety.value: count for safety, count in summary.left.items()},
        "codemods": {name: {"found": tally.found, "fixed": tally.fixed} for name, tally in summary.codemods.items()},
    }
