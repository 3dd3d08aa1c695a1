"""For scripts that read a run as it goes: one JSON object a finding, one a line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shardfix.reporters.base import Reporter
from shardfix.reporters.json import finding_document

if TYPE_CHECKING:
    from shardfix.outcomes import FileOutcome, Summary

__all__ = ["JsonLinesReporter"]


class JsonLinesReporter(Reporter):
    """The findings of a file as soon as they are known."""

    def show(self, outcome: FileOutcome) -> None:
        for finding in outcome.findings:
            self.out.line(json.dumps({"path": outcome.path, **finding_document(finding)}))

    def finish(self, outcomes: Sequence[FileOutcome], summary: Summary) -> None:
        self._report_failures(outcomes)
