"""A writer of JAX code that traces each statement as it writes it, so that what it writes is well typed.

The writer keeps a namespace of live tracers. A statement that JAX rejects is left out; one that JAX takes is written,
and the names that it binds may be used from then on.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jax
from hypothesis import strategies as st

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]

INDENT = "    "
MOST_ELEMENTS = 4096


@dataclass
class Book:
    """What all writers of one program share: the code of both modules, and the counters of names and trials."""

    draw: Draw
    mesh_axes: tuple[str, ...]
    main: types.ModuleType
    helpers: types.ModuleType
    main_code: list[str] = field(default_factory=list)
    helpers_code: list[str] = field(default_factory=list)
    names: int = 0
    written: int = 0
    rejected: int = 0
    rejections: list[tuple[str, str]] = field(default_factory=list)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"


class Writer:
    """Writes the statements of one block.

    Args:
        book: what the writers of the program share.
        namespace: the names in scope with their values at this moment; changed as statements bind names.
        manual: the mesh axes that are manual here.
        depth: how many functions and blocks lie around this one.
    """

    def __init__(
        self,
        book: Book,
        namespace: dict[str, Any],
        manual: tuple[str, ...],
        depth: int = 0,
        parent: Writer | None = None,
    ) -> None:
        self.book = book
        self.parent = parent
        self.module: types.ModuleType = parent.module if parent is not None else book.main
        """The module that the code is written for."""
        self.namespace = namespace
        self.manual = manual
        self.depth = depth
        self.lines: list[str] = []
        self.own: list[str] = []
        """Names bound by this writer that hold arrays, pytrees of arrays, or numbers."""

    # Choices

    def draw(self, strategy: st.SearchStrategy[T]) -> T:
        return self.book.draw(strategy)  # type: ignore[no-any-return]

    def one_of(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def chance(self, one_in: int) -> bool:
        return self.draw(st.integers(0, one_in - 1)) == 0

    # Values in scope

    def arrays(self, test: Callable[[Any], bool] = lambda value: True) -> list[str]:
        """The names that hold arrays of floats for which ``test`` holds; the youngest are likelier to be drawn."""
        return [name for name in self.own if is_float_array(self.namespace.get(name)) and test(self.namespace[name])]

    def array(self, test: Callable[[Any], bool] = lambda value: True) -> str | None:
        """An array in scope that ``test`` holds for, by name."""
        names = self.arrays(test)
        if not names:
            return None
        return self.one_of(names[-3:] if self.chance(2) else names)  # type: ignore[no-any-return]

    def rank(self, name: str) -> int:
        return len(self.namespace[name].shape)

    def new(self, prefix: str = "v") -> str:
        return self.book.name(prefix)

    # Writing

    def try_lines(self, lines: list[str]) -> bool:
        """Run the lines; write them if they ran, else leave no trace."""
        trial = dict(self.namespace)
        try:
            exec(compile("\n".join(lines), "<program>", "exec"), trial)
            if not all(is_small(value) for name, value in trial.items() if self.namespace.get(name) is not value):
                raise ValueError("too large an array")
        except Exception as error:
            self.book.rejected += 1
            self.book.rejections.append(("\n".join(lines), f"{type(error).__name__}: {error}"))
            return False
        exec(compile("\n".join(lines), "<program>", "exec"), self.namespace)
        self.book.written += 1
        self.lines += lines
        return True

    def assign(self, expression: str | None) -> str | None:
        """``name = expression``; the name, or None where JAX does not take the expression."""
        if expression is None:
            return None
        name = self.new()
        if not self.try_lines([f"{name} = {expression}"]):
            return None
        self.own.append(name)
        return name

    def define(self, name: str, lines: list[str]) -> None:
        """Write a function or class at the top level of the module."""
        exec(compile("\n".join(lines), "<program>", "exec"), self.module.__dict__)
        code = self.book.main_code if self.module is self.book.main else self.book.helpers_code
        code += ["", *lines]
        writer: Writer | None = self
        while writer is not None and writer.module is self.module:
            writer.namespace[name] = self.module.__dict__[name]
            writer = writer.parent

    def outside(self, module: types.ModuleType, **bound: Any) -> Writer:
        """A writer for a function at the top level of ``module``, which knows nothing of what is in scope here."""
        writer = Writer(self.book, {**module.__dict__, **bound}, self.manual, self.depth + 1, self)
        writer.module = module
        writer.own = list(bound)
        return writer

    def child(self, **bound: Any) -> Writer:
        """A writer for a block or function inside this one, which knows ``bound`` besides what is in scope here."""
        writer = Writer(self.book, {**self.namespace, **bound}, self.manual, self.depth + 1, self)
        writer.own = [*self.own, *bound]
        return writer


def indented(lines: list[str]) -> list[str]:
    return [INDENT + line for line in lines]


def is_array(value: Any) -> bool:
    return isinstance(value, jax.Array)


def is_float_array(value: Any) -> bool:
    return is_array(value) and jax.numpy.issubdtype(value.dtype, jax.numpy.floating)


def is_small(value: Any) -> bool:
    return not is_array(value) or (value.size <= MOST_ELEMENTS and value.ndim <= 5)


def fits(value: Any, other: Any) -> bool:
    """Whether two arrays can be broadcast together."""
    return all(1 in (a, b) or a == b for a, b in zip(reversed(value.shape), reversed(other.shape), strict=False))


def varying_axes(value: Any) -> frozenset[str]:
    """The mesh axes that a traced value varies over, by its type."""
    kind = jax.typeof(value)
    manual = getattr(kind, "manual_axis_type", None)
    return frozenset(manual.varying if manual is not None else getattr(kind, "vma", ()))
