"""One call at one moment of a run: what is called with what, and where."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from shardfix.semantics.interpreter.trace import Environment
from shardfix.semantics.values import UNKNOWN, Partial, Value

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter


@dataclass(frozen=True)
class Arguments:
    """What is known of the arguments of a call."""

    positional: tuple[Value, ...] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict)
    exact: bool = True
    """False where more arguments may be passed than these."""
    missing: Value = UNKNOWN
    """What those are like."""

    def after(self, partial: Partial) -> Arguments:
        """These arguments behind the ones that ``partial`` holds already."""
        return replace(
            self,
            positional=partial.arguments + self.positional,
            keywords={**dict(partial.keywords), **self.keywords},
        )


@dataclass(frozen=True)
class Invocation:
    """A call, as it is handed to what knows its result."""

    interpreter: Interpreter
    environment: Environment
    node: ast.expr
    """The call itself, or the decorator that stands for it."""
    given: Arguments
    name: str = ""
    """What is called, by its canonical name, where it is not of the project."""

    @property
    def arguments(self) -> tuple[Value, ...]:
        """The positional arguments."""
        return self.given.positional

    @property
    def keywords(self) -> Mapping[str, Value]:
        """The keyword arguments."""
        return self.given.keywords

    @property
    def exact(self) -> bool:
        """Whether there are no more arguments than these."""
        return self.given.exact

    def get(self, name: str, index: int | None = None) -> Value | None:
        """An argument by its name, or by its position; None where it is not given."""
        if name in self.keywords:
            return self.keywords[name]
        return self.arguments[index] if index is not None and index < len(self.arguments) else None

    def apply(self, function: Value, *arguments: Value) -> Value:
        """The result of calling ``function`` with just these arguments in this one's place."""
        return self.interpreter.apply(function, self.environment, self.node, *arguments)

    def passing(self, given: Arguments) -> Invocation:
        """The same call with other arguments."""
        return replace(self, given=given)
