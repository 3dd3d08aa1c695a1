"""The parts of a call, as they are handed to the handler of a special function."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.semantics.interpreter.trace import Environment
from shardfix.semantics.values import Value

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter


@dataclass(frozen=True)
class SpecialCall:
    """The parts of a call, handed to a handler."""

    interpreter: Interpreter
    name: str
    arguments: tuple[Value, ...]
    keywords: Mapping[str, Value]
    environment: Environment
    node: ast.expr
    exact: bool

    def get(self, name: str, index: int | None = None) -> Value | None:
        if name in self.keywords:
            return self.keywords[name]
        return self.arguments[index] if index is not None and index < len(self.arguments) else None

    def apply(self, function: Value, *arguments: Value) -> Value:
        return self.interpreter.call(function, arguments, {}, self.environment, self.node, exact=True)
