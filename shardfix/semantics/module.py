"""One Python module as codemods see it: queries over the stdlib tree, answered from one index a file."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from shardfix.codemod import Range
from shardfix.semantics import gates
from shardfix.semantics.calls import Call, collect_calls
from shardfix.semantics.project import Project
from shardfix.semantics.scopes import (
    Binding,
    Scope,
    ScopeNode,
    build_scopes,
    enclosing_scope_node,
    index_nodes,
    last_before,
)

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter
    from shardfix.semantics.interpreter.trace import Environment, Trace
    from shardfix.semantics.values import Value
    from shardfix.suppressions import UnusedSuppression
    from shardfix.tracebacks import Evidence

__all__ = ["ImportedName", "Module"]

Node = TypeVar("Node", bound=ast.AST)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
MAX_DEPTH = 24
MUTATORS = frozenset("append extend insert pop remove clear update setdefault popitem sort reverse add discard".split())


class ImportedName:
    """One name bound by one import statement."""

    __slots__ = ("alias", "bound", "dotted", "statement")

    def __init__(self, statement: ast.Import | ast.ImportFrom, alias: ast.alias, dotted: str, bound: str) -> None:
        self.statement = statement
        self.alias = alias
        self.dotted = dotted
        """The full dotted name of what is imported (for ``import a.b`` that is ``a.b`` though ``a`` is bound)."""
        self.bound = bound


class Module:
    """A parsed module.

    Args:
        source: the text; lines end in ``\\n``, ``\\r\\n`` or ``\\r``.
        path: where it comes from, for messages and for finding its siblings.
        project: the modules around it; a project of its own by default.
        evidence: what a traceback says of this module.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as :func:`ast.parse`.
    """

    def __init__(
        self, source: str, path: str = "<stdin>", project: Project | None = None, evidence: tuple[Evidence, ...] = ()
    ) -> None:
        self.source = source
        self.path = path
        self.project = project if project is not None else Project()
        self.evidence = evidence
        self.unused_suppressions: tuple[UnusedSuppression, ...] = ()
        """Comments that keep no finding back; known when all other codemods have come to rest."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.tree = ast.parse(source)
        self._nodes, self._parents = index_nodes(self.tree)
        self._scope_nodes: dict[ast.AST, ScopeNode] = {}
        self._resolved: dict[ast.AST, frozenset[str]] = {}
        self._resolving: set[ast.AST] = set()
        self._cut_short = False

    # Text and positions

    @cached_property
    def _lines(self) -> list[str]:
        """The lines with their ends, as ast counts them (by CR, LF and CRLF alone)."""
        lines: list[str] = []
        for piece in self.source.split("\n"):
            parts = (piece + "\n").replace("\r\n", "\n\0").split("\r")
            for index, part in enumerate(parts):
                text = part + "\r" if index < len(parts) - 1 else part
                lines.append(text.replace("\n\0", "\r\n"))
        return lines

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        for line in self._lines:
            starts.append(starts[-1] + len(line))
        return starts

    def offset(self, line: int, column: int) -> int:
        """The character offset of an ast position (line from 1, column in UTF-8 bytes)."""
        start = self._line_starts[line - 1]
        if self.source.isascii():
            return start + column
        return start + len(self._lines[line - 1].encode()[:column].decode(errors="replace"))

    def span(self, node: ast.AST | Range) -> tuple[int, int]:
        """The character offsets of the first character of ``node`` and of the one after its last."""
        place = node if isinstance(node, Range) else Range.of(node)
        return self.offset(place.line, place.column), self.offset(place.end_line, place.end_column)

    def text(self, node: ast.AST | Range) -> str:
        """The source text of ``node``."""
        start, end = self.span(node)
        return self.source[start:end]

    # The tree

    def nodes(self, kind: type[Node]) -> list[Node]:
        """All nodes of exactly this type, in source order."""
        return self._nodes.get(kind, [])  # type: ignore[return-value]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The parent of ``node``; None for the module."""
        return self._parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around ``node``, innermost first."""
        current = self._parents.get(node)
        while current is not None:
            yield current
            current = self._parents.get(current)

    def enclosing(self, node: ast.AST, *kinds: type[Node]) -> Node | None:
        """The innermost node around ``node`` that is of one of the types."""
        return next((ancestor for ancestor in self.ancestors(node) if isinstance(ancestor, kinds)), None)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds ``node`` (itself, if it is one)."""
        while not isinstance(node, ast.stmt):
            node = self._parents[node]
        return node

    def node_at(self, place: Range, kind: type[Node] = ast.expr) -> Node | None:  # type: ignore[assignment]
        """The node with exactly this range."""
        for candidates in self._nodes.values():
            if candidates and isinstance(candidates[0], kind):
                for node in candidates:
                    if hasattr(node, "lineno") and Range.of(node) == place:
                        return node  # type: ignore[return-value]
        return None

    # Scopes and names

    @cached_property
    def scopes(self) -> dict[ast.AST, Scope]:
        """All scopes by their node."""
        return build_scopes(self.tree, self._nodes, self._parents, self._scope_nodes)

    @property
    def module_scope(self) -> Scope:
        return self.scopes[self.tree]

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which ``node`` is evaluated."""
        return self.scopes[enclosing_scope_node(node, self._parents, self._scope_nodes)]

    def scope_at(self, place: Range) -> Scope:
        """The innermost scope whose body holds ``place``."""
        best: Scope = self.module_scope
        best_range: Range | None = None
        for node, scope in self.scopes.items():
            if isinstance(node, ast.Module):
                continue
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                around = Range(node.body[0].lineno, node.body[0].col_offset, *_end(node))
            elif isinstance(node, ast.Lambda):
                around = Range.of(node.body)
            else:
                around = Range.of(node)
            if around.holds(place) and (best_range is None or best_range.holds(around)):
                best, best_range = scope, around
        return best

    def references(self, name: str) -> list[ast.Name]:
        """The names that read the module-level binding of ``name`` (or delete it), wherever they stand."""
        found = []
        for node in self.nodes(ast.Name):
            if node.id == name and not isinstance(node.ctx, ast.Store):
                known = self.scope_of(node).lookup(name)
                if known is not None and known[0] is self.module_scope:
                    found.append(node)
        return found

    def reaching(self, name: ast.Name) -> list[Binding] | None:
        """The bindings that ``name`` may refer to where it stands; None for builtins and unbound names."""
        scope = self.scope_of(name)
        known = scope.lookup(name.id)
        if known is None:
            return None
        home, bindings = known
        if home is scope and len(bindings) > 1 and not self._in_loop(name, home):
            return last_before(bindings, (name.lineno, name.col_offset)) or bindings
        return bindings

    def _in_loop(self, node: ast.AST, scope: Scope) -> bool:
        for ancestor in self.ancestors(node):
            if ancestor is scope.node:
                return False
            if isinstance(ancestor, ast.For | ast.AsyncFor | ast.While):
                return True
        return False

    @cached_property
    def imports(self) -> list[ImportedName]:
        """Every imported name of the file, wherever the statement stands, in source order."""
        found: list[ImportedName] = []
        for statement in self.nodes(ast.Import):
            for alias in statement.names:
                bound = alias.asname or alias.name.partition(".")[0]
                found.append(ImportedName(statement, alias, alias.name, bound))
        for source in self.nodes(ast.ImportFrom):
            base = "." * source.level + (source.module or "")
            for alias in source.names:
                dotted = base + alias.name if base.endswith(".") else f"{base}.{alias.name}"
                found.append(ImportedName(source, alias, dotted, alias.asname or alias.name))
        return sorted(found, key=lambda name: (name.alias.lineno, name.alias.col_offset))

    def imports_of(self, *dotted: str) -> Iterator[ImportedName]:
        """The imports of these names (``jax.experimental.shard_map`` and ``jax.experimental.shard_map.shard_map`` differ)."""
        for name in self.imports:
            if name.dotted in dotted:
                yield name

    def resolve(self, node: ast.AST) -> frozenset[str]:
        """The full dotted names of what ``node`` may mean outside the project: ``{"jax.shard_map"}``.

        Follows import aliases, assignments, conditional expressions and re-exports of other modules of the project.
        Empty where any path leads to something else: a parameter, a function of the project, a computed value.
        """
        known = self._resolved.get(node)
        if known is not None:
            return known
        if node in self._resolving or len(self._resolving) > MAX_DEPTH:
            self._cut_short = True
            return frozenset()
        if not self._resolving:
            self._cut_short = False
        self._resolving.add(node)
        try:
            names = self._resolve(node)
        finally:
            self._resolving.discard(node)
        if (
            not self._cut_short or not self._resolving
        ):  # what a cycle cut short is only right for the outermost question
            self._resolved[node] = names
        return names

    def _resolve(self, node: ast.AST) -> frozenset[str]:
        match node:
            case ast.Name():
                bindings = self.reaching(node)
                if bindings is None:
                    return self._resolve_unbound(node)
                return self._resolve_bindings(bindings)
            case ast.Attribute():
                owners = self.resolve(node.value)
                result = frozenset[str]()
                for owner in owners:
                    inside = self._resolve_member(owner, node.attr)
                    if not inside:
                        return frozenset()
                    result |= inside
                return result
            case ast.IfExp():
                return _all_or_nothing([self.resolve(node.body), self.resolve(node.orelse)])
            case ast.BoolOp():
                return _all_or_nothing([self.resolve(value) for value in node.values])
            case ast.NamedExpr():
                return self.resolve(node.value)
        return frozenset()

    def _resolve_bindings(self, bindings: list[Binding]) -> frozenset[str]:
        return _all_or_nothing([self._resolve_binding(binding) for binding in bindings])

    def _resolve_binding(self, binding: Binding) -> frozenset[str]:
        if binding.kind == "import" and binding.dotted:
            return self._resolve_dotted(binding.dotted)
        if binding.kind == "assignment" and binding.value is not None:
            value: ast.expr = binding.value
            for index in binding.path:
                if not isinstance(value, ast.Tuple | ast.List) or index >= len(value.elts):
                    return frozenset()
                value = value.elts[index]
            return self.resolve(value)
        return frozenset()

    def _resolve_dotted(self, dotted: str) -> frozenset[str]:
        """What an imported dotted name means, looked up in the project's modules first."""
        base, _, name = dotted.rpartition(".")
        if not base.strip("."):
            return frozenset({dotted})
        level = dotted[: len(dotted) - len(dotted.lstrip("."))]
        if not level and dotted.partition(".")[0] == "jax":
            return frozenset({dotted})
        other = self.project.module(base, self.path)
        if other is None or other is self:
            return frozenset({dotted})
        return other.exported(name) or (frozenset({dotted}) if self.project.find(dotted, self.path) else frozenset())

    def _resolve_member(self, owner: str, attribute: str) -> frozenset[str]:
        if owner.partition(".")[0] == "jax":
            return frozenset({f"{owner}.{attribute}"})
        other = self.project.module(owner, self.path)
        if other is not None and other is not self:
            inside = other.exported(attribute)
            if inside or attribute in other.module_scope.bindings:
                return inside
        return frozenset({f"{owner}.{attribute}"})

    def exported(self, name: str) -> frozenset[str]:
        """What ``name`` means to a module that imports it from this one."""
        bindings = self.module_scope.bindings.get(name)
        if bindings:
            key = bindings[0].node
            if key in self._resolving:
                return frozenset()
            self._resolving.add(key)
            try:
                return self._resolve_bindings(bindings)
            finally:
                self._resolving.discard(key)
        for base in self.module_scope.star_imports:
            other = self.project.module(base, self.path)
            if other is not None and other is not self:
                inside = other.exported(name)
                if inside:
                    return inside
        return frozenset()

    def _resolve_unbound(self, node: ast.Name) -> frozenset[str]:
        for base in self.module_scope.star_imports:
            other = self.project.module(base, self.path)
            if other is not None and other is not self:
                inside = other.exported(node.id)
                if inside:
                    return inside
            elif base.partition(".")[0] == "jax" and not node.id.startswith("_") and node.id not in _BUILTINS:
                return frozenset({f"{base}.{node.id}"})
        return frozenset({f"builtins.{node.id}"}) if node.id in _BUILTINS else frozenset()

    def definition(self, node: ast.AST) -> tuple[Module, Definition] | None:
        """The one function or class of the project that a name or attribute means, with its module; None where unsure."""
        match node:
            case ast.Name():
                bindings = self.reaching(node)
                return self._definition_of(bindings) if bindings else self._star_definition(node.id)
            case ast.Attribute():
                owners = self.resolve(node.value)
                if len(owners) == 1:
                    other = self.project.module(next(iter(owners)), self.path)
                    if other is not None:
                        return other.exported_definition(node.attr)
        return None

    def _definition_of(self, bindings: list[Binding], depth: int = 0) -> tuple[Module, Definition] | None:
        if len(bindings) != 1 or depth > MAX_DEPTH:
            return None
        binding = bindings[0]
        if isinstance(binding.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return self, binding.node
        if binding.kind == "import" and binding.dotted:
            base, _, name = binding.dotted.rpartition(".")
            if binding.dotted.startswith(".") and not base.strip("."):
                base = binding.dotted[: len(binding.dotted) - len(name)]
            other = self.project.module(base, self.path) if base else None
            if other is not None and other is not self:
                return other.exported_definition(name, depth + 1)
            return None
        if binding.kind == "assignment" and isinstance(binding.value, ast.Name | ast.Attribute) and not binding.path:
            if isinstance(binding.value, ast.Name):
                inner = self.reaching(binding.value)
                return self._definition_of(inner, depth + 1) if inner else None
            return self.definition(binding.value)
        return None

    def exported_definition(self, name: str, depth: int = 0) -> tuple[Module, Definition] | None:
        """The function or class that this module exports under ``name``."""
        bindings = self.module_scope.bindings.get(name)
        if bindings:
            return self._definition_of(bindings, depth)
        return self._star_definition(name, depth)

    def _star_definition(self, name: str, depth: int = 0) -> tuple[Module, Definition] | None:
        if depth > MAX_DEPTH:
            return None
        for base in self.module_scope.star_imports:
            other = self.project.module(base, self.path)
            if other is not None and other is not self:
                found = other.exported_definition(name, depth + 1)
                if found is not None:
                    return found
        return None

    # Calls and uses

    @cached_property
    def _calls(self) -> dict[str, list[Call]]:
        return collect_calls(self)

    def calls_to(self, *dotted: str) -> list[Call]:
        """The calls of these callables, in source order, with those through ``functools.partial``.

        ``partial(jax.shard_map, mesh=mesh)`` is such a call itself (``call.is_partial``), and so is the call of a name
        that is bound to it (``call.earlier`` is then the partial).
        """
        found = [call for name in dict.fromkeys(dotted) for call in self._calls.get(name, ())]
        if len(dotted) == 1:
            return found
        unique = {id(call): call for call in found}
        return sorted(
            unique.values(), key=lambda call: (call.node.lineno, call.node.col_offset, -(call.node.end_col_offset or 0))
        )

    @property
    def called_names(self) -> frozenset[str]:
        """The dotted names of everything outside the project that is called here."""
        return frozenset(self._calls)

    @cached_property
    def _calls_by_node(self) -> dict[ast.Call, list[Call]]:
        found: dict[ast.Call, list[Call]] = {}
        for calls in self._calls.values():
            for call in calls:
                found.setdefault(call.node, []).append(call)
        return found

    def calls_at(self, node: ast.Call) -> list[Call]:
        """Everything outside the project that a call node may call; a partial and the call of what it is partial of are two."""
        return self._calls_by_node.get(node, [])

    def call_of(self, node: ast.Call) -> Call | None:
        """The resolved call for a call node."""
        for calls in self._calls.values():
            for call in calls:
                if call.node is node:
                    return call
        return None

    @cached_property
    def _uses(self) -> dict[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        nodes: list[ast.Name | ast.Attribute] = [*self.nodes(ast.Name), *self.nodes(ast.Attribute)]
        for node in nodes:
            if isinstance(node.ctx, ast.Load):
                for dotted in self.resolve(node):
                    found.setdefault(dotted, []).append(node)
        return found

    def uses_of(self, *dotted: str) -> list[ast.expr]:
        """The names and attribute chains that read one of these objects, in source order (imports are not uses)."""
        found = [node for name in dict.fromkeys(dotted) for node in self._uses.get(name, ())]
        return sorted(found, key=lambda node: (node.lineno, node.col_offset))

    @property
    def used_names(self) -> frozenset[str]:
        """The dotted names of everything outside the project that is read here."""
        return frozenset(self._uses)

    @cached_property
    def mutated_names(self) -> frozenset[str]:
        """Names whose objects are changed in place somewhere in the file: by item assignment, attribute or a list's methods."""
        found: set[str] = set()
        imported = {name.bound for name in self.imports}  # jnp.append and lax.add change nothing
        nodes: list[ast.Subscript | ast.Attribute] = [*self.nodes(ast.Subscript), *self.nodes(ast.Attribute)]
        for node in nodes:
            if isinstance(node.value, ast.Name) and not isinstance(node.ctx, ast.Load):
                found.add(node.value.id)
            elif isinstance(node, ast.Attribute) and node.attr in MUTATORS and isinstance(node.value, ast.Name):
                if isinstance(self.parent(node), ast.Call) and node.value.id not in imported:
                    found.add(node.value.id)
        return frozenset(found - {"self", "cls"})

    @cached_property
    def rebound_names(self) -> frozenset[str]:
        """Names that functions bind in scopes around them, by ``global`` or ``nonlocal``."""
        statements: list[ast.Global | ast.Nonlocal] = [*self.nodes(ast.Global), *self.nodes(ast.Nonlocal)]
        return frozenset(name for statement in statements for name in statement.names)

    @cached_property
    def generators(self) -> frozenset[ast.AST]:
        """The functions that hold a ``yield``."""
        yields: list[ast.Yield | ast.YieldFrom] = [*self.nodes(ast.Yield), *self.nodes(ast.YieldFrom)]
        return frozenset(self.scope_of(node).node for node in yields)

    @cached_property
    def loops_with_jumps(self) -> frozenset[ast.AST]:
        """The loops that hold a ``break`` or ``continue``, of whichever loop."""
        jumps: list[ast.Break | ast.Continue] = [*self.nodes(ast.Break), *self.nodes(ast.Continue)]
        return frozenset(
            around for jump in jumps for around in self.ancestors(jump) if isinstance(around, ast.For | ast.While)
        )

    # Compatibility code

    def is_compatibility_code(self, node: ast.AST) -> bool:
        """Whether ``node`` runs only on some versions of JAX: in a try that catches ImportError, under a version gate,
        a ``hasattr`` or an ``inspect.signature`` probe."""
        return gates.is_gated(self, node)

    # Values

    def value_of(self, node: ast.expr) -> Value:
        """What is known of the value of an expression where it stands: constants, specs, meshes, shardings, functions."""
        from shardfix.semantics.interpreter.core import value_of

        return value_of(self, node)

    @cached_property
    def static_interpreter(self) -> Interpreter:
        """The interpreter that answers :meth:`value_of`, with what it has found out already."""
        from shardfix.semantics.interpreter.core import Interpreter

        return Interpreter()

    @cached_property
    def static_environments(self) -> dict[Scope, Environment]:
        """The static environments of the scopes that were asked about."""
        return {}

    @cached_property
    def static_values(self) -> dict[ast.expr, Value]:
        """The answers that :meth:`value_of` has given."""
        return {}

    @cached_property
    def trace(self) -> Trace:
        """What running the module on what is known shows of its mapped functions and of its calls that take shardings."""
        from shardfix.semantics.analysis import analyse

        return analyse(self)


def _end(node: ast.stmt) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _all_or_nothing(parts: list[frozenset[str]]) -> frozenset[str]:
    result = frozenset[str]()
    for part in parts:
        if not part:
            return frozenset()
        result |= part
    return result


_BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)
