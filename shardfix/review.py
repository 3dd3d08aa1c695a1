"""A run in which the author decides, repair by repair; what was accepted is written at the end."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from shardfix import files
from shardfix.application import Request, discover, write
from shardfix.codemod import Safety, all_codemods
from shardfix.documents import document
from shardfix.edits.pen import spliced
from shardfix.outcomes import ExitCode, FileOutcome, Outcome, ReportedFinding
from shardfix.reporters.base import Style
from shardfix.reporters.catalogue import write_manual_page
from shardfix.reporters.patches import write_patch
from shardfix.reporters.text import counted, finding_line
from shardfix.runner import Task, Worker, run
from shardfix.settings import UsageProblem
from shardfix.suppressions import with_ignores

if TYPE_CHECKING:
    from shardfix.edits.pen import Splice
    from shardfix.reporters.base import Stream

__all__ = ["check_terminal", "review"]

HELP = """\
y  accept this repair
n  decline it
a  accept it and all further ones of this codemod that are as safe
s  decline it, and suppress the finding with a comment
e  explain the codemod
q  decline this and all that follow, and write what was accepted
"""


def check_terminal() -> None:
    """See that there is someone to ask.

    Raises:
        UsageProblem: there is not.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageProblem("--interactive needs a terminal; in a pipe use --diff, or --write with --select")


@dataclass
class _Decisions:
    """What was decided on one file."""

    outcome: FileOutcome
    accepted: set[ReportedFinding] = field(default_factory=set)
    suppressed: list[ReportedFinding] = field(default_factory=list)


def review(request: Request, out: Stream, err: Stream) -> ExitCode:
    """Ask for each repair, then write.

    Raises:
        UsageProblem: a path does not exist, or a configuration file is wrong.
    """
    found = discover(request)
    outcomes = [one for one in run(found, request.configurations.settings_for) if one.findings or one.failures]
    questions = [(outcome, finding) for outcome in outcomes for finding in outcome.findings if finding.changes]
    interview = _Interview(out, len(questions))
    decisions = interview.hold(questions)
    worker = Worker(tuple(one.path for one in found if one.problem is None))
    ended = [_carry_out(decisions.get(one.path, _Decisions(one)), request, worker) for one in outcomes]
    for outcome in ended:
        for failure in outcome.failures:
            err.line(f"{outcome.path}: error: {failure}")
    written = sum(outcome.outcome is Outcome.FIXED for outcome in ended)
    left = sum(not finding.fixed for outcome in ended for finding in outcome.findings)
    tally = interview.tally
    parts = [f"{tally[word]} {word}" for word in ("accepted", "suppressed", "declined") if tally[word]]
    err.line("; ".join([*parts, f"{counted(written, 'file')} written", f"{counted(left, 'finding')} left"]) + ".")
    if any(outcome.failures for outcome in ended):
        return ExitCode.TROUBLE
    return ExitCode.FINDINGS if left else ExitCode.CLEAN


@dataclass
class _Interview:
    """Questions and answers."""

    out: Stream
    total: int
    tally: Counter[str] = field(default_factory=Counter)
    for_all: set[tuple[str, Safety]] = field(default_factory=set)
    """Codemods and safeties that are accepted unasked."""

    def hold(self, questions: Sequence[tuple[FileOutcome, ReportedFinding]]) -> dict[str, _Decisions]:
        """The decisions, by file."""
        decisions: dict[str, _Decisions] = {}
        known: dict[tuple[str, tuple[Splice, ...]], str] = {}
        stopped = False
        for number, (outcome, finding) in enumerate(questions, 1):
            here = decisions.setdefault(outcome.path, _Decisions(outcome))
            repair = (outcome.path, finding.changes)
            answer = known.get(repair) or ("n" if stopped else self._answer(number, outcome, finding))
            stopped = stopped or answer == "q"
            known[repair] = answer
            if answer in "ya":
                here.accepted.add(finding)
            elif answer == "s":
                here.suppressed.append(finding)
            self.tally[{"y": "accepted", "a": "accepted", "s": "suppressed"}.get(answer, "declined")] += 1
        return decisions

    def _answer(self, number: int, outcome: FileOutcome, finding: ReportedFinding) -> str:
        kind = (finding.codemod, finding.safety)
        if kind in self.for_all:
            return "y"
        code = document(outcome.path, outcome.before)
        after = code.with_text(spliced(code.text, finding.changes))
        self.out.line("")
        self.out.line(finding_line(outcome.path, finding, self.out))
        if finding.fix:
            self.out.line(f"    {self.out.paint('repair:', Style.DIM)} {finding.fix}")
        write_patch(outcome.path, outcome.before, after, self.out)
        while True:
            answer = self._read(f"({number}/{self.total}) Apply this repair [y,n,a,s,e,q,?]? ")
            if answer == "a":
                self.for_all.add(kind)
            if answer and answer in "ynasq":
                return answer
            if answer == "e":
                write_manual_page(all_codemods()[finding.codemod], self.out)
            else:
                self.out.line(HELP.rstrip())

    def _read(self, prompt: str) -> str:
        """The first letter of the answer; q at the end of the input."""
        self.out.raw(self.out.paint(prompt, Style.BOLD).encode())
        self.out.file.flush()
        line = sys.stdin.readline()
        return line.strip().lower()[:1] if line else "q"


def _carry_out(decisions: _Decisions, request: Request, worker: Worker) -> FileOutcome:
    """Write what was decided on one file; what is left in it."""
    outcome = decisions.outcome
    if outcome.outcome is Outcome.FAILED:
        return outcome
    try:
        data = _with_suppressions(outcome, decisions.suppressed)
    except files.FileProblem as problem:
        return FileOutcome.failed(outcome.path, problem.reason, problem.line)
    accepted = frozenset(one.key for one in decisions.accepted)
    settings = request.configurations.settings_for(outcome.path)
    again = worker.analyse(Task(outcome.path, data, settings, accepted))
    after = data if again.after is None else again.after
    return write(replace(again, before=outcome.before, after=None if after == outcome.before else after))


def _with_suppressions(outcome: FileOutcome, findings: Sequence[ReportedFinding]) -> bytes:
    if not findings:
        return outcome.before
    code = document(outcome.path, outcome.before)
    return code.with_text(with_ignores(code.text, findings))
