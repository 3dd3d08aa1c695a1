"""The modules of a project: found by import name, parsed on demand, once."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

__all__ = ["Dependencies", "Project", "digest_of", "digest_of_bytes"]

NEVER_OF_A_PROJECT = frozenset(
    "jax jaxlib numpy scipy functools typing dataclasses collections os sys math operator itertools inspect abc re flax "
    "optax equinox haiku chex torch tensorflow absl einops orbax".split()
)
"""Top-level packages that are looked at from outside, also where a project happens to hold their source."""

ROOT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git", "requirements.txt")


@dataclass(frozen=True)
class Dependencies:
    """What a result depends on beside its own file, in the words of one project: later ones build on earlier ones."""

    consulted: frozenset[str]
    """Files whose text was asked for. With each, and with the file itself, comes what that has asked for."""
    whole_run: bool
    """Whether it depends on the text of all files of the run."""
    asked_by: Mapping[str, frozenset[str]]
    """What files have asked for: paths that were looked at, whether there is something or not. Those that are new or more."""
    digests: Mapping[str, str]
    """As :func:`digest_of`, of paths that are new."""


class Project:
    """The Python files that belong together, read lazily.

    Args:
        files: paths of the files that the run looks at; searched for users of a function.
        read: gives the text of a file, or None where it cannot be had. The default reads from disk; a caller that
            ships content rather than paths passes its own (``sources`` is the usual way).
        sources: text by path, which wins over the disk.
    """

    def __init__(
        self,
        files: Iterable[str] = (),
        read: Callable[[str], str | None] | None = None,
        sources: Mapping[str, str] | None = None,
    ) -> None:
        self._files = tuple(files)
        self.sources = {os.path.abspath(path): text for path, text in (sources or {}).items()}
        self._read = read
        self._modules: dict[str, Module | None] = {}
        self._spellings = {os.path.abspath(path): path for path in self._files}
        """The paths of the run's files as they are spelled there, by their absolute ones."""
        self._found: dict[tuple[str, str], str | None] = {}
        self._paths: dict[tuple[str, str], tuple[str | None, frozenset[str]]] = {}
        self._exists: dict[str, bool] = {}
        self._roots: dict[str, tuple[str, frozenset[str]]] = {}
        self._mentioning: dict[str, tuple[str, ...]] = {}
        self._digests: dict[str, str] = {}
        self._asked_by: dict[str, set[str]] = {}
        """What each file has asked for, by the folders and files that were looked at."""
        self._grown: set[str] = set()
        self._told: set[str] = set()
        self._looking: set[str] = set()
        self._consulted: set[str] = set()
        self._searched = False
        self.parsed = 0
        """Characters of the modules that are kept."""

    def module(self, dotted: str, importer: str) -> Module | None:
        """The project's module ``dotted`` as imported by the file ``importer`` (``.sibling`` and ``..pkg.mod`` are relative)."""
        path = self.find(dotted, importer)
        return None if path is None else self.module_at(path)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the run looks at."""
        self._searched = True
        return self._files

    # What a result depends on

    def begin(self) -> None:
        """From here on, note what is asked for; see :meth:`dependencies`."""
        self._consulted.clear()
        self._searched = False

    def dependencies(self) -> Dependencies:
        """What was asked for since :meth:`begin`, and what has become known since this was last called."""
        asked = {path: frozenset(self._asked_by[path]) for path in self._grown}
        self._grown.clear()
        new = self._consulted.union(*asked.values()) - self._told
        self._told |= new
        digests = {path: self._digest(path) for path in new}
        return Dependencies(frozenset(self._consulted), self._searched, asked, digests)

    def _digest(self, path: str) -> str:
        known = self._digests.get(path)
        if known is None:
            known = self._digests[path] = digest_of(path)
        return known

    # Modules

    def module_at(self, path: str) -> Module | None:
        """The module in the file ``path``; None where it cannot be read or parsed."""
        path = os.path.abspath(path)
        self._consulted.add(path)
        if path not in self._modules:
            from shardfix.semantics.module import Module

            source = self.source(path)
            self._modules[path] = None
            if source is not None:
                try:
                    self.adopt(Module(source, self._spellings.get(path, path), self))
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    pass
        return self._modules[path]

    def module_of(self, source: str, path: str) -> Module:
        """The module with this text, which others see from now on: the one that they see already, if it has that text.

        Raises:
            SyntaxError, ValueError, RecursionError, MemoryError: the text cannot be parsed, as :func:`ast.parse`.
        """
        from shardfix.semantics.module import Module

        known = self._modules.get(os.path.abspath(path))
        if known is not None and known.path == path and known.source == source:
            return known
        module = Module(source, path, self)
        self.adopt(module)
        return module

    def adopt(self, module: Module) -> None:
        """Make ``module`` the one that others see for its path."""
        path = os.path.abspath(module.path)
        if self._modules.get(path) is not module:
            self._modules[path] = module
            self.parsed += len(module.source)

    def importers_of(self, path: str, name: str) -> Iterator[str]:
        """The files of the run, beside ``path``, that import ``name`` from it or read it as an attribute of it."""
        stem = os.path.splitext(os.path.basename(path))[0]
        if stem == "__init__":
            stem = os.path.basename(os.path.dirname(os.path.abspath(path)))
        here = os.path.abspath(path)
        mention = re.compile(rf"\b{re.escape(name)}\b")
        for other in self.files:
            if os.path.abspath(other) == here:
                continue
            text = self.source(other)
            if text is not None and stem in text and mention.search(text):
                yield other

    def source(self, path: str) -> str | None:
        """The text of a file; None where it cannot be had."""
        path = os.path.abspath(path)
        self._consulted.add(path)
        known = self.sources.get(path)
        if known is not None:
            return known
        if self._read is not None:
            return self._read(path)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        digest = digest_of_bytes(data)
        if self._digests.setdefault(path, digest) != digest:
            self._digests[path] = "changed meanwhile"
        return _decoded(path, data)

    def mentioning(self, word: str) -> tuple[str, ...]:
        """The files of the run whose text holds ``word``."""
        self._searched = True
        if word not in self._mentioning:
            self._mentioning[word] = tuple(path for path in self._files if word in (self.source(path) or ""))
        return self._mentioning[word]

    def find(self, dotted: str, importer: str) -> str | None:
        """The path of the module ``dotted``, searched from the importing file's folder up to the project's root."""
        asked_before = (dotted, importer)
        if asked_before not in self._found:
            self._found[asked_before] = self._found_for(dotted, importer)
        return self._found[asked_before]

    def _found_for(self, dotted: str, importer: str) -> str | None:
        key = (dotted, os.path.dirname(importer))
        if key not in self._paths:
            self._looking = set()
            found = self._find(dotted, key[1])
            self._paths[key] = found, frozenset(self._looking)
        path, looked_at = self._paths[key]
        importer = os.path.abspath(importer)
        asked = self._asked_by.setdefault(importer, set())
        if not looked_at <= asked:
            asked |= looked_at
            self._grown.add(importer)
        return path

    def _find(self, dotted: str, folder: str) -> str | None:
        level = len(dotted) - len(dotted.lstrip("."))
        parts = dotted[level:].split(".") if dotted[level:] else []
        folder = os.path.abspath(folder)
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            return self._module_path(folder, parts)
        if not parts or parts[0] in NEVER_OF_A_PROJECT:
            return None
        root = self._root(folder)
        while True:
            for base in (folder, os.path.join(folder, "src")):
                path = self._module_path(base, parts)
                if path is not None:
                    return path
            if folder == root or os.path.dirname(folder) == folder:
                return None
            folder = os.path.dirname(folder)

    def _module_path(self, folder: str, parts: list[str]) -> str | None:
        base = os.path.join(folder, *parts) if parts else folder
        for path in ((f"{base}.py",) if parts else ()) + (os.path.join(base, "__init__.py"),):
            if self._is_file(path):
                return path
        return None

    def _is_file(self, path: str) -> bool:
        self._looking.add(path)
        if path not in self._exists:
            self._exists[path] = path in self.sources or (self._read is None and os.path.isfile(path))
        return self._exists[path]

    def _root(self, folder: str) -> str:
        """The nearest folder above that looks like a project's root; else the one that holds the package, as for Python."""
        if folder not in self._roots:
            self._roots[folder] = self._new_root(folder)
        root, looked_at = self._roots[folder]
        self._looking |= looked_at
        return root

    def _new_root(self, folder: str) -> tuple[str, frozenset[str]]:
        outer, self._looking = self._looking, set()
        here = Path(folder)
        marked = (p for p in (here, *here.parents) if any(self._is_there(str(p / mark)) for mark in ROOT_MARKS))
        outside = next((p for p in (here, *here.parents) if not self._is_file(str(p / "__init__.py"))), here)
        root = str(next(marked, outside))
        looked_at, self._looking = frozenset(self._looking), outer
        return root, looked_at

    def _is_there(self, path: str) -> bool:
        self._looking.add(path)
        return path in self.sources or (self._read is None and os.path.exists(path))


def digest_of(path: str) -> str:
    """What tells the content of a file from others; a folder has none, and what is not there has the empty one."""
    try:
        with open(path, "rb") as file:
            return digest_of_bytes(file.read())
    except IsADirectoryError:
        return "folder"
    except OSError:
        return "folder" if os.path.isdir(path) else ""


def digest_of_bytes(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _decoded(path: str, data: bytes) -> str | None:
    from shardfix.documents import document
    from shardfix.files import FileProblem

    try:
        text = document(path, data).text
    except FileProblem:
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")
