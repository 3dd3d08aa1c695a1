"""What the tests of the pen share: edits named by the text they are for."""

from __future__ import annotations

import ast

from shardfix.codemod import Fix, Range
from shardfix.edits import DropImport, Edit, InsertStatement, MoveImport, RemoveStatement
from shardfix.edits.pen import Applied, apply
from shardfix.semantics.module import Module

STATEMENT_EDITS = (MoveImport, DropImport, InsertStatement, RemoveStatement)


def at(module: Module, text: str, kind: type[ast.AST] = ast.expr, index: int = 0) -> Range:
    """The range of the node of this type whose text is ``text``."""
    found = {Range.of(node) for node in ast.walk(module.tree) if isinstance(node, kind) and module.text(node) == text}
    return sorted(found)[index]


def edit_of(module: Module, request: tuple) -> Edit:
    """``(Replace, "old", "new")`` as an edit; a third of the kind ``("old", 1)`` names the second such text."""
    make, place, *arguments = request
    text, index = place if isinstance(place, tuple) else (place, 0)
    kind = ast.stmt if make in STATEMENT_EDITS else ast.expr
    return make(at(module, text, kind, index), *arguments)


def carry_out(source: str, *requests: tuple, path: str = "module.py") -> Applied:
    """The outcome of one fix."""
    module = Module(source, path)
    return apply(module, [Fix(tuple(edit_of(module, request) for request in requests))])


def edited(source: str, *requests: tuple, path: str = "module.py") -> str:
    """The text after one fix, which must not be refused."""
    result = carry_out(source, *requests, path=path)
    assert not result.refused, result.refused[0][1]
    ast.parse(result.source)
    return result.source


def refusal(source: str, *requests: tuple) -> str:
    """The reason why a fix is refused; the text must stay as it is."""
    result = carry_out(source, *requests)
    assert result.source == source
    assert not result.applied
    assert not result.splices
    [(_, reason)] = result.refused
    return reason
