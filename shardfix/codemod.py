"""What a codemod is, and what it hands on: findings that carry fixes.

A codemod looks at one module through the queries of :class:`shardfix.semantics.module.Module` and yields
:class:`Finding` objects. It cannot print, write or keep state; the fixer decides which fixes are applied.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from shardfix.edits import Edit
    from shardfix.semantics.module import Module
    from shardfix.settings import Settings

__all__ = ["Codemod", "Finding", "Fix", "Range", "Safety", "all_codemods"]


class Safety(enum.StrEnum):
    """How far a fix may be trusted."""

    SAFE = "safe"
    """Changes only code that the targeted JAX rejects, or says the same in words that every JAX from the target on takes."""
    UNSAFE = "unsafe"
    """May change what the program means; applied only with ``--unsafe``."""
    MANUAL = "manual"
    """No repair can be known: the finding carries the reason and the choices."""


@dataclass(frozen=True, order=True)
class Range:
    """A stretch of source text: lines from 1, columns from 0 in UTF-8 bytes, as in :mod:`ast`."""

    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def of(cls, node: ast.AST) -> Range:
        """The range of a node that has a position (expressions, statements, keywords, arguments, aliases)."""
        return cls(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def holds(self, other: Range) -> bool:
        """Whether ``other`` lies within this range."""
        return (self.line, self.column) <= (other.line, other.column) and (
            (other.end_line, other.end_column) <= (self.end_line, self.end_column)
        )


@dataclass(frozen=True)
class Fix:
    """One repair: edits that are carried out together or not at all."""

    edits: tuple[Edit, ...]
    safety: Safety = Safety.SAFE
    title: str = ""
    """The cure in a few words ("take the sum with keepdims=True"); the finding's message names the fault."""
    needs_jax: str | None = None
    """The oldest JAX that has what the replacement uses; None where every JAX has it."""


@dataclass(frozen=True)
class Finding:
    """One fault in one file."""

    codemod: str
    range: Range
    message: str
    fix: Fix | None = None
    reason: str = ""
    """Why there is no safe fix, and what the author can choose from."""
    choices: tuple[Fix, ...] = ()
    """Repairs that only the author can choose between; shown, never applied unasked."""

    @property
    def safety(self) -> Safety:
        """The safety of the fix; manual where there is none."""
        return self.fix.safety if self.fix else Safety.MANUAL


class Codemod:
    """Base class. One module under ``codemods/`` holds one subclass; the module's name gives the codemod's name.

    The subclass's module docstring is the manual page, with the fixed headings of ``docs/writing-a-codemod.md``.
    """

    triggers: ClassVar[tuple[bytes, ...]]
    """Byte strings; a file that holds none of them is never parsed. Where an entry is a regular expression it is
    compiled by :mod:`shardfix.prefilter` as it stands, so escape what is meant literally."""
    evidence: ClassVar[frozenset[str]] = frozenset()
    """Kinds of :class:`shardfix.tracebacks.Evidence` that this codemod can act on."""
    deprecated: ClassVar[str | None] = None
    removed: ClassVar[str | None] = None
    replacement_since: ClassVar[str | None] = None
    judges_suppressions: ClassVar[bool] = False
    """Whether it looks at comments that suppress findings, which it can do only when all else has come to rest."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @classmethod
    def codemod_name(cls) -> str:
        """``rank0-outputs`` for a class in the module ``shardfix.codemods.rank0_outputs``."""
        return cls.__module__.rpartition(".")[2].replace("_", "-")

    @classmethod
    def manual_page(cls) -> str:
        """The docstring of the module that defines the codemod."""
        return inspect.cleandoc(importlib.import_module(cls.__module__).__doc__ or "")

    def findings(self, module: Module) -> Iterator[Finding]:
        """Yield what is wrong in ``module``."""
        raise NotImplementedError

    def finding(
        self,
        node: ast.AST | Range,
        message: str,
        *,
        fix: Fix | None = None,
        reason: str = "",
        choices: Iterable[Fix] = (),
    ) -> Finding:
        """A finding of this codemod at ``node``."""
        place = node if isinstance(node, Range) else Range.of(node)
        return Finding(self.codemod_name(), place, message, fix, reason, tuple(choices))


@dataclass(frozen=True)
class _Discovered:
    classes: dict[str, type[Codemod]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)


@cache
def _discover() -> _Discovered:
    from importlib.metadata import entry_points

    package = importlib.import_module("shardfix.codemods")
    names = [f"{package.__name__}.{info.name}" for info in pkgutil.iter_modules(package.__path__)]
    found = _Discovered()
    names += [point.value for point in entry_points(group="shardfix.codemods")]
    for name in names:
        try:
            module = importlib.import_module(name.partition(":")[0])
        except Exception as error:  # a broken third-party codemod must not stop the others
            found.broken[name] = f"{type(error).__name__}: {error}"
            continue
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Codemod) and value.__module__ == module.__name__:
                found.classes[value.codemod_name()] = value
    return found


def all_codemods() -> dict[str, type[Codemod]]:
    """Every installed codemod by name, sorted: those of ``shardfix.codemods`` and of the entry-point group of that name."""
    return dict(sorted(_discover().classes.items()))


def broken_codemods() -> dict[str, str]:
    """Codemod modules that could not be imported, with the reason."""
    return dict(_discover().broken)
