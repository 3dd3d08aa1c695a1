"""Finding, reading and writing files with Python in them, byte for byte.

Nothing here knows what is done with a file. Text is decoded as Python does it (byte-order mark, PEP 263 cookie), with
its newlines as they are; a write replaces the file in one step, so that at any moment it is wholly old or wholly new.
"""

from __future__ import annotations

import codecs
import contextlib
import itertools
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = [
    "NOTEBOOK_SUFFIX",
    "PYTHON_SUFFIXES",
    "FileProblem",
    "Found",
    "Source",
    "decode",
    "discover",
    "encode",
    "read",
    "replace",
]

PYTHON_SUFFIXES = (".py", ".pyi", ".pyw")
NOTEBOOK_SUFFIX = ".ipynb"

SKIPPED_FOLDERS = frozenset(
    """
    .bzr .direnv .eggs .git .git-rewrite .hg .ipynb_checkpoints .jj .mypy_cache .nox .pants.d .pyenv .pytest_cache
    .pytype .ruff_cache .svn .tox .venv .vscode __pycache__ __pypackages__ _build _vendor bazel-bin bazel-out buck-out
    build dist node_modules site-packages third_party vendor vendored venv virtualenv
    """.split()
)
"""Folders that hold what others wrote or what a tool made; looked into only when they are named as a path."""

NEWLINE = re.compile(rb"\r\n|\r|\n")


class FileProblem(Exception):
    """A file cannot be found, read, decoded or written.

    Args:
        reason: what is wrong, as the end of a sentence that begins with the path.
        line: where, counted from 1, if it is known.
    """

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line

    @classmethod
    def of(cls, error: OSError) -> FileProblem:
        text = error.strerror or str(error) or type(error).__name__
        return cls(text[0].lower() + text[1:])


# Finding


@dataclass(frozen=True)
class Found:
    """A file to look at; or, where ``problem`` is set, a path that cannot be."""

    path: str
    problem: str | None = None
    named: bool = False
    """Whether the user named it, rather than a folder that holds it."""


def _nothing(path: str) -> bool:
    return False


def discover(paths: Sequence[str], excluded: Callable[[str], bool] = _nothing) -> Iterator[Found]:
    """The Python files and notebooks at and under ``paths``, in a stable order, each once.

    A file that is named is always taken. Folders are searched without following links to other folders; ``.gitignore``
    files, the folders of :data:`SKIPPED_FOLDERS` and virtual environments are respected, and what ``excluded`` says: it
    is asked for absolute paths, those of folders with a slash at the end.
    """
    seen: set[str] = set()
    for path in paths:
        for found in _walk(path, excluded) if os.path.isdir(path) else (_named(path),):
            real = os.path.realpath(found.path)
            if real not in seen:
                seen.add(real)
                yield found


def _named(path: str) -> Found:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return Found(path, _broken_link(path))
    except OSError as error:
        return Found(path, FileProblem.of(error).reason)
    return Found(path, None if stat.S_ISREG(mode) else "not a regular file", named=True)


def _broken_link(path: str) -> str:
    try:
        return f"broken symbolic link to {os.readlink(path)}"
    except OSError:
        return "no such file"


@dataclass(frozen=True)
class _IgnoreFile:
    """The patterns of one ``.gitignore`` and the folder that they are relative to."""

    folder: str
    patterns: GitIgnoreSpec

    def verdict(self, path: str) -> bool | None:
        """True: ignored; False: taken back by a ``!`` pattern; None: no pattern matches."""
        return self.patterns.check_file(path[len(self.folder.rstrip(os.sep)) + 1 :]).include


def _walk(root: str, excluded: Callable[[str], bool]) -> Iterator[Found]:
    inside = os.path.realpath(root)
    yield from _walk_folder(root, inside, inside, _ignore_files_above(inside), excluded)


def _walk_folder(
    shown: str, folder: str, root: str, ignores: tuple[_IgnoreFile, ...], excluded: Callable[[str], bool]
) -> Iterator[Found]:
    """``shown`` is the folder as the user wrote it, ``folder`` the same with links resolved."""
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        yield Found(shown, FileProblem.of(error).reason)
        return
    names = {entry.name for entry in entries}
    if "pyvenv.cfg" in names and folder != root:
        return
    if ".gitignore" in names and (ignore := _read_ignore_file(folder, ".gitignore")):
        ignores = (ignore, *ignores)
    links = []
    for entry in entries:
        path = _join(shown, entry.name)
        if entry.is_dir(follow_symlinks=False):
            inside = entry.path + "/"
            if entry.name not in SKIPPED_FOLDERS and not _ignored(inside, ignores) and not excluded(inside):
                yield from _walk_folder(path, entry.path, root, ignores, excluded)
            continue
        if not entry.name.endswith((*PYTHON_SUFFIXES, NOTEBOOK_SUFFIX)) or entry.name.startswith(".#"):
            continue
        if _ignored(entry.path, ignores) or excluded(entry.path):
            continue
        if entry.is_symlink():
            links.append((path, entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield Found(path)
    # Links come last: where a folder holds a file and a link to it, the file is reported under its own name.
    for path, real in links:
        if not os.path.exists(real):
            yield Found(path, _broken_link(real))
        elif os.path.isfile(real) and _is_within(os.path.realpath(real), root):
            yield Found(path)


def _join(folder: str, name: str) -> str:
    return name if folder == "." else os.path.join(folder, name)


def _is_within(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def _ignored(path: str, ignores: Iterable[_IgnoreFile]) -> bool:
    """Whether git would ignore ``path`` (folders end in a slash); the nearest ``.gitignore`` that has a say decides."""
    for ignore in ignores:
        verdict = ignore.verdict(path)
        if verdict is not None:
            return verdict
    return False


def _ignore_files_above(folder: str) -> tuple[_IgnoreFile, ...]:
    """The ignore files of the repository around ``folder`` that lie above it, nearest first."""
    found: list[_IgnoreFile | None] = []
    here = folder
    while not os.path.exists(os.path.join(here, ".git")):
        above = os.path.dirname(here)
        if above == here:
            return ()  # not in a repository: what lies above is none of our business
        here = above
        found.append(_read_ignore_file(here, ".gitignore"))
    found.append(_read_ignore_file(here, os.path.join(".git", "info", "exclude")))
    return tuple(ignore for ignore in found if ignore)


def _read_ignore_file(folder: str, name: str) -> _IgnoreFile | None:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().split("\n")
    except OSError:
        return None
    if all(not line.strip() or line.startswith("#") for line in lines):
        return None
    from pathspec import GitIgnoreSpec

    try:
        return _IgnoreFile(folder, GitIgnoreSpec.from_lines(lines))
    except ValueError:  # git passes over patterns that it cannot read; so does this, for want of better the whole file
        return None


# Reading


@dataclass(frozen=True)
class Source:
    """A decoded file. ``text`` has its newlines as they are, and no byte-order mark."""

    data: bytes
    text: str
    encoding: str
    bom: bool


def read(path: str) -> bytes:
    """The content of ``path``.

    Raises:
        FileProblem: it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise FileProblem.of(error) from None


def decode(data: bytes) -> Source:
    """Decode ``data`` as Python does: by its byte-order mark, its coding cookie, or as UTF-8.

    Raises:
        FileProblem: the encoding is unknown, or the bytes are not of that encoding.
    """
    import tokenize

    bom = data.startswith(codecs.BOM_UTF8)
    lines = [line + b"\n" for line in NEWLINE.split(data[:4096], maxsplit=2)[:2]]
    try:
        encoding = tokenize.detect_encoding(iter(lines).__next__)[0]
    except SyntaxError as error:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise FileProblem("UTF-16 text, which Python does not take as source", 1) from None
        if "unknown encoding" in str(error) or "encoding problem" in str(error):
            raise FileProblem(f"cannot be decoded: {error.msg.removesuffix(': <string>')}", 1) from None
        encoding = "utf-8"  # the bytes are at fault; decoding says at which line
    body = data[len(codecs.BOM_UTF8) :] if bom else data
    try:
        return Source(data, body.decode("utf-8" if bom else encoding), "utf-8" if bom else encoding, bom)
    except UnicodeDecodeError as error:
        line = len(NEWLINE.findall(body, 0, error.start)) + 1
        wrong = f"byte 0x{body[error.start]:02x}" if error.start < len(body) else "the end"
        raise FileProblem(f"cannot be decoded as {error.encoding}: {error.reason} ({wrong})", line) from None
    except (LookupError, ValueError, AssertionError) as error:
        raise FileProblem(f"cannot be decoded as {encoding}: {error}", 1) from None


def encode(source: Source, text: str) -> bytes:
    """``text`` in the encoding of ``source``, with its byte-order mark.

    Raises:
        FileProblem: the encoding cannot say it, or would change bytes that were not edited.
    """
    mark = codecs.BOM_UTF8 if source.bom else b""
    try:
        if mark + source.text.encode(source.encoding) != source.data:
            raise FileProblem(f"cannot be written back byte for byte in its encoding, {source.encoding}")
        return mark + text.encode(source.encoding)
    except UnicodeEncodeError as error:
        raise FileProblem(
            f"the repair holds {error.object[error.start]!r}, which {source.encoding} cannot say"
        ) from None


# Writing

_serial = itertools.count()


def replace(path: str, before: bytes, after: bytes) -> None:
    """Replace the content of ``path``, which must still be ``before``, by ``after`` in one step.

    A symbolic link stays one: the file that it leads to is replaced. Mode, owner and extended attributes stay.

    Raises:
        FileProblem: it cannot be written, or holds something else by now; the file is as it was.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".shardfix-{os.getpid()}-{next(_serial)}.tmp")
    try:
        status = os.stat(target)
        if not status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(target, os.W_OK):
            raise FileProblem("not written: the file is read-only")
        if os.path.lexists(temporary):
            raise FileProblem(f"not written: there is a file {temporary} already")
        try:
            _write_synced(temporary, after)
            _copy_attributes(target, temporary, status)
            if read(target) != before:
                raise FileProblem("not written: the file changed since it was read")
            os.replace(temporary, target)
        finally:
            # Also on Ctrl-C: the name is known before the file exists, so that nothing can be left behind.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        _sync_folder(folder)
    except OSError as error:
        raise FileProblem(f"not written: {FileProblem.of(error).reason}") from None


def _write_synced(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _copy_attributes(source: str, path: str, status: os.stat_result) -> None:
    if hasattr(os, "chown"):
        new = os.stat(path)
        if (new.st_uid, new.st_gid) != (status.st_uid, status.st_gid):
            try:
                os.chown(path, status.st_uid, status.st_gid)
            except PermissionError:
                raise FileProblem("not written: its owner or group could not be kept") from None
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):  # a filesystem without them, or attributes that only root may set
            for name in os.listxattr(source):
                os.setxattr(path, name, os.getxattr(source, name))
    os.chmod(path, stat.S_IMODE(status.st_mode))


def _sync_folder(folder: str) -> None:
    if hasattr(os, "O_DIRECTORY"):
        with contextlib.suppress(OSError):  # not every filesystem can; the file itself is safe
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
