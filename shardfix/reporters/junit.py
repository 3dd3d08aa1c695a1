"""For servers that show test results: JUnit XML, in which a finding is a test that failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from shardfix.reporters.base import Reporter
from shardfix.reporters.text import position

if TYPE_CHECKING:
    from shardfix.outcomes import FileOutcome, Summary

__all__ = ["JunitReporter"]


class JunitReporter(Reporter):
    """One suite a file; where nothing is found, one suite with a test that passed."""

    def show(self, outcome: FileOutcome) -> None:
        """Nothing: the report is written when all is known."""

    def finish(self, outcomes: Sequence[FileOutcome], summary: Summary) -> None:
        root = ElementTree.Element("testsuites", name="shardfix")
        tests = [self._suite(root, outcome) for outcome in outcomes]
        failures, errors = (sum(numbers) for numbers in zip(*tests, strict=True)) if tests else (0, 0)
        if not failures + errors:
            suite = ElementTree.SubElement(root, "testsuite", name="shardfix", tests="1", failures="0", errors="0")
            ElementTree.SubElement(suite, "testcase", name="no findings", classname="shardfix")
        root.set("tests", str(max(1, failures + errors)))
        root.set("failures", str(failures))
        root.set("errors", str(errors))
        ElementTree.indent(root)
        self.out.line(ElementTree.tostring(root, encoding="unicode", xml_declaration=False))
        self._report_failures(outcomes)

    def _suite(self, root: ElementTree.Element, outcome: FileOutcome) -> tuple[int, int]:
        """Add the suite of a file; how many failures and errors it has."""
        findings = self._left(outcome)
        if not findings and not outcome.failures:
            return 0, 0
        path = _printable(outcome.path)
        numbers = {"tests": len(findings) + len(outcome.failures)}
        numbers |= {"failures": len(findings), "errors": len(outcome.failures)}
        attributes = {"name": path, **{key: str(value) for key, value in numbers.items()}}
        suite = ElementTree.SubElement(root, "testsuite", attributes)
        for finding in findings:
            test = _case(suite, finding.codemod, path, finding.in_file[0])
            message = _printable(finding.placed_message)
            failure = ElementTree.SubElement(test, "failure", type=finding.codemod, message=message)
            place = f"{path}:{position(finding)}"
            lines = [f"{place}: {finding.message} [{finding.safety}]", finding.reason, *finding.choices]
            failure.text = _printable("\n".join(filter(None, lines)))
        for trouble in outcome.failures:
            test = _case(suite, "error", path, trouble.line or 1)
            ElementTree.SubElement(test, "error", type="error", message=_printable(trouble.reason))
        return len(findings), len(outcome.failures)


def _case(suite: ElementTree.Element, name: str, path: str, line: int) -> ElementTree.Element:
    return ElementTree.SubElement(
        suite, "testcase", name=f"{name} at line {line}", classname=path, file=path, line=str(line)
    )


def _printable(text: str) -> str:
    """``text`` without the characters that XML cannot hold."""
    return "".join(
        character if character in "\t\n" or (character >= " " and not "\ud800" <= character <= "\udfff") else "?"
        for character in text
    )
