"""A run that keeps what it finds back: a comment at each finding, so that only what is new is told from now on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardfix import files
from shardfix.application import Request, discover, write
from shardfix.codemod import all_codemods
from shardfix.documents import document
from shardfix.outcomes import ExitCode, Failure, FileOutcome, Outcome
from shardfix.reporters.patches import write_patch
from shardfix.reporters.text import counted
from shardfix.runner import run
from shardfix.suppressions import with_ignores

if TYPE_CHECKING:
    from shardfix.reporters.base import Stream

__all__ = ["write_ignores"]


def write_ignores(request: Request, out: Stream, err: Stream, *, quiet: bool) -> ExitCode:
    """Show the comments as a patch, and write them.

    Raises:
        UsageProblem: a path does not exist, or a configuration file is wrong.
    """
    found = run(discover(request), request.configurations.settings_for)
    outcomes = [_with_ignores(outcome) for outcome in found if outcome.findings or outcome.failures]
    for outcome in outcomes:
        if outcome.after is not None:
            write_patch(outcome.path, outcome.before, outcome.after, out)
    out.file.flush()
    outcomes = [write(outcome) for outcome in outcomes]
    for outcome in outcomes:
        for failure in outcome.failures:
            err.line(f"{outcome.path}: error: {failure}")
    if not quiet:
        written = [outcome for outcome in outcomes if outcome.outcome is Outcome.FIXED]
        number = sum(len(outcome.findings) for outcome in written)
        err.line(
            f"{counted(number, 'finding')} ignored in {counted(len(written), 'file')}."
            if number
            else "Nothing to ignore."
        )
    return ExitCode.TROUBLE if any(outcome.failures for outcome in outcomes) else ExitCode.CLEAN


def _with_ignores(outcome: FileOutcome) -> FileOutcome:
    """The outcome with a comment at each finding in the place of the repairs."""
    available = all_codemods()
    findings = tuple(one for one in outcome.findings if not available[one.codemod].judges_suppressions)
    if not findings:
        return replace(outcome, findings=(), after=None)
    try:
        code = document(outcome.path, outcome.before)
        after = code.with_text(with_ignores(code.text, findings))
    except files.FileProblem as problem:
        failures = (*outcome.failures, Failure(problem.reason, problem.line))
        return replace(outcome, outcome=Outcome.FAILED, findings=(), failures=failures, after=None)
    return replace(outcome, findings=findings, after=after)
