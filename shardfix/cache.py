"""Results of earlier runs, kept where nothing they depend on has changed.

One file for the files of a folder, in the user's cache folder; it may be deleted at any time, and one that cannot be read
or written is done without. An entry is taken only if all of this is as it was: the text and the path of the file, the
settings, shardfix with its codemods, and every file that the analysis asked for, those that were not there included.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from shardfix import __version__
from shardfix.codemod import all_codemods
from shardfix.outcomes import FileOutcome
from shardfix.semantics.project import Dependencies, digest_of, digest_of_bytes

if TYPE_CHECKING:
    from shardfix.settings import Settings

__all__ = ["NOTHING", "Cache"]

MOST = 50_000
"""Entries of one file; past them, those that the run did not ask for are dropped."""
DIGEST_SIZE = 16
CHANGED = "changed meanwhile"
"""In the place of a digest: one process read another text than the other, and nothing that hangs on it can be kept."""


NOTHING = Dependencies(frozenset(), False, {}, {})


@dataclass(frozen=True)
class _Entry:
    outcome: FileOutcome
    consulted: frozenset[str]
    whole_run: str | None
    """The digest of all files of the run where it depends on them."""


@dataclass(frozen=True)
class _Known:
    """What is kept in a file."""

    entries: dict[str, _Entry] = field(default_factory=dict)
    asked_by: dict[str, frozenset[str]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)


class Cache:
    """The outcomes of earlier runs.

    Args:
        contents: the files of the run.
        paths: all files that the run may search, those and more.
        folder: where it is kept; by default where the system keeps such things for the user.
    """

    def __init__(self, contents: Mapping[str, bytes], paths: Iterable[str], folder: Path | None = None) -> None:
        self._contents = {os.path.abspath(path): data for path, data in contents.items()}
        self._paths = tuple(map(os.path.abspath, paths))
        self._folder = folder
        self._digests: dict[str, str] = {}
        self._unchanged: dict[str, bool] = {}
        self._fresh = _Known()
        self._has_news = False

    @cached_property
    def path(self) -> Path | None:
        """The file that holds the entries; None where there is no place for it."""
        folder = self._folder
        if folder is None:
            from platformdirs import user_cache_path

            try:
                folder = user_cache_path("shardfix", appauthor=False)
            except (OSError, RuntimeError):
                return None
        root = os.path.commonpath([os.path.dirname(path) for path in self._contents]) if self._contents else ""
        return folder / f"{digest_of_bytes(f'{root}:{_program()}'.encode(errors='surrogateescape'))}.pickle"

    def outcome(self, path: str, data: bytes, settings: Settings) -> FileOutcome | None:
        """What came of that file when it was as it is now; None where that is not known."""
        key = self._key(path, data, settings)
        entry = self._earlier.entries.get(key)
        if entry is None or entry.whole_run not in (None, self._whole_run):
            return None
        if entry.consulted or os.path.abspath(path) in self._earlier.asked_by:
            if not all(map(self._is_unchanged, self._around(path, entry.consulted))):
                return None
        self._fresh.entries[key] = entry
        return replace(entry.outcome, before=data)

    def remember(self, outcome: FileOutcome, data: bytes, settings: Settings, dependencies: Dependencies) -> None:
        """Keep what came of a file. What may go another way the next time, a file that failed, is not kept."""
        for path, asked in dependencies.asked_by.items():
            self._fresh.asked_by[path] = asked | self._fresh.asked_by.get(path, frozenset())
        for path, digest in dependencies.digests.items():
            if self._fresh.digests.setdefault(path, digest) != digest:
                self._fresh.digests[path] = CHANGED
        if not outcome.failures:
            key = self._key(outcome.path, data, settings)
            whole_run = self._whole_run if dependencies.whole_run else None
            self._fresh.entries[key] = _Entry(replace(outcome, before=b""), dependencies.consulted, whole_run)
            self._has_news = True

    def save(self) -> None:
        """Write what is new. Of two runs at the same time, the entries of one are kept."""
        if not self._has_news or self.path is None:
            return
        earlier, fresh = self._earlier, self._fresh
        # An entry that this run has not looked at holds only with the digests that it was made with.
        agree = all(fresh.digests.get(path, digest) == digest for path, digest in earlier.digests.items())
        kept = earlier.entries if agree and len(earlier.entries) < MOST else {}
        asked_by = dict(earlier.asked_by)
        for path, asked in fresh.asked_by.items():
            asked_by[path] = asked | asked_by.get(path, frozenset())
        known = _Known({**kept, **fresh.entries}, asked_by, {**earlier.digests, **fresh.digests})
        payload = pickle.dumps(known, protocol=pickle.HIGHEST_PROTOCOL)
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                temporary.write_bytes(_checksum(payload) + payload)
                os.replace(temporary, self.path)
            finally:
                temporary.unlink(missing_ok=True)

    @cached_property
    def _earlier(self) -> _Known:
        if self.path is None:
            return _Known()
        try:
            data = self.path.read_bytes()
            checksum, payload = data[:DIGEST_SIZE], data[DIGEST_SIZE:]
            known = pickle.loads(payload) if checksum == _checksum(payload) else None
        except Exception:  # whatever is wrong with it, it is no more than a cache
            known = None
        return known if isinstance(known, _Known) else _Known()

    def _around(self, path: str, consulted: frozenset[str]) -> set[str]:
        """The paths that the analysis of a file depended on: what was asked for, and what that asked for in its turn."""
        here = os.path.abspath(path)
        found = set[str]()
        waiting = [here, *consulted]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting.extend(self._earlier.asked_by.get(one, ()))
        found.discard(here)
        return found

    def _is_unchanged(self, path: str) -> bool:
        known = self._unchanged.get(path)
        if known is None:
            known = self._unchanged[path] = self._earlier.digests.get(path) == self._digest(path)
        return known

    def _key(self, path: str, data: bytes, settings: Settings) -> str:
        unsafe = settings.unsafe if isinstance(settings.unsafe, bool) else sorted(settings.unsafe)
        said = f"{os.path.abspath(path)}\0{path}\0{settings!r}\0{unsafe}".encode(errors="surrogateescape")
        return digest_of_bytes(hashlib.blake2b(data).digest() + said)

    def _digest(self, path: str) -> str:
        known = self._digests.get(path)
        if known is None:
            data = self._contents.get(path)
            known = self._digests[path] = digest_of(path) if data is None else digest_of_bytes(data)
        return known

    @cached_property
    def _whole_run(self) -> str:
        """The paths and texts of all files of the run."""
        together = hashlib.blake2b(digest_size=DIGEST_SIZE)
        for path in sorted(self._paths):
            together.update(f"{path}\0{self._digest(path)}\0".encode(errors="surrogateescape"))
        return together.hexdigest()


def _checksum(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=DIGEST_SIZE).digest()


def _program() -> str:
    """What tells this shardfix from others: its version, its files and those of the codemods, and the Python it runs on."""
    here = os.path.dirname(os.path.abspath(__file__))
    codemods = {sys.modules[codemod.__module__].__file__ or "" for codemod in all_codemods().values()}
    stamps = sorted(_stamp(path) for path in {*_files_under(here), *codemods})
    return f"{__version__}:{sys.version}:{stamps}"


def _files_under(folder: str) -> Iterable[str]:
    for inside, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (os.path.join(inside, name) for name in names)


def _stamp(path: str) -> tuple[str, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return path, 0, 0
    return path, status.st_mtime_ns, status.st_size
