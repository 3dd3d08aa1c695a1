"""Run a command, repair what JAX rejects in it, and run it again: until it passes, or only its author can go on.

Without leave to write, all this happens in a copy of the current folder, and what comes out is a patch.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from shardfix import files
from shardfix.outcomes import ExitCode
from shardfix.repair import Change, Diagnosis, LineMap, diagnose
from shardfix.reporters import diagnosis as report
from shardfix.reporters.patches import painted
from shardfix.settings import UsageProblem

if TYPE_CHECKING:
    from shardfix.reporters.base import Stream
    from shardfix.settings import Settings

__all__ = ["Command", "rerun"]

MAX_REPAIRS = 10
DEVICES = "--xla_force_host_platform_device_count"
THREADS = "32"
KEPT_OUTPUT = 16_000_000
"""Bytes of the end of a command's output that are searched for errors."""
GRACE = 5.0
"""Seconds that a command is given to end once it has been told to."""
TIMED_OUT = 124
"""As the exit code of timeout(1)."""
LARGE_FILE, LARGE_FOLDER, MANY_FILES = 50_000_000, 2_000_000_000, 50_000


@dataclass(frozen=True)
class Command:
    """What is run."""

    line: str
    """For the shell."""
    time_limit: float | None = None
    """Seconds that each run may take."""


@dataclass(frozen=True)
class _Ended:
    """How a run ended."""

    code: int
    output: str
    timed_out: bool = False


def rerun(command: Command, settings: Settings, out: Stream, err: Stream, *, write: bool) -> int:
    """Run ``command`` until it passes, repairing what is certain; the exit code.

    That of the command, as it ended last; 1 where it passes only with repairs that were not written.

    Raises:
        UsageProblem: the folder is too large to be copied.
    """
    here = Path.cwd()
    with _workplace(here, write) as folder:
        loop = _Loop(command, settings, err, here, folder)
        with contextlib.chdir(folder):
            code = loop.until_it_passes()
        for change in loop.changes:
            out.raw(painted(change.diff, out))
        out.file.flush()
    if loop.changes and not write:
        err.line("Nothing was written: this was a copy. --write repairs the files, or apply the patch.")
        return code or ExitCode.FINDINGS
    return code


@dataclass
class _Loop:
    """The runs of one command and the repairs between them."""

    command: Command
    settings: Settings
    err: Stream
    home: Path
    folder: Path
    made: list[tuple[Change, ...]] = field(default_factory=list)
    """The changes of each repair so far."""

    def until_it_passes(self) -> int:
        """Run and repair; the exit code of the last run."""
        before: Diagnosis | None = None
        while True:
            try:
                ended = self._run()
            except BaseException:
                # Whether the last repair helps is not known, and will not be.
                self._undo()
                raise
            if ended.code == 0:
                self._say(f"It passes{self._after_repairs()}.")
                return 0
            failure = self._failure(ended)
            if ended.timed_out:
                self._say(f"The command was ended after {self.command.time_limit:g} seconds.")
                if failure is None:
                    return ended.code  # and if there was an error before, it is gone
            # An error may have been there before the end: one worker that fails leaves the others waiting.
            if before is not None and (reason := self._is_worse(before, failure)):
                self._undo()
                self._say(f"{reason}: this repair is taken back.")
                self._explain(failure if failure is not None else before)
                return ended.code
            if failure is None:
                self._say(f"The command ended with exit code {ended.code}, and no error that can be read.")
                return ended.code
            if failure.certain is None or len(self.made) == MAX_REPAIRS:
                if failure.certain is not None:
                    self._say(f"It still fails after {MAX_REPAIRS} repairs.")
                self._explain(failure)
                if failure.item.error.type == "EOFError":
                    self._say("The command is given standard input only from a file (< FILE).")
                return ended.code
            self._repair(failure)
            before = failure

    @property
    def changes(self) -> list[Change]:
        """Each changed file, as it was first and as it is now."""
        first: dict[str, bytes] = {}
        last: dict[str, bytes] = {}
        for change in (change for changes in self.made for change in changes):
            first.setdefault(change.path, change.before)
            last[change.path] = change.after
        return [Change(path, first[path], last[path]) for path in first if first[path] != last[path]]

    # One round

    def _run(self) -> _Ended:
        line = _moved(self.command.line, self.home, self.folder)
        return _run(line, self.command.time_limit, _environment(self.home, self.folder), self.err)

    def _failure(self, ended: _Ended) -> Diagnosis | None:
        """The error that ended the run: the first that can be repaired, else the last."""
        found = [one for one in diagnose(ended.output, self.settings) if not one.item.is_warning]
        return next((one for one in found if one.certain), found[-1] if found else None)

    def _repair(self, failure: Diagnosis) -> None:
        repair = failure.certain
        assert repair is not None
        known = failure.item.known
        for sentence in failure.sentences:
            self._say(f"{self.err.paint(known.name if known else '', report.KIND_STYLE)}: {sentence}")
        self._say(f"repaired: {repair.title} [{', '.join(repair.codemods)}]")
        self.err.raw(painted(repair.diff, self.err))
        done: list[Change] = []
        for change in repair.changes:
            try:
                files.replace(change.path, change.before, change.after)
            except files.FileProblem as problem:
                for one in done:
                    files.replace(one.path, one.after, one.before)
                raise UsageProblem(f"{change.path}: {problem.reason}") from None
            done.append(change)
        self.made.append(tuple(done))

    def _undo(self) -> None:
        """Take the last repair back."""
        if not self.made:
            return
        for change in self.made.pop():
            try:
                files.replace(change.path, change.after, change.before)
            except files.FileProblem as problem:
                self._say(f"{change.path} could not be restored: {problem.reason}")

    def _is_worse(self, before: Diagnosis, after: Diagnosis | None) -> str:
        """Why the program is no better than before the last repair; empty where it has come further."""
        if after is None:
            return "The program now ends without an error that can be read"
        if after.item.error.type in ("SyntaxError", "IndentationError", "TabError"):
            return "The program cannot be parsed any more"
        old_lines = _old_lines(self.made[-1])
        then, now = _stack(before), _stack(after)
        for (old_path, old_line), (path, line) in zip(then, now, strict=False):
            if old_path != path:
                break
            was = old_lines.get(path, lambda number: number)(line)
            if was != old_line:
                return "The program fails earlier than before" if was < old_line else ""
        if _what(before) == _what(after) and len(then) == len(now):
            return "The program fails as before"
        return ""

    # Words

    def _after_repairs(self) -> str:
        count = len(self.made)
        return f" after {count} repair{'' if count == 1 else 's'}" if count else ""

    def _explain(self, failure: Diagnosis) -> None:
        report.show(failure, None, self.err)

    def _say(self, sentence: str) -> None:
        self.err.line(f"shardfix: {sentence}")
        self.err.file.flush()


def _stack(diagnosis: Diagnosis) -> list[tuple[str, int]]:
    """The lines of the user's code in the failing call, outermost first, by the files of this machine."""
    places = reversed(diagnosis.places)
    return [(place.candidates[0] if place.candidates else place.frame.path, place.frame.line) for place in places]


def _what(diagnosis: Diagnosis) -> tuple[object, ...]:
    """What failed, whatever the line."""
    evidence = diagnosis.item.evidence
    facts = [{name: value for name, value in one.known.items() if name not in ("path", "line")} for one in evidence]
    return (diagnosis.item.error.type, facts if evidence else diagnosis.item.error.message)


def _old_lines(changes: Sequence[Change]) -> Mapping[str, LineMap]:
    """From the lines of changed files to those that they had."""
    return {change.path: LineMap(change.after, change.before) for change in changes}


# Running


def _moved(text: str, home: Path, folder: Path) -> str:
    """``text`` with the paths that lie in the home folder taken to the copy."""
    if home in (folder, Path(home.anchor)):
        return text
    return re.sub(rf"(?<![\w.-]){re.escape(str(home))}(?![\w.-])", lambda _: str(folder), text)


def _environment(home: Path, folder: Path) -> dict[str, str]:
    """What the command finds: eight CPU devices, unless the environment says otherwise."""
    environment = dict(os.environ)
    flags = environment.get("XLA_FLAGS", "")
    if DEVICES not in flags and "JAX_PLATFORMS" not in environment:
        environment["XLA_FLAGS"] = f"{flags} {DEVICES}=8".strip()
    if "JAX_PLATFORM_NAME" not in environment:
        environment.setdefault("JAX_PLATFORMS", "cpu")
    # XLA makes its CPU threads by this number, else by that of the cores; where these are few, steps that are under way
    # together wait for each other's devices for ever.
    environment.setdefault("NPROC", THREADS)
    # Two edits within the same second could leave the bytecode of the first behind.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if folder != home:
        # Packages that are installed to be edited in the home folder must come from the copy.
        paths = [str(folder), *([str(folder / "src")] if (folder / "src").is_dir() else [])]
        if inherited := environment.get("PYTHONPATH"):
            paths.append(_moved(inherited, home, folder))
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment


def _run(line: str, time_limit: float | None, environment: Mapping[str, str], err: Stream) -> _Ended:
    """Run a command line; all that it prints is passed on to ``err`` as it comes."""
    started = time.monotonic()
    with subprocess.Popen(
        line,
        shell=True,
        env=environment,
        stdin=_rewound_input(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    ) as process:
        output = bytearray()
        try:
            for data in _chunks(process, started + time_limit if time_limit is not None else None):
                err.raw(data)
                err.file.flush()
                output += data
                del output[:-KEPT_OUTPUT]
        except TimeoutError:
            _end(process, signal.SIGTERM)
            return _Ended(TIMED_OUT, output.decode(errors="replace"), timed_out=True)
        except BaseException as stop:
            _end(process, signal.SIGINT if isinstance(stop, KeyboardInterrupt) else signal.SIGTERM)
            raise
        code = process.wait()
    return _Ended(128 - code if code < 0 else code, output.decode(errors="replace"))


def _rewound_input() -> int:
    """What the command reads: from its start at each run if that is a file, else nothing, since it could be read but once."""
    try:
        descriptor = sys.stdin.fileno()
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.lseek(descriptor, 0, os.SEEK_SET)
            return descriptor
    except (OSError, ValueError, AttributeError):
        pass  # there is none, or it has been closed
    return subprocess.DEVNULL


def _chunks(process: subprocess.Popen[bytes], deadline: float | None) -> Iterator[bytes]:
    """What the process prints, until it ends.

    Raises:
        TimeoutError: the deadline has come.
    """
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError
            if selector.select(0.2):
                data = os.read(process.stdout.fileno(), 65536)
                if not data:
                    return
                yield data
            elif process.poll() is not None:
                return  # what it left running in the background may hold the pipe open for ever


def _end(process: subprocess.Popen[bytes], first: signal.Signals) -> None:
    """End a command with all that it has started, the gentle way first."""
    for number in (first, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
            return


# The copy


@contextlib.contextmanager
def _workplace(home: Path, write: bool) -> Iterator[Path]:
    """The folder to work in: the home folder, or a copy of it for as long as it is needed."""
    if write:
        yield home
        return
    with tempfile.TemporaryDirectory(prefix="shardfix-run-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch).resolve() / (home.name or "root")
        folder.mkdir()
        _copy(home, folder)
        yield folder


def _copy(home: Path, folder: Path) -> None:
    """Copy a project. What others wrote (environments, histories) and large data are linked to, not copied.

    Raises:
        UsageProblem: there is too much of it.
    """
    size = count = 0
    for place, names, contents in os.walk(home):
        here = folder / Path(place).relative_to(home)
        for name in list(names):
            source = Path(place, name)
            if (
                source.is_symlink()
                or name in files.SKIPPED_FOLDERS - {"__pycache__"}
                or (source / "pyvenv.cfg").exists()
            ):
                (here / name).symlink_to(source.resolve())
                names.remove(name)
            elif name == "__pycache__":
                names.remove(name)
            else:
                (here / name).mkdir()
        for name in contents:
            source = Path(place, name)
            try:
                status = source.lstat()
                if source.is_symlink() or status.st_size > LARGE_FILE:
                    (here / name).symlink_to(source.resolve())
                elif source.is_file():
                    shutil.copy2(source, here / name)
                    size += status.st_size
            except OSError:
                continue  # what cannot be read cannot be needed to run
            count += 1
        if size > LARGE_FOLDER or count > MANY_FILES:
            raise UsageProblem("this folder is too large to be copied: run in a smaller one, or with --write")
