"""For code scanning: SARIF 2.1.0, with the repairs as fixes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from shardfix import __version__
from shardfix.codemod import Codemod, Safety, all_codemods
from shardfix.documents import document
from shardfix.lines import Lines
from shardfix.reporters.base import Reporter

if TYPE_CHECKING:
    from shardfix.outcomes import Failure, FileOutcome, ReportedFinding, Summary

__all__ = ["SarifReporter"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {Safety.SAFE: "warning", Safety.UNSAFE: "warning", Safety.MANUAL: "error"}


class SarifReporter(Reporter):
    """The whole run as one document."""

    def show(self, outcome: FileOutcome) -> None:
        """Nothing: the document is written when all is known."""

    def finish(self, outcomes: Sequence[FileOutcome], summary: Summary) -> None:
        available = all_codemods()
        rules = {name: index for index, name in enumerate(sorted(summary.codemods))}
        run = {
            "tool": {
                "driver": {
                    "name": "shardfix",
                    "version": __version__,
                    "rules": [_rule(name, available[name]) for name in rules],
                }
            },
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": {"%SRCROOT%": {"uri": f"{Path.cwd().as_uri().rstrip('/')}/"}},
            "invocations": [
                {
                    "executionSuccessful": not summary.failed,
                    "toolExecutionNotifications": [
                        _notification(outcome.path, failure) for outcome in outcomes for failure in outcome.failures
                    ],
                }
            ],
            "results": [result for outcome in outcomes for result in self._results(outcome, rules)],
        }
        self.out.line(json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2))
        self._report_failures(outcomes)

    def _results(self, outcome: FileOutcome, rules: dict[str, int]) -> Iterable[dict[str, Any]]:
        findings = self._left(outcome)
        if not findings:
            return
        lines = Lines(document(outcome.path, outcome.before).text)
        for finding in findings:
            yield _result(outcome.path, finding, rules[finding.codemod], lines)


def _rule(name: str, codemod: type[Codemod]) -> dict[str, Any]:
    page = codemod.manual_page()
    summary, _, _ = page.partition("\n\n")
    return {
        "id": name,
        "shortDescription": {"text": " ".join(summary.split())},
        "help": {"text": page, "markdown": page},
    }


def _result(path: str, finding: ReportedFinding, rule: int, lines: Lines) -> dict[str, Any]:
    code = lines.texts[finding.line - 1].strip()
    identity = "\0".join((path, finding.codemod, finding.message, code))
    result: dict[str, Any] = {
        "ruleId": finding.codemod,
        "ruleIndex": rule,
        "level": LEVELS[finding.safety],
        "message": {"text": ": ".join(filter(None, (finding.placed_message, finding.reason)))},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _artifact(path),
                    "region": _region(finding.in_file[:2], finding.in_file[2:]),
                }
            }
        ],
        "partialFingerprints": {"shardfix/v1": hashlib.sha256(identity.encode(errors="replace")).hexdigest()},
        "properties": {"safety": finding.safety.value, "choices": list(finding.choices)},
    }
    if finding.changes and finding.in_cell is None:  # what changes of a notebook is JSON
        replacements = [
            {
                "deletedRegion": _region(lines.position(change.start), lines.position(change.end)),
                "insertedContent": {"text": change.text},
            }
            for change in finding.changes
        ]
        changes = [{"artifactLocation": _artifact(path), "replacements": replacements}]
        title = f"{finding.fix or 'repair'} [{finding.safety}]"
        result["fixes"] = [{"description": {"text": title}, "artifactChanges": changes}]
    return result


def _notification(path: str, failure: Failure) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": _artifact(path)}
    if failure.line:
        place["region"] = {"startLine": failure.line}
    return {"level": "error", "message": {"text": failure.reason}, "locations": [{"physicalLocation": place}]}


def _artifact(path: str) -> dict[str, Any]:
    if os.path.isabs(path):
        return {"uri": f"file://{quote(os.fsencode(path))}"}
    return {"uri": quote(os.fsencode(os.path.normpath(path))), "uriBaseId": "%SRCROOT%"}


def _region(start: tuple[int, int], end: tuple[int, int]) -> dict[str, int]:
    return {"startLine": start[0], "startColumn": start[1], "endLine": end[0], "endColumn": end[1]}
