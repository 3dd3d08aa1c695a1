"""What is asked of the import statements of a module, and the places that ask."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfix.edits.bindings import runs_later
from shardfix.edits.statements import is_header_statement, starts_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardfix.edits import DropImport
    from shardfix.semantics.module import Module
    from shardfix.semantics.scopes import Binding, Scope

__all__ = [
    "ImportStatement",
    "Imported",
    "NewImport",
    "Place",
    "Plan",
    "bound_by",
    "is_import_of_jax",
    "is_star_import",
    "takes_from",
    "top_level_anchor",
    "top_level_imports",
]

Imported = tuple[str, str | None]
"""A name and the name it is bound to, where that differs."""
ImportStatement = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class NewImport:
    """A statement to add: ``import module as asname`` where ``name`` is None, else ``from module import name as asname``."""

    module: str
    name: str | None
    asname: str | None
    target: str
    home: Scope
    anchor: ast.stmt
    before: bool
    """Whether it goes before the anchor rather than after it."""

    @property
    def bound(self) -> str:
        return self.asname or self.name or self.module.partition(".")[0]


@dataclass
class Plan:
    """What is asked for so far. Keys are the ids of statements and aliases of the tree."""

    moves: dict[int, str] = field(default_factory=dict)
    drops: dict[int, DropImport] = field(default_factory=dict)
    statements: dict[int, ImportStatement] = field(default_factory=dict)
    """The statements that may change."""
    added: dict[int, tuple[tuple[str, Imported], ...]] = field(default_factory=dict)
    """Names to add to a statement, each with the module that it comes from."""
    new: tuple[NewImport, ...] = ()

    def copy(self) -> Plan:
        """A plan that does not change with this one."""
        return Plan(dict(self.moves), dict(self.drops), dict(self.statements), dict(self.added), self.new)


class Place:
    """Where a name is to be used."""

    def __init__(self, module: Module, node: ast.AST, avoid: frozenset[str]) -> None:
        self._module = module
        self.node = node
        self._avoid = avoid
        self.scope = module.scope_of(node)
        self.module_scope = module.module_scope
        self.line: int = getattr(node, "lineno", 1)

    def names(self) -> Iterator[tuple[Scope, str, list[Binding]]]:
        """The names that can be seen here, each with the scope and the bindings that count."""
        scope: Scope | None = self.scope
        while scope is not None:
            for name in scope.bindings:
                known = self.scope.lookup(name)
                if known is not None and known[0] is scope and name not in self._avoid:
                    yield scope, name, known[1]
            scope = scope.parent

    def avoids(self, name: str) -> bool:
        return name in self._avoid

    def can_use(self, name: str, home: Scope) -> bool:
        """Whether ``name``, once it is bound in ``home``, is not hidden here by another binding."""
        if name in self._avoid or self.scope.lookup(name) is not None:
            return False
        scope: Scope | None = self.scope
        while scope is not None:
            if scope is home:
                return True
            scope = scope.parent
        return False

    def is_after(self, statement: ast.stmt, home: Scope) -> bool:
        """Whether the statement, of the body of ``home``, has run when this place is reached."""
        if runs_later(self._module, self.node, home) and home is self.module_scope:
            return True
        return (statement.end_lineno or 0, statement.end_col_offset or 0) <= (
            self.line,
            getattr(self.node, "col_offset", 0),
        )


def top_level_imports(module: Module) -> list[ImportStatement]:
    """The imports that stand plain in the module's body, ``__future__`` excepted."""
    return [
        statement
        for statement in module.tree.body
        if isinstance(statement, ast.Import | ast.ImportFrom) and not is_header_statement(statement)
    ]


def takes_from(statement: ast.stmt, module: str) -> bool:
    return (
        isinstance(statement, ast.ImportFrom)
        and statement.module == module
        and not statement.level
        and statement.names[0].name != "*"
    )


def is_star_import(statement: ast.stmt, module: str) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == module and statement.names[0].name == "*"


def is_import_of_jax(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return any(alias.name.partition(".")[0] == "jax" for alias in statement.names)
    return (
        isinstance(statement, ast.ImportFrom)
        and not statement.level
        and (statement.module or "").partition(".")[0] == "jax"
    )


def bound_by(statement: ImportStatement, alias: ast.alias) -> str:
    if alias.asname:
        return alias.asname
    return alias.name.partition(".")[0] if isinstance(statement, ast.Import) else alias.name


def top_level_anchor(module: Module, place: Place, new: str, *, is_from: bool) -> tuple[ast.stmt, bool]:
    """The statement of the module's body that a new import goes after (or, if True, before)."""
    body = module.tree.body
    limit = len(body)
    if not runs_later(module, place.node, module.module_scope):
        around = [place.node, *module.ancestors(place.node)]
        limit = next(index for index, item in enumerate(body) if any(item is node for node in around))
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    header_end = next((index for index, item in enumerate(body) if isinstance(item, definitions)), len(body))
    plain = [
        index
        for index, item in enumerate(body[:limit])
        if isinstance(item, ast.Import | ast.ImportFrom) and not is_header_statement(item)
    ]
    header = [index for index in plain if index < header_end]
    of_jax = [index for index in header if is_import_of_jax(body[index])]
    of_jax = of_jax or [index for index in plain if is_import_of_jax(body[index])]
    if of_jax:
        return _sorted_anchor(module, of_jax[-1], limit, new, is_from=is_from)
    if header:
        return body[header[-1]], False
    first = 0
    while (
        first < limit and is_header_statement(body[first]) and (first == 0 or isinstance(body[first], ast.ImportFrom))
    ):
        first += 1
    return (body[first - 1], False) if first else (body[0], True)


def _sorted_anchor(module: Module, last: int, limit: int, new: str, *, is_from: bool) -> tuple[ast.stmt, bool]:
    """The place in the block of imports around ``body[last]`` that keeps the block sorted, else the one after it."""
    body = module.tree.body

    def joins(upper: ast.stmt, lower: ast.stmt) -> bool:
        both = all(
            isinstance(item, ast.Import | ast.ImportFrom) and not is_header_statement(item) for item in (upper, lower)
        )
        return both and upper.end_lineno is not None and lower.lineno == upper.end_lineno + 1

    first, end = last, last
    while first > 0 and joins(body[first - 1], body[first]):
        first -= 1
    while end + 1 < limit and joins(body[end], body[end + 1]):
        end += 1
    block = body[first : end + 1]
    if all(starts_line(module, item) for item in block):
        for plain_first in (True, False):
            keys = [_sort_key(item, plain_first) for item in block]
            if keys == sorted(keys):
                key = (is_from, new.casefold(), is_from) if plain_first else (False, new.casefold(), is_from)
                position = sum(other <= key for other in keys)
                return (block[position - 1], False) if position else (block[0], True)
    return body[last], False


def _sort_key(statement: ast.stmt, plain_first: bool) -> tuple[bool, str, bool]:
    if isinstance(statement, ast.ImportFrom):
        name = "." * statement.level + (statement.module or "")
        # Relative imports come last, as isort has it.
        name = f"\U0010ffff{name}" if statement.level else name
        return plain_first, name.casefold(), True
    assert isinstance(statement, ast.Import)
    return False, statement.names[0].name.casefold(), False
