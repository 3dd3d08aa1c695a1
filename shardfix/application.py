"""A run from paths to exit code: find, analyse, show, write, sum up."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

from shardfix import files
from shardfix.codemod import broken_codemods
from shardfix.outcomes import ExitCode, Failure, FileOutcome, Outcome, exit_code, summarise
from shardfix.reporters.progress import Progress
from shardfix.runner import Task, Worker, run
from shardfix.settings import UsageProblem, did_you_mean
from shardfix.target import NEWEST_JAX, oldest
from shardfix.timing import Timing

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from shardfix.configuration import Configurations
    from shardfix.files import Found
    from shardfix.reporters.base import Reporter
    from shardfix.settings import Settings

__all__ = ["Mode", "Request", "Shard", "discover", "execute", "execute_on_text", "paths_in", "write"]


class Mode(enum.Enum):
    """What is done with the repairs."""

    DIFF = enum.auto()
    """Show them."""
    CHECK = enum.auto()
    """List what is found."""
    WRITE = enum.auto()
    """Show them and write them."""

    @property
    def writes(self) -> bool:
        return self is Mode.WRITE


@dataclass(frozen=True)
class Shard:
    """The ``number``-th of ``count`` parts of the files, for as many runs beside each other."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """``"2/8"``.

        Raises:
            UsageProblem: it says something else, or there is no such part.
        """
        number, _, count = text.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise UsageProblem(f"--shard takes K/N with 1 <= K <= N, as in 2/8, and not '{text}'")
        return cls(int(number), int(count))

    def of(self, found: list[Found]) -> list[Found]:
        """This part: which files are in it hangs on their paths alone, and the parts are about equal."""
        return found[self.number - 1 :: self.count]


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    paths: tuple[str, ...]
    configurations: Configurations
    mode: Mode = Mode.DIFF
    force_exclude: bool = False
    """Whether what the configuration excludes is passed over also where it is named."""
    statistics: bool = False
    """Whether the findings of each codemod are counted at the end."""
    exit_zero: bool = False
    """Whether findings are no reason for another exit code than 0."""
    use_cache: bool = True
    """Whether what earlier runs found is taken where nothing has changed since."""
    shard: Shard | None = None
    """The part of the files that this run is about."""
    stats: bool = False
    """Whether it is told where the time went."""
    dask: str | None = None
    """The address of a Dask scheduler whose workers do the work."""
    patch_file: str | None = None
    """Where the patch is written to, beside what is shown."""

    @property
    def settings(self) -> Settings:
        """The settings that hold in the current folder."""
        return self.configurations.settings_for(os.curdir)


def execute(request: Request, reporter: Reporter) -> ExitCode:
    """Do what is asked.

    All files are analysed before the first is written: what is known of one may come from another.

    Raises:
        UsageProblem: a path does not exist, or a configuration file is wrong.
    """
    everything = discover(request)
    found = everything if request.shard is None else request.shard.of(everything)
    timing = Timing()
    progress = Progress(reporter.err, reporter.out, quiet=reporter.quiet)
    with _executor(request.dask) as executor:
        outcomes = run(
            found,
            request.configurations.settings_for,
            use_cache=request.use_cache,
            around=[one.path for one in everything],
            executor=executor,
            timing=timing,
            watch=progress.at,
        )
        try:
            shown = list(_show(outcomes, reporter, progress))
        finally:
            progress.end()
    if request.patch_file is not None:
        _write_patch(request.patch_file, shown)
    if request.mode is Mode.WRITE:
        shown = list(_write_all(shown, progress))
    code = _sum_up(shown, len(found), request, reporter)
    for line in timing.table() if request.stats else ():
        reporter.err.line(line)
    return code


def execute_on_text(data: bytes, path: str, request: Request, reporter: Reporter) -> ExitCode:
    """Do what is asked with ``data`` in the place of files; :attr:`Mode.WRITE` puts the repaired text on stdout."""
    outcome = Worker().analyse(Task(path, data, request.configurations.settings_for(path)))
    if request.mode is Mode.WRITE:
        reporter.out.raw(data if outcome.after is None else outcome.after)
        if outcome.after is not None:
            outcome = replace(outcome, outcome=Outcome.FIXED)
    else:
        reporter.show(outcome)
    return _sum_up([outcome], 1, request, reporter)


def discover(request: Request) -> list[Found]:
    """The files that the request is about.

    Raises:
        UsageProblem: a path does not exist, or a configuration file is wrong.
    """
    for path in request.paths:
        if not os.path.lexists(path):
            raise UsageProblem(f"no such file or folder: '{path}'{_nearest_path(path)}")
    excluded = request.configurations.excludes
    found = files.discover(request.paths, excluded)
    if not request.force_exclude:
        return list(found)
    return [one for one in found if not (one.named and excluded(os.path.realpath(one.path)))]


def _show(outcomes: Iterable[FileOutcome], reporter: Reporter, progress: Progress) -> Iterator[FileOutcome]:
    """The outcomes that have something to say; each is shown as it comes."""
    for outcome in outcomes:
        if outcome.findings or outcome.failures:
            progress.found(len(outcome.findings))
            with progress.hidden():
                reporter.show(outcome)
            yield outcome


def _write_all(outcomes: list[FileOutcome], progress: Progress) -> Iterator[FileOutcome]:
    try:
        for number, outcome in enumerate(outcomes):
            progress.at(outcome.path, number, len(outcomes))
            yield write(outcome)
    finally:
        progress.end()


def write(outcome: FileOutcome) -> FileOutcome:
    """Write the new content of the file, if there is one; what came of it."""
    if outcome.after is None:
        return outcome
    try:
        files.replace(outcome.path, outcome.before, outcome.after)
    except files.FileProblem as problem:
        findings = tuple(
            replace(finding, fixed=False, reason=finding.reason or problem.reason) if finding.fixed else finding
            for finding in outcome.findings
        )
        failures = (*outcome.failures, Failure(problem.reason))
        return replace(outcome, outcome=Outcome.FAILED, findings=findings, failures=failures)
    return replace(outcome, outcome=Outcome.FIXED)


@contextmanager
def _executor(address: str | None) -> Iterator[Executor | None]:
    if address is None:
        yield None
        return
    try:
        distributed = import_module("distributed")  # which has no types
    except ImportError:
        raise UsageProblem("--dask needs the extra: pip install 'shardfix[dask]'") from None
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise UsageProblem(f"no Dask scheduler at '{address}': {error}") from None
    with client:
        yield client.get_executor(pure=False)


def paths_in(data: bytes) -> tuple[str, ...]:
    """The paths of a list: each ends in a NUL, where there is one (``git ls-files -z``), else in a newline."""
    lines = data.split(b"\0") if b"\0" in data else data.splitlines()
    return tuple(os.fsdecode(line) for line in lines if line.strip())


def _write_patch(path: str, outcomes: Iterable[FileOutcome]) -> None:
    """The repairs of all files as one patch; an empty file where there are none.

    Raises:
        UsageProblem: it cannot be written.
    """
    from shardfix.patch import unified_diff

    patches = (
        unified_diff(outcome.path, outcome.before, outcome.after) for outcome in outcomes if outcome.after is not None
    )
    try:
        with open(path, "wb") as file:
            file.writelines(patches)
    except OSError as error:
        raise UsageProblem(f"cannot write '{path}': {files.FileProblem.of(error).reason}") from None


def _sum_up(outcomes: list[FileOutcome], count: int, request: Request, reporter: Reporter) -> ExitCode:
    broken = broken_codemods()
    for name, reason in broken.items():
        reporter.complain(f"the codemod {name} cannot be imported: {reason}")
    targets = {outcome.target_jax for outcome in outcomes if outcome.target_jax}
    summary = summarise(outcomes, count, oldest(targets) or request.settings.target_jax or NEWEST_JAX)
    reporter.finish(outcomes, summary)
    if request.statistics:
        reporter.count(summary)
    code = ExitCode.TROUBLE if broken else exit_code(summary, write=request.mode is Mode.WRITE)
    return ExitCode.CLEAN if request.exit_zero and code is ExitCode.FINDINGS else code


def _nearest_path(path: str) -> str:
    folder, name = os.path.split(path.rstrip(os.sep))
    try:
        names = os.listdir(folder or os.curdir)
    except OSError:
        return ""
    return did_you_mean(path, [os.path.join(folder, other) for other in names if other[:1] != "." or name[:1] == "."])
