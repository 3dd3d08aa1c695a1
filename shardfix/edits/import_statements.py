"""Rewrites one import statement on its LibCST nodes, with its layout. Imported only where an import changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import libcst as cst

from shardfix.edits.place import Refusal
from shardfix.edits.series import Series

__all__ = ["by_type", "rewrite"]

Imported = tuple[str, str | None]
"""A name (or a dotted module) and the name it is bound to, where that differs."""


def rewrite(
    text: str,
    newline: str,
    *,
    module: str | None = None,
    changed: Mapping[int, Imported | None],
    added: Sequence[Imported] = (),
) -> str:
    """The text of an import statement with some of its names changed or (None) taken out, and others added.

    Args:
        text: the statement alone, without a comment behind it.
        newline: the line end to use.
        module: the module that a ``from`` import takes its names from henceforth.
        changed: what becomes of the names, by their index.
        added: names to add: where they belong in a sorted list, else at the end. Those already there are left out.

    Raises:
        Refusal: the statement is not of the kind that this can be done to.
    """
    tree = cst.parse_module(text, cst.PartialParserConfig(default_newline=newline))
    if tree.code != text:
        raise Refusal("LibCST does not give this import back as it stands")
    statement = cast("cst.SimpleStatementLine", tree.body[0]).body[0]
    if not isinstance(statement, cst.Import | cst.ImportFrom) or isinstance(statement.names, cst.ImportStar):
        raise Refusal("the statement does not import names")
    names = list(statement.names)
    series: Series[cst.ImportAlias] = Series(
        names,
        _behind_left(statement),
        [
            alias.comma.whitespace_after if isinstance(alias.comma, cst.Comma) else _before_right(statement)
            for alias in names
        ],
        isinstance(names[-1].comma, cst.Comma),
    )
    originals = list(names)
    for index, new in sorted(changed.items(), reverse=True):
        if new is not None:
            series.items[index] = _renamed(originals[index], new)
    for imported in added:
        _add(series, imported)
    for index in sorted((index for index, new in changed.items() if new is None), reverse=True):
        series.remove(next(place for place, item in enumerate(series.items) if item is originals[index]))

    aliases = [alias.with_changes(comma=comma) for alias, comma, _ in series.commas()]
    new_statement: cst.Import | cst.ImportFrom
    if isinstance(statement, cst.Import):
        new_statement = statement.with_changes(names=aliases)
    else:
        new_statement = _with_names(statement, aliases, series)
        if module is not None:
            new_statement = _from(new_statement, module)
    return tree.code_for_node(new_statement)


def _behind_left(statement: cst.Import | cst.ImportFrom) -> cst.BaseParenthesizableWhitespace:
    if isinstance(statement, cst.ImportFrom) and statement.lpar is not None:
        return statement.lpar.whitespace_after
    return cst.SimpleWhitespace("")


def _before_right(statement: cst.Import | cst.ImportFrom) -> cst.BaseParenthesizableWhitespace:
    if isinstance(statement, cst.ImportFrom) and statement.rpar is not None:
        return statement.rpar.whitespace_before
    return cst.SimpleWhitespace("")


def _with_names(
    statement: cst.ImportFrom, aliases: list[cst.ImportAlias], series: Series[cst.ImportAlias]
) -> cst.ImportFrom:
    if statement.lpar is None or statement.rpar is None:
        return statement.with_changes(names=aliases)
    right = statement.rpar
    if not series.trailing_comma:
        right = right.with_changes(whitespace_before=series.after[-1])
    elif not isinstance(cast("Sequence[cst.ImportAlias]", statement.names)[-1].comma, cst.Comma):
        right = right.with_changes(whitespace_before=cst.SimpleWhitespace(""))
    return statement.with_changes(
        names=aliases, lpar=statement.lpar.with_changes(whitespace_after=series.before), rpar=right
    )


def _from(statement: cst.ImportFrom, module: str) -> cst.ImportFrom:
    space = statement.whitespace_after_from
    return statement.with_changes(
        module=cst.parse_expression(module),
        relative=(),
        whitespace_after_from=space if getattr(space, "value", "") else cst.SimpleWhitespace(" "),
    )


def _renamed(alias: cst.ImportAlias, new: Imported) -> cst.ImportAlias:
    name, asname = new
    changed = alias.with_changes(name=cst.parse_expression(name))
    if asname is None:
        return changed.with_changes(asname=None)
    if alias.asname is not None and cast("cst.Name", alias.asname.name).value == asname:
        return changed
    return changed.with_changes(asname=cst.AsName(cst.Name(asname)))


def _imported(alias: cst.ImportAlias) -> Imported:
    name = cst.Module(body=[]).code_for_node(alias.name)
    return name, cast("cst.Name", alias.asname.name).value if alias.asname else None


def _add(series: Series[cst.ImportAlias], imported: Imported) -> None:
    present = [_imported(alias) for alias in series.items]
    if imported in present:
        return
    name, asname = imported
    alias = cst.ImportAlias(cst.parse_expression(name), cst.AsName(cst.Name(asname)) if asname else None)  # type: ignore[arg-type]
    series.insert(_place([name for name, _ in present], name), alias)


def by_type(name: str) -> tuple[int, str]:
    """isort's default order: constants, classes, the rest."""
    if name.isupper() and len(name) > 1:
        return 0, name
    return (1 if name[:1].isupper() else 2), name


def _place(present: list[str], name: str) -> int:
    """Where ``name`` goes in a list that is sorted in one of the usual orders; at the end of any other."""
    orders: list[Callable[[str], Any]] = [by_type, str.casefold, str]
    for key in orders:
        if present == sorted(present, key=key):
            return sum(key(other) <= key(name) for other in present)
    return len(present)
