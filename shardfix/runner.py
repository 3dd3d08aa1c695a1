"""Many files: one outcome each, whatever happens, in the order given.

Small work is done in this process. Large work goes in batches to a pool; when a worker dies or hangs, the batch at hand
is done again file by file, each in a process of its own, so that only the file at fault is lost.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from shardfix import files
from shardfix.cache import NOTHING, Cache
from shardfix.codemod import Codemod, all_codemods
from shardfix.documents import document, is_notebook, searched, syntax_problem
from shardfix.outcomes import FileOutcome, FindingKey, Outcome
from shardfix.prefilter import Prefilter
from shardfix.semantics.project import Dependencies, Project
from shardfix.target import NEWEST_JAX, declared_jax
from shardfix.timing import Timing

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess

    from shardfix.files import Found
    from shardfix.settings import Settings

__all__ = ["Task", "Watch", "Worker", "run"]

SMALL_WORK = 400_000
"""Bytes that are done in this process: to start a pool costs as much time as they do."""
T = TypeVar("T")

BATCH = 100_000
"""Bytes that go to a worker at once."""
BATCH_SECONDS = 600.0
TICK = 0.2
"""Seconds after which who waits for a batch is told that it is not done."""
FILE_SECONDS = 120.0
"""How long a file may take once its batch has failed."""
MOST_PARSED = 12_000_000
"""Characters of parsed modules that a worker keeps; each takes up to a hundred bytes."""
MAX_WORKERS = 61
"""More is an error on Windows."""


Watch = Callable[[str, int, int | None], None]
"""Is told of the file that the work is at, how many files are done, and of how many (None: not known yet)."""


def _unwatched(path: str, done: int, total: int | None) -> None:
    pass


@dataclass(frozen=True)
class Task:
    """A file to analyse."""

    path: str
    data: bytes
    settings: Settings
    """What to find in it and what to fix."""
    accepted: frozenset[FindingKey] | None = None
    """The findings whose repairs are accepted, whatever the settings say of them; None for those that the settings allow."""


@dataclass(frozen=True)
class Examined:
    """What came of a task, and what that depends on."""

    outcome: FileOutcome
    dependencies: Dependencies | None
    """None where it is not asked for, or hangs on more than files: a time limit, a process that died."""
    timing: Timing | None = None


@dataclass(frozen=True)
class Worker:
    """Analyses one file after another; what it has read of their project it keeps.

    Args:
        paths: all files of the run, for codemods that look for the users of a function.
        noting: whether it is to say what an outcome depends on.
        sources: the text of all files that there are, by path; None where they are on disk.
    """

    paths: tuple[str, ...] = ()
    noting: bool = False
    sources: Mapping[str, str] | None = None

    def team(self, settings: Settings) -> _Team:
        """The codemods that the settings choose."""
        known = self._teams.get(settings.codemods)
        if known is None:
            available = all_codemods()
            names = available if settings.codemods is None else settings.codemods
            codemods = tuple(available[name] for name in names)
            known = self._teams[settings.codemods] = _Team(codemods, Prefilter(codemods))
        return known

    @cached_property
    def _teams(self) -> dict[tuple[str, ...] | None, _Team]:
        return {}

    @cached_property
    def timing(self) -> Timing:
        """What the file at hand takes."""
        return Timing()

    @cached_property
    def project(self) -> Project:
        if self.sources is None:
            return Project(self.paths)
        return Project(self.paths, read=lambda _: None, sources=self.sources)

    def examine(self, task: Task) -> Examined:
        """What :meth:`analyse` says, and what that depends on."""
        if self.project.parsed > MOST_PARSED:
            # Modules hold on to each other; what is not asked for any more goes with the project.
            del self.__dict__["project"]
            gc.collect()
        self.project.begin()
        self.__dict__.pop("timing", None)
        with self.timing.stage("other analysis", len(task.data)):
            outcome = self.analyse(task)
        return Examined(outcome, self.project.dependencies() if self.noting else None, self.timing)

    def analyse(self, task: Task) -> FileOutcome:
        """What is wrong with the file, and how it reads when repaired. Never raises."""
        path = task.path
        try:
            return self._analyse(task)
        except files.FileProblem as problem:
            return FileOutcome.failed(path, problem.reason, problem.line)
        except SyntaxError as error:
            return FileOutcome.failed(path, syntax_problem(error), error.lineno)
        except RecursionError:
            return FileOutcome.failed(path, "cannot be analysed: an expression or block is nested too deeply")
        except MemoryError:
            return FileOutcome.failed(path, "cannot be analysed: it is too large or nested too deeply")
        except ValueError as error:
            return FileOutcome.failed(path, f"cannot be parsed: {error}")
        except Exception as error:
            from shardfix.fixer import describe

            return FileOutcome.failed(path, f"cannot be analysed, for a fault of shardfix: {describe(error)}")

    def _analyse(self, task: Task) -> FileOutcome:
        code = document(task.path, task.data)
        settings = task.settings
        team = self.team(settings)
        if not team.prefilter.passes(searched(task.path, task.data)):
            code.check()
            return FileOutcome(task.path, Outcome.CLEAN)
        if is_notebook(task.path):
            code.check()  # the cells together may be Python though one of them is not
        from shardfix.fixer import fix

        target = settings.target_jax or declared_jax(os.path.dirname(os.path.abspath(task.path))) or NEWEST_JAX
        settings = replace(settings, target_jax=target)
        result = fix(code.text, task.path, settings, self.project, team.codemods, task.accepted, timing=self.timing)
        return FileOutcome(
            task.path,
            Outcome.FIXABLE if result.findings else Outcome.CLEAN,
            code.located(result.findings),
            result.failures,
            before=task.data,
            after=code.with_text(result.source) if result.source != code.text else None,
            target_jax=target,
        )


@dataclass(frozen=True)
class _Team:
    """Codemods that run together."""

    codemods: tuple[type[Codemod], ...]
    prefilter: Prefilter


def run(
    found: Iterable[Found],
    settings_for: Callable[[str], Settings],
    workers: int | None = None,
    *,
    use_cache: bool = False,
    around: Iterable[str] = (),
    executor: Executor | None = None,
    timing: Timing | None = None,
    watch: Watch = _unwatched,
) -> Iterator[FileOutcome]:
    """The outcomes of the files, in their order.

    Args:
        found: the files. One that the user named is parsed in any case; one that was found in a folder only if the
            prefilter of the codemods lets it pass.
        settings_for: what to find and what to fix in the file of that path.
        workers: how many processes to use at most; None for one a processor.
        use_cache: whether to take what earlier runs found where nothing has changed since, and to keep what this one does.
        around: files that belong to the same code, and are searched for users of what is changed; ``found`` always are.
        executor: where to do the work instead; it is sent contents, not paths.
        timing: told what each stage takes, in whatever process.
        watch: told of the file that the work is at, how many are done, and of how many, once that is known.
    """
    timing = timing or Timing()
    with timing.stage("discover and read"):
        read = [_read(one, watch) for one in found]
    contents = {one.path: one.data for one in read if isinstance(one, _Read)}
    paths = tuple(dict.fromkeys((*contents, *around)))
    cache = Cache(contents, paths) if use_cache else None
    worker = Worker(paths, noting=use_cache)
    first_look: list[Task | FileOutcome] = []
    for one in read:
        watch(one.path, 0, None)
        with timing.stage("prefilter and cache", len(one.data) if isinstance(one, _Read) else 0):
            first_look.append(_first_look(one, worker, settings_for, cache) if isinstance(one, _Read) else one)
    tasks = [look for look in first_look if isinstance(look, Task)]
    workers = min(workers or _processors(), MAX_WORKERS)
    small = workers == 1 or sum(len(task.data) for task in tasks) < SMALL_WORK
    examined: Iterator[Examined | None]
    if executor is not None:
        from shardfix.remote import on_executor

        examined = on_executor(executor, tasks, contents, paths)
    else:
        examined = _in_this_process(tasks, worker) if small else _in_pool(tasks, worker, workers)
    for number, look in enumerate(first_look):
        if isinstance(look, FileOutcome):
            yield look
            continue
        done = _awaited(examined, functools.partial(watch, look.path, number, len(first_look)))
        if done.timing is not None:
            timing.add(done.timing)
        if cache is not None and done.dependencies is not None:
            cache.remember(done.outcome, look.data, look.settings, done.dependencies)
        yield done.outcome
    if cache is not None:
        cache.save()


@dataclass(frozen=True)
class _Read:
    """A file that could be read."""

    path: str
    data: bytes
    named: bool


def _awaited(examined: Iterator[Examined | None], tick: Callable[[], None]) -> Examined:
    """The next that is there; until then ``tick`` is called now and then."""
    tick()
    while (done := next(examined)) is None:
        tick()
    return done


def _read(one: Found, watch: Watch) -> _Read | FileOutcome:
    watch(one.path, 0, None)
    if one.problem is not None:
        return FileOutcome.failed(one.path, one.problem)
    try:
        return _Read(one.path, files.read(one.path), one.named)
    except files.FileProblem as problem:
        return FileOutcome.failed(one.path, problem.reason)


def _first_look(
    one: _Read, worker: Worker, settings_for: Callable[[str], Settings], cache: Cache | None
) -> Task | FileOutcome:
    settings = settings_for(one.path)
    if settings.target_jax is None:
        target = declared_jax(os.path.dirname(os.path.abspath(one.path))) or NEWEST_JAX
        settings = replace(settings, target_jax=target)
    if cache is not None and (known := cache.outcome(one.path, one.data, settings)) is not None:
        return known
    if one.named or worker.team(settings).prefilter.passes(searched(one.path, one.data)):
        return Task(one.path, one.data, settings)
    clean = FileOutcome(one.path, Outcome.CLEAN, before=one.data)
    if cache is not None:
        cache.remember(clean, one.data, settings, NOTHING)
    return clean


def _in_this_process(tasks: Iterable[Task], worker: Worker) -> Iterator[Examined]:
    collecting = gc.isenabled()
    gc.disable()  # a parsed module is garbage in one piece, or not at all
    try:
        yield from map(worker.examine, tasks)
    finally:
        if collecting:
            gc.enable()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# The pool


def _in_pool(tasks: Sequence[Task], worker: Worker, workers: int) -> Iterator[Examined | None]:
    """What came of the tasks; None each time that there is nothing yet."""
    batches = list(_batches(tasks))
    finished = _as_finished([[tasks[place] for place in batch] for batch in batches], worker, workers)
    done: dict[int, Examined] = {}
    for place in range(len(tasks)):
        while place not in done:
            number, examined = next(finished)
            if examined is None:
                yield None
            else:
                done.update(zip(batches[number], examined, strict=True))
        yield done.pop(place)


def _as_finished(
    batches: Sequence[list[Task]], worker: Worker, workers: int
) -> Iterator[tuple[int, list[Examined] | None]]:
    waiting = dict(enumerate(batches))
    while waiting:
        for number, outcomes in _until_broken(waiting, worker, workers):
            if outcomes is not None:
                del waiting[number]
            yield number, outcomes
        if waiting:
            # The pool broke. The fault may lie in a batch that ran beside the first of those left; then it breaks again.
            number = min(waiting)
            yield number, [_alone(task, worker) for task in waiting.pop(number)]


def _batches(tasks: Sequence[Task]) -> Iterator[list[int]]:
    """The places of the tasks that go to a worker together: large files first and alone, so that none is waited for at
    the end; neighbours together, for they import the same."""
    large = [place for place, task in enumerate(tasks) if len(task.data) >= BATCH]
    for place in sorted(large, key=lambda place: -len(tasks[place].data)):
        yield [place]
    small = [place for place, task in enumerate(tasks) if len(task.data) < BATCH]
    yield from batched(small, lambda place: len(tasks[place].data), BATCH)


def batched(items: Iterable[T], size: Callable[[T], int], least: int) -> Iterator[list[T]]:
    """The items in their order, as many together as it takes for their sizes to reach ``least``."""
    batch: list[T] = []
    total = 0
    for item in items:
        batch.append(item)
        total += size(item)
        if total >= least:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def _until_broken(
    batches: Mapping[int, list[Task]], worker: Worker, workers: int
) -> Iterator[tuple[int, list[Examined] | None]]:
    """What a pool makes of the batches before one of its workers dies or hangs; None each time that a batch is not done yet."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool

    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(min(workers, len(batches)), _context(), _start_worker, (worker,))
    futures: dict[int, Future[list[Examined]]] = {}
    try:
        with contextlib.suppress(BrokenProcessPool):  # a worker may die before the last batch is handed over
            for number, batch in batches.items():
                futures[number] = pool.submit(_analyse_batch, batch)
        for number in tuple(futures):
            deadline = time.monotonic() + BATCH_SECONDS
            while not wait([futures[number]], TICK).done and time.monotonic() < deadline:
                yield number, None
            try:
                outcomes = futures[number].result(0)
            except (BrokenProcessPool, TimeoutError):
                break
            yield number, outcomes
            del futures[number]
        for number, future in futures.items():
            if future.done() and future.exception() is None:
                yield number, future.result()
    finally:
        if futures:  # something went wrong: a worker that hangs, or that no one waits for after Ctrl-C, ends here
            for process in set(multiprocessing.active_children()) - others:
                process.kill()
        pool.shutdown(cancel_futures=True)


def _context() -> BaseContext:
    """Fork where that is safe, which is in a process of one thread; else a fresh interpreter."""
    import multiprocessing

    try:
        alone = len(os.listdir("/proc/self/task")) == 1
    except OSError:
        alone = False
    return multiprocessing.get_context("fork" if alone else "spawn")


_worker: Worker
"""In a process of the pool: what it works with."""


def _start_worker(worker: Worker) -> None:
    global _worker
    _worker = worker
    gc.disable()  # a parsed module is garbage in one piece, or not at all
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _analyse_batch(batch: list[Task]) -> list[Examined]:
    return [_worker.examine(task) for task in batch]


def _alone(task: Task, worker: Worker) -> Examined:
    """The outcome of one file, analysed in a process of its own."""
    context = _context()
    receiver, sender = context.Pipe(duplex=False)
    process: BaseProcess = context.Process(target=_analyse_into, args=(sender, task, worker), daemon=True)  # type: ignore[attr-defined]
    process.start()
    sender.close()
    try:
        if receiver.poll(FILE_SECONDS):
            examined: Examined = receiver.recv()
            return examined
        failure = f"given up after {FILE_SECONDS:.0f} seconds"
        return Examined(FileOutcome.failed(task.path, failure), None)
    except EOFError:
        process.join()
        failure = f"its analysis died ({_exit_reason(process.exitcode)})"
        return Examined(FileOutcome.failed(task.path, failure), None)
    finally:
        process.kill()
        process.join()
        receiver.close()


def _analyse_into(sender: Connection, task: Task, worker: Worker) -> None:
    _start_worker(worker)
    sender.send(worker.examine(task))
    sender.close()


def _exit_reason(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            pass
    return f"exit code {code}"
