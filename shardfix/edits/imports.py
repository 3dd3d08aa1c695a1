"""The importer: how an object is spelled at a place, and what that asks of the import statements.

It decides on the stdlib tree; :mod:`shardfix.edits.import_changes` says what becomes of the statements.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
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
from shardfix.edits.import_changes import import_splices
from shardfix.edits.import_plan import (
    Imported,
    ImportStatement,
    NewImport,
    Place,
    Plan,
    bound_by,
    is_import_of_jax,
    is_star_import,
    takes_from,
    top_level_anchor,
    top_level_imports,
)
from shardfix.edits.place import Refusal, locate
from shardfix.edits.statements import is_header_statement

if TYPE_CHECKING:
    from shardfix.edits import DropImport, MoveImport
    from shardfix.edits.statements import Lines
    from shardfix.semantics.module import Module
    from shardfix.semantics.scopes import Binding, Scope

__all__ = ["Importer", "Postponement"]

ALWAYS_LOADED = frozenset(
    "jax jax.core jax.debug jax.distributed jax.dlpack jax.dtypes jax.errors jax.image jax.lax jax.nn jax.numpy "
    "jax.numpy.linalg jax.numpy.fft jax.profiler jax.random jax.sharding jax.stages jax.tree jax.tree_util jax.typing".split()
)
"""The modules that ``import jax`` loads, in every version from 0.4.38 to 0.12."""

IMPORTED_BY_NAME = frozenset({"jax.sharding", "jax.extend.core", "jax.extend.core.primitives", "jax.extend.sharding"})
"""Modules of JAX whose names are customarily imported one by one; those of the others are spelled through the module."""

CUSTOMARY_NAMES = {"jax.sharding.PartitionSpec": "P"}
CUSTOMARY_MODULE_NAMES = {"jax.numpy": "jnp", "numpy": "np"}


class Postponement(Exception):
    """A fix that must wait for the next pass."""


class Importer:
    """Answers what to write for an object at a place, and collects what that asks of the imports of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._plan = Plan()

    # A fix is all or nothing: what it asked for can be taken back.

    @property
    def plan(self) -> Plan:
        """The state to go back to with :meth:`restore`."""
        return self._plan.copy()

    def restore(self, plan: Plan) -> None:
        self._plan = plan

    def splices(self, edited: Sequence[Lines]) -> list[Lines]:
        """The changes to import statements, given all other changes to the text."""
        return import_splices(self._module, self._plan, edited)

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
            alias for alias in statement.names if edit.bound in (bound_by(statement, alias), alias.asname or alias.name)
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
        place = Place(self._module, node, avoid)
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
        found = found or self._through_jax(target, place) or self._through_new_jax(target, place)
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

    def _names_for(self, place: Place, wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
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

    def _alias(self, target: str, place: Place) -> str | None:
        names = [name for name, _ in self._names_for(place, [target])]
        if len(names) == 1:
            return names[0]
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
                    (item for item in top_level_imports(self._module) if is_star_import(item, base)),
                    None,
                )
                if statement is not None and place.is_after(statement, place.module_scope):
                    return name
        return None

    def _through_module(self, target: str, place: Place) -> str | None:
        prefixes = [prefix for prefix in _prefixes(target) if prefix != "jax"]
        found = {meaning: name for name, meaning in reversed(list(self._names_for(place, prefixes)))}
        for prefix in prefixes:
            if prefix in found:
                return found[prefix] + target[len(prefix) :]
        return None

    def _through_jax(self, target: str, place: Place) -> str | None:
        home = target.rpartition(".")[0]
        if home not in ALWAYS_LOADED and not self._is_loaded(home):
            return None
        for name, _ in self._names_for(place, ["jax"]):
            if target == "jax.sharding.PartitionSpec" and self._writes("P"):
                return f"{name}.P"
            return name + target[len("jax") :]
        return None

    def _through_new_jax(self, target: str, place: Place) -> str | None:
        """The way out where the name itself is taken."""
        free = is_free(self._module, "jax", place.module_scope, place.node)
        if target.rpartition(".")[0] not in ALWAYS_LOADED or place.avoids("jax") or self._is_planned("jax") or not free:
            return None
        scope, anchor, before = self._anchor("jax", place, False)
        self._plan.new = (*self._plan.new, NewImport("jax", None, None, "jax", scope, anchor, before))
        return target

    def _is_loaded(self, home: str) -> bool:
        return any(
            isinstance(statement, ast.Import)
            and any(f"{alias.name}.".startswith(f"{home}.") for alias in statement.names)
            for statement in top_level_imports(self._module)
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
        imports_names = any(takes_from(statement, home) for statement in top_level_imports(self._module))
        return home == "jax.sharding" and not imports_names and self._writes("sharding")

    def _relied_on(self, target: str, place: Place) -> str | None:
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

    def _merged(self, home: str, last: str, target: str, place: Place) -> str | None:
        """The name, added to an import statement that takes others from the same module."""
        for statement in reversed(top_level_imports(self._module)):
            if self._takes_from_after_moves(statement, home) and place.is_after(statement, place.module_scope):
                name = self._free_name(target, last, place, place.module_scope)
                if name is None:
                    return None
                self._add(statement, home, (last, name if name != last else None))
                return name
        return None

    def _module_merged(self, home: str, last: str, place: Place) -> str | None:
        """The module of the name (``lax``), added to an import statement that takes others from ``jax``."""
        package, _, module = home.rpartition(".")
        name = CUSTOMARY_MODULE_NAMES.get(home, module)
        if not package or home not in ALWAYS_LOADED or home in CUSTOMARY_MODULE_NAMES:
            return None
        for statement in reversed(top_level_imports(self._module)):
            if takes_from(statement, package) and place.is_after(statement, place.module_scope):
                if place.avoids(name) or not is_free(self._module, name, place.module_scope, place.node):
                    return None
                self._add(statement, package, (module, None))
                return f"{name}.{last}"
        return None

    def _takes_from_after_moves(self, statement: ImportStatement, module: str) -> bool:
        moves = [self._plan.moves.get(id(alias)) for alias in statement.names]
        if all(moves):
            return {str(to).rpartition(".")[0] for to in moves} == {module}
        return takes_from(statement, module)

    def _add(self, statement: ImportStatement, module: str, imported: Imported) -> None:
        self._plan.statements[id(statement)] = statement
        present = self._plan.added.get(id(statement), ())
        if (module, imported) not in present:
            self._plan.added[id(statement)] = (*present, (module, imported))

    def _free_name(self, target: str, last: str, place: Place, home: Scope) -> str | None:
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

    def _new(self, home: str, last: str, target: str, place: Place, by_name: bool) -> str | None:
        scope, anchor, before = self._anchor(home, place, by_name)
        if anchor is not None and not before and takes_from(anchor, home) and scope is not place.module_scope:
            name = self._free_name(target, last, place, scope)
            if name is not None:
                self._add(anchor, home, (last, name if name != last else None))  # type: ignore[arg-type]
            return name
        new: NewImport | None = None
        if by_name and home not in CUSTOMARY_MODULE_NAMES:
            name = self._free_name(target, last, place, scope)
            if name is None:
                return None
            new = NewImport(home, last, name if name != last else None, target, scope, anchor, before)
            result = name
        else:
            package, _, module = home.rpartition(".")
            name = CUSTOMARY_MODULE_NAMES.get(home, module)
            if self._is_planned(name) or place.avoids(name) or not is_free(self._module, name, scope, place.node):
                return None
            if home in CUSTOMARY_MODULE_NAMES:
                new = NewImport(home, None, name, home, scope, anchor, before)
            elif package:
                new = NewImport(package, module, None, home, scope, anchor, before)
            else:
                new = NewImport(home, None, None, home, scope, anchor, before)
            result = f"{name}.{last}"
        self._plan.new = (*self._plan.new, new)
        return result

    # Places for new statements

    def _anchor(self, home: str, place: Place, by_name: bool) -> tuple[Scope, ast.stmt, bool]:
        """The scope that the import goes to, and the statement that it goes after (or, if True, before)."""
        module = self._module
        if home.partition(".")[0] == "jax" and self._imports_jax_lazily():
            function = function_around(module, place.node)
            if function is None:
                raise Refusal(f"line {place.line}: jax is imported on some paths only, and no import can be added here")
            scope = module.scopes[function]
            for block in preceding(module, place.node, function):
                for statement in reversed(block):
                    if is_import_of_jax(statement):
                        return scope, statement, False
            first = next((item for item in function.body if not is_header_statement(item)), function.body[0])
            return scope, first, True
        anchor, before = top_level_anchor(module, place, home, is_from=by_name)
        return module.module_scope, anchor, before

    def _imports_jax_lazily(self) -> bool:
        """Whether jax is imported in functions or under conditions only."""
        if any(is_import_of_jax(statement) for statement in top_level_imports(self._module)):
            return False
        return any(
            is_import_of_jax(statement)
            for kind in (ast.Import, ast.ImportFrom)
            for statement in self._module.nodes(kind)
        )

    def _move_anchor_before(self, new: NewImport, place: Place) -> None:
        """See that a planned statement runs before ``place`` does too."""
        if new.home is not place.module_scope or runs_later(self._module, place.node, place.module_scope):
            return
        anchor, before = top_level_anchor(self._module, place, new.module, is_from=new.name is not None)
        if (anchor.lineno, not before) < (new.anchor.lineno, not new.before):
            changed = replace(new, anchor=anchor, before=before)
            self._plan.new = tuple(changed if item is new else item for item in self._plan.new)


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
