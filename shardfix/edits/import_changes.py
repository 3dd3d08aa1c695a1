"""What becomes of the import statements of a module when a plan is carried out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from shardfix.edits.import_plan import (
    Imported,
    ImportStatement,
    NewImport,
    Plan,
    bound_by,
    takes_from,
    top_level_imports,
)
from shardfix.edits.place import newline_at
from shardfix.edits.statements import (
    Lines,
    block_of,
    insertion_after,
    insertion_before,
    is_header_statement,
    line_end,
    removal,
)
from shardfix.semantics.flow import importers, module_of
from shardfix.semantics.gates import is_in_main_block

if TYPE_CHECKING:
    from shardfix.edits import DropImport
    from shardfix.semantics.module import Module
    from shardfix.semantics.scopes import Scope

__all__ = ["import_splices"]

_KEEP = re.compile(r"#\s*noqa\s*:[^#\r\n]*\bF401\b")


def import_splices(module: Module, plan: Plan, edited: Sequence[Lines]) -> list[Lines]:
    """The changes to the import statements of ``module``, given all other changes to its text."""
    return _Changes(module, plan, edited).splices()


@dataclass
class _Outcome:
    """What becomes of one import statement."""

    statement: ImportStatement
    moved: dict[int, tuple[str, Imported]] = field(default_factory=dict)
    """The names that come from another module now, by index."""
    changed: dict[int, Imported | None] = field(default_factory=dict)
    """What else becomes of names; None for those that go."""
    module: str | None = None
    """The module of the whole statement, where all that stays of it moved there."""
    added: list[Imported] = field(default_factory=list)
    elsewhere: list[tuple[str, Imported]] = field(default_factory=list)
    """Names that were to be added, but whose module the statement no longer takes from."""

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left of the statement."""
        gone = [index for index, new in self.changed.items() if new is None]
        return len(gone) == len(self.statement.names) and not self.added


class _Changes:
    """One run of :func:`import_splices`."""

    def __init__(self, module: Module, plan: Plan, edited: Sequence[Lines]) -> None:
        self._module = module
        self._plan = plan
        self._edited = edited
        self._new = list(plan.new)
        self._apart: list[tuple[ast.stmt, str, Imported]] = []
        """Names for new statements right after others."""
        self._loads: dict[int, list[str]] = {}
        """Modules that only some imported names load, by the identity of the statement: they are loaded in its place, or after it."""
        self._outcomes = {key: self._outcome(statement) for key, statement in plan.statements.items()}

    def splices(self) -> list[Lines]:
        """All changes, in no order."""
        for outcome in list(self._outcomes.values()):
            self._settle(outcome)
        outcomes = self._outcomes.values()
        removed: list[ast.stmt] = [
            outcome.statement for outcome in outcomes if outcome.is_gone and id(outcome.statement) not in self._loads
        ]
        result: list[Lines] = []
        for outcome in outcomes:
            loads = ", ".join(self._loads.get(id(outcome.statement), ()))
            if outcome.is_gone and loads:
                result.append((*self._module.span(outcome.statement), f"import {loads}"))
                continue
            if loads:
                result.append(insertion_after(self._module, outcome.statement, f"import {loads}"))
            if outcome.is_gone:
                block = block_of(self._module, outcome.statement)
                others = [item for item in block if any(item is gone for gone in removed)]
                result.append(removal(self._module, outcome.statement, others))
            else:
                result += self._rewritten(outcome)
        return [*result, *self._new_statements()]

    def _outcome(self, statement: ImportStatement) -> _Outcome:
        outcome = _Outcome(statement)
        for index, alias in enumerate(statement.names):
            to = self._plan.moves.get(id(alias))
            if to is not None:
                module, _, name = to.rpartition(".")
                outcome.moved[index] = (module, _rebound(alias, name))
            elif id(alias) in self._plan.drops:
                kept = self._kept_of(statement, alias, self._plan.drops[id(alias)])
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

    def _settle(self, outcome: _Outcome) -> None:
        """Find a home for the names that leave a statement: another one, or a new one right after it."""
        statement = outcome.statement
        going = {index: name for index, name in outcome.moved.items() if name[0] != outcome.module}
        self._leave(statement, [*going.values(), *outcome.elsewhere])
        staying = {index: name for index, name in outcome.moved.items() if index not in going}
        alone = not outcome.added and not any(other is statement for other, _, _ in self._apart)
        if staying and alone and not self._has_comment(statement):
            # The statement as a whole is better merged than moved, if there is one to take its names.
            if all(self._home_for(statement, module, imported) for module, imported in staying.values()):
                self._leave(statement, list(staying.values()))
                going, outcome.module = outcome.moved, None
        outcome.changed.update(dict.fromkeys(going))
        outcome.moved = {index: name for index, name in outcome.moved.items() if index not in going}

    def _leave(self, statement: ImportStatement, names: Sequence[tuple[str, Imported]]) -> None:
        for module, imported in names:
            home = self._home_for(statement, module, imported)
            if home is None:
                self._apart.append((statement, module, imported))
            elif isinstance(home, NewImport):
                self._new.append(replace(home, name=imported[0], asname=imported[1], target=""))
            else:
                self._outcomes.setdefault(id(home), _Outcome(home)).added.append(imported)

    def _home_for(
        self,
        statement: ImportStatement,
        module: str,
        imported: Imported,
    ) -> ImportStatement | NewImport | None:
        """Another statement, plain and at top level, that the name can come from before it is first read."""
        if not isinstance(self._module.parent(statement), ast.Module):
            return None
        bound = imported[1] or imported[0]
        references = [self._module.span(name)[0] for name in self._module.references(bound)]
        first = min(references, default=len(self._module.source))
        for other in top_level_imports(self._module):
            if other is statement or self._module.span(other)[1] > first:
                continue
            moving = any(id(alias) in self._plan.moves or id(alias) in self._plan.drops for alias in other.names)
            if takes_from(other, module) and not moving:
                return other
        for planned in self._new:
            if planned.module == module and planned.name and planned.home is self._module.module_scope:
                end = self._module.span(planned.anchor)[0 if planned.before else 1]
                if end <= first:
                    return planned
        return None

    def _has_comment(self, statement: ImportStatement) -> bool:
        start = self._module.span(statement)[0]
        return "#" in self._module.source[start : line_end(self._module, statement)]

    def _rewritten(self, outcome: _Outcome) -> list[Lines]:
        from shardfix.edits.import_statements import rewrite

        changed: dict[int, Imported | None] = dict(outcome.changed)
        changed.update({index: imported for index, (_, imported) in outcome.moved.items()})
        if not changed and not outcome.added:
            return []
        start, end = self._module.span(outcome.statement)
        newline = newline_at(self._module.source, start)
        text = self._module.source[start:end]
        return [(start, end, rewrite(text, newline, module=outcome.module, changed=changed, added=outcome.added))]

    def _new_statements(self) -> list[Lines]:
        result: list[Lines] = []
        beside: dict[tuple[int, str], tuple[ast.stmt, list[Imported]]] = {}
        for statement, module, imported in self._apart:
            beside.setdefault((id(statement), module), (statement, []))[1].append(imported)
        for (_, module), (statement, names) in beside.items():
            result.append(insertion_after(self._module, statement, _from_import(module, names)))

        groups: dict[tuple[int, bool, str, bool], list[NewImport]] = {}
        for item in self._new:
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

    def _kept_of(self, statement: ImportStatement, alias: ast.alias, edit: DropImport) -> Imported | None:
        """What is left of an imported name: itself where something needs it, None where nothing does."""
        itself: Imported = (alias.name, alias.asname)
        module = self._module
        scope = module.scope_of(statement)
        bound = bound_by(statement, alias)
        conditional = any(binding.conditional for binding in scope.bindings.get(bound, ()) if binding.node is alias)
        if (conditional and not is_in_main_block(module, statement)) or module.path.replace("\\", "/").rpartition("/")[
            2
        ] == "__init__.py":
            return itself
        start = module.span(statement)[0]
        if _KEEP.search(module.source, start, line_end(module, statement)):
            return itself
        if isinstance(statement, ast.ImportFrom) and scope is module.module_scope and importers(module, {bound}):
            return itself
        loaded = _loaded(statement, alias)
        readers = self._spelled_out(loaded, statement, alias) if loaded else frozenset()
        if loaded and readers:
            if (
                readers != {"jax"}
                or self._is_needed(bound, scope)
                or not isinstance(module.parent(statement), ast.Module)
            ):
                return itself
            self._loads.setdefault(id(statement), []).append(loaded)
            return None
        chain = alias.name if isinstance(statement, ast.Import) and not alias.asname and "." in alias.name else None
        if chain is None:
            return itself if self._is_needed(bound, scope) else None
        if self._is_read(chain, scope):
            return itself
        if not self._is_needed(bound, scope):
            return None
        own = (alias.lineno, alias.col_offset)
        reads = [(name.lineno, name.col_offset) for name in module.references(bound)]
        for binding in scope.bindings.get(bound, ()):
            if binding.node is alias or binding.conditional or not isinstance(binding.node, ast.alias):
                continue
            position = (binding.node.lineno, binding.node.col_offset)
            is_going = id(binding.node) in self._plan.drops  # the first of those that go binds the name all the same
            if position < own or (not is_going and position < min(reads, default=position)):
                return None
        return bound, None

    def _spelled_out(self, chain: str, statement: ImportStatement, alias: ast.alias) -> frozenset[str]:
        """What ``jax.experimental.pjit`` begins with (``jax``) where it is spelled out and only this import loads that module."""
        module = self._module
        for imported in module.imports:
            if imported.alias is not alias and f"{imported.dotted}.".startswith(f"{chain}."):
                if not {id(imported.alias)} & (self._plan.drops.keys() | self._plan.moves.keys()):
                    return frozenset()
        found: set[str] = set()
        for node in module.nodes(ast.Attribute):
            if node.attr == chain.rpartition(".")[2] and module.resolve(node) == {chain}:
                root = module_of(node)
                offset = module.offset(node.lineno, node.col_offset)
                if root is None or root == bound_by(statement, alias):
                    continue
                if not any(start <= offset < end for start, end, _ in self._edited):
                    found.add(root)
        return frozenset(found)

    def _is_needed(self, bound: str, scope: Scope) -> bool:
        module = self._module
        if any(bound in other.globals for other in module.scopes.values()):
            return True
        for constant in module.nodes(ast.Constant):
            if isinstance(constant.value, str) and bound in constant.value and self._may_name(constant, bound):
                return True
        return self._is_read(bound, scope)

    def _is_read(self, chain: str, scope: Scope) -> bool:
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
            if not any(start <= offset < end for start, end, _ in self._edited):
                return True
        pattern = re.compile(rf"(?<![\w.]){re.escape(chain)}\b(?!\s*=[^=])")
        return any(pattern.search(text) for _, _, text in self._edited)

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


def _loaded(statement: ImportStatement, alias: ast.alias) -> str | None:
    """The module of ``jax.experimental`` that ``from jax.experimental import pjit`` loads, which ``import jax`` does not."""
    base = statement.module if isinstance(statement, ast.ImportFrom) and not statement.level else None
    if not base:
        return None
    chain = base if base.endswith(f".{alias.name}") else f"{base}.{alias.name}"
    return chain if chain.startswith("jax.experimental.") else None


def _rebound(alias: ast.alias, name: str) -> Imported:
    """``name`` with the ``as`` that keeps the binding of ``alias``."""
    if alias.asname is None:
        return name, (alias.name if alias.name != name else None)
    if alias.asname == name and alias.name != name:
        return name, None
    return name, alias.asname


def _from_import(module: str, names: Iterable[Imported]) -> str:
    from shardfix.edits.import_statements import by_type

    unique = sorted(dict.fromkeys(names), key=lambda imported: by_type(imported[0]))
    return f"from {module} import " + ", ".join(f"{name} as {asname}" if asname else name for name, asname in unique)
