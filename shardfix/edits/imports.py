"""The importer: how an object is spelled at a place, and which import statements that takes.

It decides on the stdlib tree; :mod:`shardfix.edits.import_statements` rewrites the statements that change.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardfix.edits.bindings import (
    canonical,
    function_around,
    is_for_type_checking,
    is_free,
    is_surely_bound,
    preceding,
    runs_later,
)
from shardfix.edits.place import Refusal, locate, newline_at
from shardfix.edits.statements import (
    Lines,
    block_of,
    insertion_after,
    insertion_before,
    is_header_statement,
    line_end,
    removal,
    starts_line,
)

if TYPE_CHECKING:
    from shardfix.edits import DropImport, MoveImport
    from shardfix.semantics.module import Module
    from shardfix.semantics.scopes import Binding, Scope

__all__ = ["Importer", "Postponement"]

Imported = tuple[str, str | None]
"""A name and the name it is bound to, where that differs."""
ImportStatement = ast.Import | ast.ImportFrom

ALWAYS_LOADED = frozenset(
    "jax jax.core jax.debug jax.distributed jax.dlpack jax.dtypes jax.errors jax.image jax.lax jax.nn jax.numpy "
    "jax.numpy.linalg jax.numpy.fft jax.profiler jax.random jax.sharding jax.stages jax.tree jax.tree_util jax.typing".split()
)
"""The modules that ``import jax`` loads, in every version from 0.4.38 to 0.12."""

IMPORTED_BY_NAME = frozenset({"jax.sharding", "jax.extend.core", "jax.extend.core.primitives", "jax.extend.sharding"})
"""Modules of JAX whose names are customarily imported one by one; those of the others are spelled through the module."""

CUSTOMARY_NAMES = {"jax.sharding.PartitionSpec": "P"}
CUSTOMARY_MODULE_NAMES = {"jax.numpy": "jnp", "numpy": "np"}

_KEEP = re.compile(r"#\s*noqa\s*:[^#\r\n]*\bF401\b")


class Postponement(Exception):
    """A fix that must wait for the next pass."""


@dataclass(frozen=True)
class _NewImport:
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


@dataclass(frozen=True)
class _Plan:
    """What is asked for so far. Keys are the ids of statements and aliases of the tree."""

    moves: dict[int, str]
    drops: dict[int, DropImport]
    statements: dict[int, ImportStatement]
    added: dict[int, tuple[tuple[str, Imported], ...]]
    """Names to add to a statement, each with the module that it comes from."""
    new: tuple[_NewImport, ...]


class Importer:
    """Answers what to write for an object at a place, and collects what that asks of the imports of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._plan = _Plan({}, {}, {}, {}, ())
        self._touched: dict[int, ImportStatement] = {}

    # A fix is all or nothing: what it asked for can be taken back.

    @property
    def plan(self) -> _Plan:
        """The state to go back to with :meth:`restore`."""
        plan = self._plan
        return _Plan(dict(plan.moves), dict(plan.drops), dict(plan.statements), dict(plan.added), plan.new)

    def restore(self, plan: _Plan) -> None:
        self._plan = plan

    # Requests

    def move(self, edit: MoveImport) -> None:
        """Take note of a :class:`MoveImport`.

        Raises:
            Refusal: there is no such import.
            Postponement: another fix asked for something else.
        """
        statement = locate(self._module, edit.at, ast.stmt)
        if not isinstance(statement, ast.ImportFrom):
            raise Refusal(f"line {edit.at.line}: this is no from-import")
        aliases = [alias for alias in statement.names if alias.name == edit.name]
        if not aliases or "." not in edit.to:
            raise Refusal(f"line {edit.at.line}: {edit.name} is not imported here")
        for alias in aliases:
            if self._plan.moves.get(id(alias), edit.to) != edit.to or id(alias) in self._plan.drops:
                raise Postponement
            self._plan.moves[id(alias)] = edit.to
        self._plan.statements[id(statement)] = statement

    def drop(self, edit: DropImport) -> None:
        """Take note of a :class:`DropImport`.

        Raises:
            Refusal: there is no such import.
            Postponement: another fix asked for something else.
        """
        statement = locate(self._module, edit.at, ast.stmt)
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            raise Refusal(f"line {edit.at.line}: this is no import")
        aliases = [
            alias for alias in statement.names if edit.bound in (_bound(statement, alias), alias.asname or alias.name)
        ]
        if not aliases:
            raise Refusal(f"line {edit.at.line}: {edit.bound} is not imported here")
        for alias in aliases:
            if id(alias) in self._plan.moves:
                raise Postponement
            self._plan.drops[id(alias)] = edit
        self._plan.statements[id(statement)] = statement

    # Spelling

    def spell(self, dotted: str, node: ast.AST, avoid: frozenset[str] = frozenset()) -> str:
        """What to write at ``node`` for the object ``dotted``.

        Args:
            avoid: names that the code around the place binds itself.

        Raises:
            Refusal: no name for it can be had there.
        """
        target = canonical(dotted)
        home, _, last = target.rpartition(".")
        place = _Place(self._module, node, avoid)
        if not home:
            return target
        by_name = home in IMPORTED_BY_NAME or home.partition(".")[0] != "jax"
        found = self._alias(target, place) or self._through_module(target, place)
        if found is None and (not by_name or self._is_spelled_through_jax(target)):
            found = self._through_jax(target, place)
        if found is None:
            found = self._merged(home, last, target, place)
        if found is None and not by_name:
            found = self._module_merged(home, last, place)
        if found is None:
            found = self._relied_on(target, place) or self._new(home, last, target, place, by_name)
        found = found or self._through_jax(target, place)
        if found is None:
            raise Refusal(f"line {place.line}: no name for {dotted} is free here")
        return found

    def _meaning(self, binding: Binding) -> str | None:
        """The full name of what is bound, moves included; None where it is not known."""
        if binding.kind == "import" and binding.dotted:
            return canonical(self._plan.moves.get(id(binding.node), binding.dotted))
        if binding.kind == "assignment" and isinstance(binding.value, ast.Name | ast.Attribute) and not binding.path:
            names = self._module.resolve(binding.value)
            return canonical(next(iter(names))) if len(names) == 1 else None
        return None

    def _names_for(self, place: _Place, wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
        """The names that surely mean one of the ``wanted`` objects at a place, with what they mean; the best first."""
        for scope, name, bindings in place.names():
            meanings = {self._meaning(binding) for binding in bindings if _may_alias(binding, wanted)}
            if len(meanings) == 1 and all(_may_alias(binding, wanted) for binding in bindings):
                meaning = meanings.pop()
                if meaning is not None and meaning in wanted and is_surely_bound(self._module, name, scope, place.node):
                    yield name, meaning
        for new in self._plan.new:
            if new.target in wanted and place.can_use(new.bound, new.home):
                self._move_anchor_before(new, place)
                yield new.bound, new.target
        for key, additions in self._plan.added.items():
            for module, (name, asname) in additions:
                target = canonical(f"{module}.{name}")
                statement = self._plan.statements[key]
                scope = self._module.scope_of(statement)
                if target in wanted and place.can_use(asname or name, scope) and place.is_after(statement, scope):
                    yield asname or name, target

    def _alias(self, target: str, place: _Place) -> str | None:
        names = [name for name, _ in self._names_for(place, [target])]
        if names:
            uses = [name.id for name in self._module.nodes(ast.Name)]
            return max(names, key=lambda name: (uses.count(name), -len(name)))
        for base in self._module.module_scope.star_imports:
            name = target.rpartition(".")[2]
            if (
                target == f"{base}.{name}"
                and base.partition(".")[0] == "jax"
                and place.can_use(name, place.module_scope)
            ):
                statement = next(
                    (item for item in _top_level_imports(self._module) if _is_star_import(item, base)),
                    None,
                )
                if statement is not None and place.is_after(statement, place.module_scope):
                    return name
        return None

    def _through_module(self, target: str, place: _Place) -> str | None:
        prefixes = [prefix for prefix in _prefixes(target) if prefix != "jax"]
        found = {meaning: name for name, meaning in reversed(list(self._names_for(place, prefixes)))}
        for prefix in prefixes:
            if prefix in found:
                return found[prefix] + target[len(prefix) :]
        return None

    def _through_jax(self, target: str, place: _Place) -> str | None:
        home = target.rpartition(".")[0]
        if home not in ALWAYS_LOADED and not self._is_loaded(home):
            return None
        for name, _ in self._names_for(place, ["jax"]):
            if target == "jax.sharding.PartitionSpec" and self._writes("P"):
                return f"{name}.P"
            return name + target[len("jax") :]
        return None

    def _is_loaded(self, home: str) -> bool:
        return any(
            isinstance(statement, ast.Import)
            and any(f"{alias.name}.".startswith(f"{home}.") for alias in statement.names)
            for statement in _top_level_imports(self._module)
        )

    def _writes(self, attribute: str) -> bool:
        """Whether the file reads this attribute of ``jax``."""
        return any(
            node.attr == attribute and isinstance(node.value, ast.Name) and self._module.resolve(node.value) == {"jax"}
            for node in self._module.nodes(ast.Attribute)
        )

    def _is_spelled_through_jax(self, target: str) -> bool:
        """Whether the file is in the habit of writing ``jax.sharding.Mesh`` rather than importing the names."""
        home = target.rpartition(".")[0]
        if target == "jax.sharding.PartitionSpec" and self._writes("P"):
            return True
        imports_names = any(_takes_from(statement, home) for statement in _top_level_imports(self._module))
        return home == "jax.sharding" and not imports_names and self._writes("sharding")

    def _relied_on(self, target: str, place: _Place) -> str | None:
        """A name that is bound on some paths only, but that the code at this very place reads already."""
        read = {part.id for part in ast.walk(place.node) if isinstance(part, ast.Name)}
        for wanted in [target, *_prefixes(target)]:
            for _, name, bindings in place.names():
                real = [binding for binding in bindings if not _is_none(binding)]
                if name not in read or not real or any(not _may_alias(binding, [wanted]) for binding in real):
                    continue
                if all(self._meaning(binding) == wanted for binding in real) and not any(
                    is_for_type_checking(self._module, binding) for binding in real
                ):
                    home = target.rpartition(".")[0]
                    if wanted != "jax" or home in ALWAYS_LOADED:
                        return name + target[len(wanted) :]
        return None

    # New names

    def _merged(self, home: str, last: str, target: str, place: _Place) -> str | None:
        """The name, added to an import statement that takes others from the same module."""
        for statement in reversed(_top_level_imports(self._module)):
            if self._takes_from_after_moves(statement, home) and place.is_after(statement, place.module_scope):
                name = self._free_name(target, last, place, place.module_scope)
                if name is None:
                    return None
                self._add(statement, home, (last, name if name != last else None))
                return name
        return None

    def _module_merged(self, home: str, last: str, place: _Place) -> str | None:
        """The module of the name (``lax``), added to an import statement that takes others from ``jax``."""
        package, _, module = home.rpartition(".")
        name = CUSTOMARY_MODULE_NAMES.get(home, module)
        if not package or home not in ALWAYS_LOADED or home in CUSTOMARY_MODULE_NAMES:
            return None
        for statement in reversed(_top_level_imports(self._module)):
            if _takes_from(statement, package) and place.is_after(statement, place.module_scope):
                if place.avoids(name) or not is_free(self._module, name, place.module_scope, place.node):
                    return None
                self._add(statement, package, (module, None))
                return f"{name}.{last}"
        return None

    def _takes_from_after_moves(self, statement: ImportStatement, module: str) -> bool:
        moves = [self._plan.moves.get(id(alias)) for alias in statement.names]
        if all(moves):
            return {str(to).rpartition(".")[0] for to in moves} == {module}
        return _takes_from(statement, module)

    def _add(self, statement: ImportStatement, module: str, imported: Imported) -> None:
        self._plan.statements[id(statement)] = statement
        present = self._plan.added.get(id(statement), ())
        if (module, imported) not in present:
            self._plan.added[id(statement)] = (*present, (module, imported))

    def _free_name(self, target: str, last: str, place: _Place, home: Scope) -> str | None:
        """A name that can be bound to ``target``: one that the file has for it elsewhere, the customary one, its own."""
        customary = CUSTOMARY_NAMES.get(target)
        elsewhere = [
            name
            for scope in self._module.scopes.values()
            for name, bindings in scope.bindings.items()
            if all(binding.kind == "import" and self._meaning(binding) == target for binding in bindings)
        ]
        for name in dict.fromkeys([*elsewhere, customary, last]):
            if name is None or place.avoids(name) or self._is_planned(name):
                continue
            throughout = name == customary and name not in elsewhere
            if is_free(self._module, name, home, place.node, throughout=throughout):
                return name
        return None

    def _is_planned(self, name: str) -> bool:
        return any(new.bound == name for new in self._plan.new) or any(
            (asname or own) == name for additions in self._plan.added.values() for _, (own, asname) in additions
        )

    def _new(self, home: str, last: str, target: str, place: _Place, by_name: bool) -> str | None:
        scope, anchor, before = self._anchor(home, place, by_name)
        if anchor is not None and not before and _takes_from(anchor, home) and scope is not place.module_scope:
            name = self._free_name(target, last, place, scope)
            if name is not None:
                self._add(anchor, home, (last, name if name != last else None))  # type: ignore[arg-type]
            return name
        new: _NewImport | None = None
        if by_name and home not in CUSTOMARY_MODULE_NAMES:
            name = self._free_name(target, last, place, scope)
            if name is None:
                return None
            new = _NewImport(home, last, name if name != last else None, target, scope, anchor, before)
            result = name
        else:
            package, _, module = home.rpartition(".")
            name = CUSTOMARY_MODULE_NAMES.get(home, module)
            if self._is_planned(name) or place.avoids(name) or not is_free(self._module, name, scope, place.node):
                return None
            if home in CUSTOMARY_MODULE_NAMES:
                new = _NewImport(home, None, name, home, scope, anchor, before)
            elif package:
                new = _NewImport(package, module, None, home, scope, anchor, before)
            else:
                new = _NewImport(home, None, None, home, scope, anchor, before)
            result = f"{name}.{last}"
        self._plan = replace(self._plan, new=(*self._plan.new, new))
        return result

    # Places for new statements

    def _anchor(self, home: str, place: _Place, by_name: bool) -> tuple[Scope, ast.stmt, bool]:
        """The scope that the import goes to, and the statement that it goes after (or, if True, before)."""
        module = self._module
        if home.partition(".")[0] == "jax" and self._imports_jax_lazily():
            function = function_around(module, place.node)
            if function is None:
                raise Refusal(f"line {place.line}: jax is imported on some paths only, and no import can be added here")
            scope = module.scopes[function]
            for block in preceding(module, place.node, function):
                for statement in reversed(block):
                    if _is_import_of_jax(statement):
                        return scope, statement, False
            first = next((item for item in function.body if not is_header_statement(item)), function.body[0])
            return scope, first, True
        anchor, before = _top_level_anchor(module, place, home, is_from=by_name)
        return module.module_scope, anchor, before

    def _imports_jax_lazily(self) -> bool:
        """Whether jax is imported in functions or under conditions only."""
        if any(_is_import_of_jax(statement) for statement in _top_level_imports(self._module)):
            return False
        return any(
            _is_import_of_jax(statement)
            for kind in (ast.Import, ast.ImportFrom)
            for statement in self._module.nodes(kind)
        )

    def _move_anchor_before(self, new: _NewImport, place: _Place) -> None:
        """See that a planned statement runs before ``place`` does too."""
        if new.home is not place.module_scope or runs_later(self._module, place.node, place.module_scope):
            return
        anchor, before = _top_level_anchor(self._module, place, new.module, is_from=new.name is not None)
        if (anchor.lineno, not before) < (new.anchor.lineno, not new.before):
            changed = replace(new, anchor=anchor, before=before)
            self._plan = replace(self._plan, new=tuple(changed if item is new else item for item in self._plan.new))

    # The outcome

    def statements(self) -> list[ImportStatement]:
        """The statements that may change."""
        return list(self._plan.statements.values())

    def splices(self, edited: Sequence[Lines]) -> list[Lines]:
        """The changes to import statements, given all other changes to the text."""
        outcomes = [self._outcome(statement, edited) for statement in self._plan.statements.values()]
        added = {id(outcome.statement): list(outcome.added) for outcome in outcomes}
        new = list(self._plan.new)
        apart: list[tuple[ast.stmt, str, Imported]] = []
        for outcome in outcomes:
            self._settle(outcome, added, new, apart)
        result: list[Lines] = []
        removed = [outcome.statement for outcome in outcomes if outcome.is_gone(added[id(outcome.statement)])]
        for outcome in outcomes:
            statement = outcome.statement
            if any(statement is other for other in removed):
                block = block_of(self._module, statement)
                leaving: list[ast.stmt] = [
                    other for other in removed if other is not statement and any(other is x for x in block)
                ]
                result.append(removal(self._module, statement, leaving))
            else:
                result += self._rewritten(outcome, added[id(statement)])
        known = {id(outcome.statement) for outcome in outcomes}
        for key, statement in self._touched.items():
            if key not in known:
                result.append(self._rewrite(statement, None, {}, added[key]))
        result += self._new_statements(new, apart)
        return result

    def _outcome(self, statement: ImportStatement, edited: Sequence[Lines]) -> _Outcome:
        outcome = _Outcome(statement, {}, {}, None, [])
        for index, alias in enumerate(statement.names):
            to = self._plan.moves.get(id(alias))
            if to is not None:
                module, _, name = to.rpartition(".")
                outcome.moved[index] = (module, _rebound(alias, name))
            elif id(alias) in self._plan.drops:
                kept = self._kept_of(statement, alias, self._plan.drops[id(alias)], edited)
                if kept != (alias.name, alias.asname):
                    outcome.changed[index] = kept
        additions = self._plan.added.get(id(statement), ())
        own = statement.module if isinstance(statement, ast.ImportFrom) else None
        stays = [index for index in range(len(statement.names)) if index not in outcome.moved]
        if (
            outcome.moved
            and all(outcome.changed.get(index, "itself") is None for index in stays)
            and not any(module == own for module, _ in additions)
        ):
            outcome.module = own = next(iter(outcome.moved.values()))[0]
        for module, imported in additions:
            if module == own:
                outcome.added.append(imported)
            else:
                outcome.elsewhere.append((module, imported))
        return outcome

    def _settle(
        self,
        outcome: _Outcome,
        added: dict[int, list[Imported]],
        new: list[_NewImport],
        apart: list[tuple[ast.stmt, str, Imported]],
    ) -> None:
        """Find a home for the names that move: the statement itself, another one, or a new one."""
        statement = outcome.statement

        def homes(names: Iterable[tuple[str, Imported]]) -> list[ImportStatement | _NewImport | None]:
            return [self._home_for(statement, module, imported, new) for module, imported in names]

        def leave(names: Sequence[tuple[str, Imported]]) -> None:
            for (module, imported), home in zip(names, homes(names), strict=True):
                if home is None:
                    apart.append((statement, module, imported))
                elif isinstance(home, _NewImport):
                    new.append(replace(home, name=imported[0], asname=imported[1], target=""))
                else:
                    added.setdefault(id(home), []).append(imported)
                    self._touched.setdefault(id(home), home)

        going = {index: name for index, name in outcome.moved.items() if name[0] != outcome.module}
        leave([*going.values(), *outcome.elsewhere])
        staying = {index: name for index, name in outcome.moved.items() if index not in going}
        alone = not added[id(statement)] and not any(other is statement for other, _, _ in apart)
        if staying and alone and not self._has_comment(statement) and all(homes(staying.values())):
            leave(list(staying.values()))
            going, outcome.module = outcome.moved, None
        outcome.changed.update(dict.fromkeys(going))
        outcome.moved = {index: name for index, name in outcome.moved.items() if index not in going}

    def _home_for(
        self,
        statement: ImportStatement,
        module: str,
        imported: Imported,
        new: Sequence[_NewImport],
    ) -> ImportStatement | _NewImport | None:
        """Another statement, plain and at top level, that the name can come from before it is first read."""
        if not isinstance(self._module.parent(statement), ast.Module):
            return None
        bound = imported[1] or imported[0]
        references = [self._module.span(name)[0] for name in self._module.references(bound)]
        first = min(references, default=len(self._module.source))
        for other in _top_level_imports(self._module):
            if other is statement or self._module.span(other)[1] > first:
                continue
            moving = any(id(alias) in self._plan.moves or id(alias) in self._plan.drops for alias in other.names)
            if _takes_from(other, module) and not moving:
                return other
        for planned in new:
            if planned.module == module and planned.name and planned.home is self._module.module_scope:
                end = self._module.span(planned.anchor)[0 if planned.before else 1]
                if end <= first:
                    return planned
        return None

    def _has_comment(self, statement: ImportStatement) -> bool:
        start = self._module.span(statement)[0]
        return "#" in self._module.source[start : line_end(self._module, statement)]

    def _rewritten(self, outcome: _Outcome, added: Sequence[Imported]) -> list[Lines]:
        changed: dict[int, Imported | None] = dict(outcome.changed)
        changed.update({index: imported for index, (_, imported) in outcome.moved.items()})
        if not changed and not added:
            return []
        return [self._rewrite(outcome.statement, outcome.module, changed, added)]

    def _rewrite(
        self,
        statement: ImportStatement,
        module: str | None,
        changed: dict[int, Imported | None],
        added: Sequence[Imported],
    ) -> Lines:
        from shardfix.edits.import_statements import rewrite

        start, end = self._module.span(statement)
        newline = newline_at(self._module.source, start)
        text = rewrite(self._module.source[start:end], newline, module=module, changed=changed, added=added)
        return start, end, text

    def _new_statements(
        self, new: Sequence[_NewImport], apart: Sequence[tuple[ast.stmt, str, Imported]]
    ) -> list[Lines]:
        result: list[Lines] = []
        beside: dict[tuple[int, str], tuple[ast.stmt, list[Imported]]] = {}
        for statement, module, imported in apart:
            beside.setdefault((id(statement), module), (statement, []))[1].append(imported)
        for (_, module), (statement, names) in beside.items():
            result.append(insertion_after(self._module, statement, _from_import(module, names)))

        groups: dict[tuple[int, bool, str, bool], list[_NewImport]] = {}
        for item in new:
            groups.setdefault((id(item.anchor), item.before, item.module, item.name is None), []).append(item)
        for (_, before, module, whole), items in groups.items():
            if whole:
                code = f"import {module}" + (f" as {items[0].asname}" if items[0].asname else "")
            else:
                code = _from_import(module, [(item.name or "", item.asname) for item in items])
            result.append(self._new_statement(items[0].anchor, before, code))
        return result

    def _new_statement(self, anchor: ast.stmt, before: bool, code: str) -> Lines:
        module = self._module
        newline = newline_at(module.source, module.span(anchor)[0])
        at_top = isinstance(module.parent(anchor), ast.Module)
        if before:
            if not at_top or isinstance(anchor, ast.Import | ast.ImportFrom):
                return insertion_before(module, anchor, code)
            start, end, text = insertion_before(module, anchor, code)
            defines = isinstance(anchor, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            return (
                start,
                end,
                text.replace(newline, newline * (3 if defines else 2), 1) if text.endswith(newline) else text,
            )
        start, end, text = insertion_after(module, anchor, code)
        if is_header_statement(anchor) and text.startswith(newline):
            text = newline + text
            following = module.source[end:]
            if following.strip() and not re.match(r"(\r\n|\r|\n)[ \t\f]*(\r\n|\r|\n)", following):
                text += newline
        return start, end, text

    # What a DropImport leaves

    def _kept_of(
        self, statement: ImportStatement, alias: ast.alias, edit: DropImport, edited: Sequence[Lines]
    ) -> Imported | None:
        """What is left of an imported name: itself where something needs it, None where nothing does."""
        itself: Imported = (alias.name, alias.asname)
        module = self._module
        scope = module.scope_of(statement)
        bound = _bound(statement, alias)
        conditional = any(binding.conditional for binding in scope.bindings.get(bound, ()) if binding.node is alias)
        if conditional or module.path.replace("\\", "/").rpartition("/")[2] == "__init__.py":
            return itself
        start = module.span(statement)[0]
        if _KEEP.search(module.source, start, line_end(module, statement)):
            return itself
        chain = alias.name if isinstance(statement, ast.Import) and not alias.asname and "." in alias.name else None
        if chain is None:
            return itself if self._is_needed(bound, scope, edited) else None
        if self._is_read(chain, scope, edited):
            return itself
        others = [
            binding
            for binding in scope.bindings.get(bound, ())
            if binding.node is not alias and not binding.conditional
        ]
        first = others[0].position if others else None
        if not self._is_needed(bound, scope, edited) or (first is not None and first < (statement.lineno, 0)):
            return None
        return bound, None

    def _is_needed(self, bound: str, scope: Scope, edited: Sequence[Lines]) -> bool:
        module = self._module
        if any(bound in other.globals for other in module.scopes.values()):
            return True
        for constant in module.nodes(ast.Constant):
            if isinstance(constant.value, str) and bound in constant.value and self._may_name(constant, bound):
                return True
        return self._is_read(bound, scope, edited)

    def _is_read(self, chain: str, scope: Scope, edited: Sequence[Lines]) -> bool:
        """Whether a name or an attribute chain is read, in what stays of the text or in what is new."""
        bound = chain.partition(".")[0]
        for name in self._module.nodes(ast.Name):
            if name.id != bound or isinstance(name.ctx, ast.Store):
                continue
            known = self._module.scope_of(name).lookup(bound)
            if known is not None and known[0] is not scope and not known[0].is_class:
                continue
            whole: ast.AST = name
            for _ in range(chain.count(".")):
                parent = self._module.parent(whole)
                whole = parent if isinstance(parent, ast.Attribute) else whole
            if chain != bound and ast.unparse(whole) != chain:
                continue
            offset = self._module.offset(name.lineno, name.col_offset)
            if not any(start <= offset < end for start, end, _ in edited):
                return True
        pattern = re.compile(rf"(?<![\w.]){re.escape(chain)}\b(?!\s*=[^=])")
        return any(pattern.search(text) for _, _, text in edited)

    def _may_name(self, constant: ast.Constant, bound: str) -> bool:
        """Whether a string names ``bound`` to those who read it: in ``__all__``, or as an annotation."""
        if not re.search(rf"\b{re.escape(bound)}\b", constant.value if isinstance(constant.value, str) else ""):
            return False
        child: ast.AST = constant
        for ancestor in self._module.ancestors(constant):
            if isinstance(ancestor, ast.arg) or child is getattr(ancestor, "annotation", ancestor):
                return True
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
                return child is ancestor.returns
            if isinstance(ancestor, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr):
                return any(isinstance(part, ast.Name) and part.id == "__all__" for part in ast.walk(ancestor))
            if isinstance(ancestor, ast.stmt):
                return False
            child = ancestor
        return False


@dataclass
class _Outcome:
    """What becomes of one import statement."""

    statement: ImportStatement
    moved: dict[int, tuple[str, Imported]]
    """The names that come from another module now, by index."""
    changed: dict[int, Imported | None]
    module: str | None
    """The module of the whole statement, where all that stays of it moved there."""
    added: list[Imported]
    elsewhere: list[tuple[str, Imported]]

    def __init__(
        self,
        statement: ImportStatement,
        moved: dict[int, tuple[str, Imported]],
        changed: dict[int, Imported | None],
        module: str | None,
        added: list[Imported],
    ) -> None:
        self.statement, self.moved, self.changed, self.module, self.added = statement, moved, changed, module, added
        self.elsewhere = []

    def is_gone(self, added: Sequence[Imported]) -> bool:
        """Whether nothing is left of the statement."""
        gone = [index for index, new in self.changed.items() if new is None]
        return len(gone) == len(self.statement.names) and not added


class _Place:
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


def _top_level_imports(module: Module) -> list[ImportStatement]:
    """The imports that stand plain in the module's body, ``__future__`` excepted."""
    return [
        statement
        for statement in module.tree.body
        if isinstance(statement, ast.Import | ast.ImportFrom) and not is_header_statement(statement)
    ]


def _takes_from(statement: ast.stmt, module: str) -> bool:
    return (
        isinstance(statement, ast.ImportFrom)
        and statement.module == module
        and not statement.level
        and statement.names[0].name != "*"
    )


def _is_star_import(statement: ast.stmt, module: str) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == module and statement.names[0].name == "*"


def _is_import_of_jax(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return any(alias.name.partition(".")[0] == "jax" for alias in statement.names)
    return (
        isinstance(statement, ast.ImportFrom)
        and not statement.level
        and (statement.module or "").partition(".")[0] == "jax"
    )


def _top_level_anchor(module: Module, place: _Place, new: str, *, is_from: bool) -> tuple[ast.stmt, bool]:
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
    of_jax = [index for index in header if _is_import_of_jax(body[index])]
    of_jax = of_jax or [index for index in plain if _is_import_of_jax(body[index])]
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


def _bound(statement: ImportStatement, alias: ast.alias) -> str:
    if alias.asname:
        return alias.asname
    return alias.name.partition(".")[0] if isinstance(statement, ast.Import) else alias.name


def _rebound(alias: ast.alias, name: str) -> Imported:
    """``name`` with the ``as`` that keeps the binding of ``alias``."""
    if alias.asname is None:
        return name, (alias.name if alias.name != name else None)
    if alias.asname == name and alias.name != name:
        return name, None
    return name, alias.asname


def _prefixes(dotted: str) -> list[str]:
    """The packages of a dotted name, the innermost first."""
    parts = dotted.split(".")
    return [".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]


def _may_alias(binding: Binding, wanted: Iterable[str]) -> bool:
    """Whether it is worth asking what is bound (assignments are dear to follow)."""
    if binding.kind == "import":
        return True
    if binding.kind != "assignment" or binding.path:
        return False
    value = binding.value
    name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else None
    return name is not None and (
        isinstance(value, ast.Name) or name == "P" or any(item.endswith(name) for item in wanted)
    )


def _is_none(binding: Binding) -> bool:
    return binding.kind == "assignment" and isinstance(binding.value, ast.Constant) and binding.value.value is None


def _from_import(module: str, names: Iterable[Imported]) -> str:
    from shardfix.edits.import_statements import by_type

    unique = sorted(dict.fromkeys(names), key=lambda imported: by_type(imported[0]))
    return f"from {module} import " + ", ".join(f"{name} as {asname}" if asname else name for name, asname in unique)
