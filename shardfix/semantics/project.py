"""The modules of a project: found by import name, parsed on demand, once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

__all__ = ["Project"]

NEVER_OF_A_PROJECT = frozenset(
    "jax jaxlib numpy scipy functools typing dataclasses collections os sys math operator itertools inspect abc re flax "
    "optax equinox haiku chex torch tensorflow absl einops orbax".split()
)
"""Top-level packages that are looked at from outside, also where a project happens to hold their source."""

ROOT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git", "requirements.txt")


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
        self.files = tuple(files)
        self.sources = {os.path.abspath(path): text for path, text in (sources or {}).items()}
        self._read = read or _read_source
        self._modules: dict[str, Module | None] = {}
        self._paths: dict[tuple[str, str], str | None] = {}
        self._exists: dict[str, bool] = {}
        self._roots: dict[str, str] = {}
        self._mentioning: dict[str, tuple[str, ...]] = {}
        self.consulted: set[str] = set()
        """Paths of the modules that were asked for, whether they exist or not: what a result depends on beside its own file."""

    def module(self, dotted: str, importer: str) -> Module | None:
        """The project's module ``dotted`` as imported by the file ``importer`` (``.sibling`` and ``..pkg.mod`` are relative)."""
        path = self.find(dotted, importer)
        return None if path is None else self.module_at(path)

    def module_at(self, path: str) -> Module | None:
        """The module in the file ``path``; None where it cannot be read or parsed."""
        path = os.path.abspath(path)
        if path not in self._modules:
            from shardfix.semantics.module import Module

            self.consulted.add(path)
            source = self.source(path)
            self._modules[path] = None
            if source is not None:
                try:
                    self._modules[path] = Module(source, path, self)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    pass
        return self._modules[path]

    def adopt(self, module: Module) -> None:
        """Make ``module`` the one that others see for its path (the fixer's current text)."""
        self._modules[os.path.abspath(module.path)] = module

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
        known = self.sources.get(os.path.abspath(path))
        return known if known is not None else self._read(path)

    def mentioning(self, word: str) -> tuple[str, ...]:
        """The files of the run whose text holds ``word``."""
        if word not in self._mentioning:
            self._mentioning[word] = tuple(path for path in self.files if word in (self.source(path) or ""))
        return self._mentioning[word]

    def find(self, dotted: str, importer: str) -> str | None:
        """The path of the module ``dotted``, searched from the importing file's folder up to the project's root."""
        key = (dotted, os.path.dirname(importer))
        if key not in self._paths:
            self._paths[key] = self._find(dotted, key[1])
        return self._paths[key]

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
        if path not in self._exists:
            self.consulted.add(path)
            self._exists[path] = path in self.sources or os.path.isfile(path)
        return self._exists[path]

    def _root(self, folder: str) -> str:
        """The nearest folder above that looks like a project's root; else the one that holds the package, as for Python."""
        if folder not in self._roots:
            here = Path(folder)
            marked = (p for p in (here, *here.parents) if any((p / mark).exists() for mark in ROOT_MARKS))
            outside = next((p for p in (here, *here.parents) if not self._is_file(str(p / "__init__.py"))), here)
            self._roots[folder] = str(next(marked, outside))
        return self._roots[folder]


def _read_source(path: str) -> str | None:
    import tokenize

    try:
        with tokenize.open(path) as file:
            return file.read()
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return None
