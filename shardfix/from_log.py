"""A run from a log to exit code: read the errors, explain them, show what mends them, write what is certain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from shardfix import files
from shardfix.codemod import broken_codemods
from shardfix.outcomes import ExitCode
from shardfix.repair import Diagnosis, diagnose

if TYPE_CHECKING:
    from shardfix.application import Request
    from shardfix.reporters.base import Stream

__all__ = ["execute_on_log", "write_certain"]


def execute_on_log(
    text: str, request: Request, out: Stream, err: Stream, *, as_json: bool = False, choice: int | None = None
) -> ExitCode:
    """Explain the errors in ``text`` and repair what is certain, as the request's mode says.

    ``request.paths`` are where the files that the log names are looked for; ``choice`` is the number of the repair to
    make where only the author can choose.
    """
    from shardfix.application import Mode
    from shardfix.reporters import diagnosis as report

    write = request.mode is Mode.WRITE
    problems: list[str] = []
    found = diagnose(text, request.settings, request.paths, choice)
    if write:
        found = _written(found, problems.append)
    seen: list[Diagnosis] = []
    for diagnosis in found:
        seen.append(diagnosis)
        if not as_json:
            report.show(diagnosis, out, err)
    if as_json:
        report.write_json(seen, out, wrote=write)
    for problem in problems:
        err.line(f"shardfix: {problem}")
    if not seen:
        err.line("No error was found in the text.")
    broken = broken_codemods()
    for name, reason in broken.items():
        err.line(f"shardfix: the codemod {name} cannot be imported: {reason}")
    return ExitCode.TROUBLE if problems or broken else _exit_code(seen, write=write)


def _written(diagnoses: Iterable[Diagnosis], complain: Callable[[str], None]) -> Iterator[Diagnosis]:
    """The diagnoses, their certain repairs written. What could not be written is not settled."""
    for diagnosis in diagnoses:
        trouble = write_certain(diagnosis)
        if trouble:
            complain(trouble)
            diagnosis = replace(diagnosis, undecided=True)
        yield diagnosis


def write_certain(diagnosis: Diagnosis) -> str:
    """Write the certain repair, if there is one; a sentence where that fails."""
    for change in diagnosis.certain.changes if diagnosis.certain else ():
        try:
            files.replace(change.path, change.before, change.after)
        except files.FileProblem as problem:
            return f"{change.path}: {problem.reason}"
    return ""


def _exit_code(diagnoses: Iterable[Diagnosis], *, write: bool) -> ExitCode:
    diagnoses = list(diagnoses)
    if any(diagnosis.item.known is None for diagnosis in diagnoses):
        return ExitCode.TROUBLE
    left = [diagnosis for diagnosis in diagnoses if not (write and diagnosis.is_settled)]
    return ExitCode.FINDINGS if left else ExitCode.CLEAN
