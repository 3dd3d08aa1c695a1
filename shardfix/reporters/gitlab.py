"""For GitLab: a code quality report, which is shown in a merge request."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shardfix.reporters.base import Reporter

if TYPE_CHECKING:
    from shardfix.outcomes import FileOutcome, Summary

__all__ = ["GitlabReporter"]

FAILED = "shardfix-error"


class GitlabReporter(Reporter):
    """One JSON array."""

    def show(self, outcome: FileOutcome) -> None:
        """Nothing: the report is written when all is known."""

    def finish(self, outcomes: Sequence[FileOutcome], summary: Summary) -> None:
        seen: Counter[str] = Counter()
        issues = []
        for outcome in outcomes:
            for finding in self._left(outcome):
                line, column, end_line, end_column = finding.in_file
                begin = {"line": line, "column": column}
                positions = {"begin": begin, "end": {"line": end_line, "column": end_column}}
                issue = _issue(outcome.path, finding.codemod, finding.message, "major", positions, seen)
                issues.append({**issue, "description": finding.placed_message})
            for failure in outcome.failures:
                place = {"line": failure.line or 1, "column": 1}
                positions = {"begin": place, "end": place}
                issues.append(_issue(outcome.path, FAILED, failure.reason, "blocker", positions, seen))
        self.out.line(json.dumps(issues, indent=2))
        self._report_failures(outcomes)


def _issue(
    path: str, check: str, message: str, severity: str, positions: dict[str, Any], seen: Counter[str]
) -> dict[str, Any]:
    identity = f"{path}\0{check}\0{message}"  # without the line, so that an issue is the same when it moves
    seen[identity] += 1
    return {
        "description": message,
        "check_name": check,
        "fingerprint": hashlib.sha256(f"{identity}\0{seen[identity]}".encode(errors="replace")).hexdigest(),
        "severity": severity,
        "location": {"path": path, "positions": positions},
    }
