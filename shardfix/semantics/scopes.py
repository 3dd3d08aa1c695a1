"""Python's scopes: which names are bound where, and what a name may refer to at a place."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

__all__ = ["Binding", "Scope", "ScopeNode", "build_scopes", "enclosing_scope_node"]

ScopeNode = (
    ast.Module
    | ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.Lambda
    | ast.ClassDef
    | ast.ListComp
    | ast.SetComp
    | ast.DictComp
    | ast.GeneratorExp
)
SCOPE_NODES = (
    ast.Module,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
CONDITIONAL = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match, ast.ExceptHandler)

Kind = Literal["import", "parameter", "assignment", "function", "class", "with", "other"]


@dataclass(frozen=True, eq=False)
class Binding:
    """One place where a name is bound."""

    name: str
    kind: Kind
    node: ast.AST
    """The alias, argument, definition, or the name that is assigned to."""
    statement: ast.stmt | ast.Lambda | ast.expr
    """The statement that binds (the lambda or comprehension for its parameters)."""
    conditional: bool = False
    """Whether the statement stands in an if, a loop, a try or a match of its scope."""
    dotted: str | None = None
    """For imports: the full dotted name that is bound (relative imports keep their dots)."""
    value: ast.expr | None = None
    """For assignments and ``with ... as``: the expression that is bound."""
    path: tuple[int, ...] = ()
    """For ``a, (b, c) = value``: the indices that lead from the value to this name."""

    @property
    def position(self) -> tuple[int, int]:
        """Where the name has its value: in ``x = f(x)`` not before the end."""
        node = self.statement
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            return (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        if self.kind == "with":
            node = self.node  # type: ignore[assignment]
        return (node.lineno, node.col_offset)


@dataclass(eq=False)
class Scope:
    """The names bound by a module, function, class, lambda or comprehension."""

    node: ScopeNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    star_imports: list[str] = field(default_factory=list)

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    @property
    def module_scope(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def lookup(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that gives ``name`` its meaning here, with its bindings there; None for builtins and unbound names."""
        scope: Scope | None = self
        first = True
        while scope is not None:
            if name in scope.globals:
                scope = scope.module_scope
                found = scope.bindings.get(name)
                return (scope, found) if found else None
            if (first or not scope.is_class) and name not in scope.nonlocals and name in scope.bindings:
                return scope, scope.bindings[name]
            # A comprehension in a class body sees the class's names only in its first iterable; taking the class
            # scope for the rest too errs towards "bound", which is the careful side.
            first = first and isinstance(scope.node, COMPREHENSIONS)
            scope = scope.parent
        return None

    def add(self, binding: Binding) -> None:
        target = self
        if binding.name in self.globals:
            target = self.module_scope
        elif binding.name in self.nonlocals:
            outer = self.parent
            while outer is not None and (outer.is_class or binding.name not in outer.bindings):
                outer = outer.parent
            target = outer or self
        target.bindings.setdefault(binding.name, []).append(binding)


def enclosing_scope_node(
    node: ast.AST, parents: Mapping[ast.AST, ast.AST], known: dict[ast.AST, ScopeNode]
) -> ScopeNode:
    """The node of the scope that ``node`` is evaluated in: defaults, decorators, bases and first iterables lie outside.

    ``known`` holds earlier answers, and gets those of the nodes on the way.
    """
    passed: list[ast.AST] = []
    found = known.get(node)
    while found is None:
        passed.append(node)
        parent = parents.get(node)
        match parent:
            case None:
                assert isinstance(node, ast.Module)
                found = node
            case ast.Lambda() if node is not parent.body:
                node = parent
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if not isinstance(node, ast.stmt):
                node = parent
            case ast.Module() | ast.Lambda() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found = parent
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                found = parent
            case ast.comprehension() if node is parent.iter and parents[parent].generators[0] is parent:  # type: ignore[attr-defined]
                node = parents[parent]
            case _:
                node = parent
        found = found or known.get(node)
    known.update(dict.fromkeys(passed, found))
    return found


def build_scopes(
    tree: ast.Module,
    nodes: Mapping[type, list[ast.AST]],
    parents: Mapping[ast.AST, ast.AST],
    around: dict[ast.AST, ScopeNode],
) -> dict[ast.AST, Scope]:
    """All scopes of a module by their node. ``nodes`` holds the nodes of the tree by type, in source order; ``around`` is for
    :func:`enclosing_scope_node`."""
    scopes: dict[ast.AST, Scope] = {tree: Scope(tree, None)}

    def scope_for(node: ast.AST) -> Scope:
        known = scopes.get(node)
        if known is None:
            outer = enclosing_scope_node(node, parents, around)
            known = scopes[node] = Scope(node, scope_for(outer))  # type: ignore[arg-type]
        return known

    def scope_of(node: ast.AST) -> Scope:
        return scope_for(enclosing_scope_node(node, parents, around))

    for kind in SCOPE_NODES[1:]:
        for node in nodes.get(kind, ()):
            scope_for(node)
    for statement in nodes.get(ast.Global, ()):
        assert isinstance(statement, ast.Global)
        scope_of(statement).globals.update(statement.names)
    for statement in nodes.get(ast.Nonlocal, ()):
        assert isinstance(statement, ast.Nonlocal)
        scope_of(statement).nonlocals.update(statement.names)

    for kind in FUNCTIONS:
        for function in nodes.get(kind, ()):
            scope = scopes[function]
            for argument in _parameters(function.args):  # type: ignore[attr-defined]
                scope.add(Binding(argument.arg, "parameter", argument, function))  # type: ignore[arg-type]
    for kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        for definition in nodes.get(kind, ()):
            conditional = _is_conditional(definition, parents)
            word: Kind = "class" if kind is ast.ClassDef else "function"
            name = definition.name  # type: ignore[attr-defined]
            scope_of(definition).add(Binding(name, word, definition, definition, conditional))  # type: ignore[arg-type]
    for imported in (*nodes.get(ast.Import, ()), *nodes.get(ast.ImportFrom, ())):
        _add_import(imported, scope_of(imported), _is_conditional(imported, parents))
    for name in nodes.get(ast.Name, ()):
        assert isinstance(name, ast.Name)
        if not isinstance(name.ctx, ast.Load):
            binding = _assignment(name, parents)
            scope = scope_of(name)
            if isinstance(parents.get(name), ast.NamedExpr):
                while isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
                    scope = scope.parent
            scope.add(binding)
    for binder in (ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping):
        for node in nodes.get(binder, ()):
            bound = getattr(node, "rest" if binder is ast.MatchMapping else "name", None)
            if bound:
                scope_of(node).add(Binding(bound, "other", node, _statement(node, parents), True))
    return scopes


def _parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from arguments.posonlyargs
    yield from arguments.args
    if arguments.vararg:
        yield arguments.vararg
    yield from arguments.kwonlyargs
    if arguments.kwarg:
        yield arguments.kwarg


def _add_import(statement: ast.AST, scope: Scope, conditional: bool) -> None:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            bound = alias.asname or alias.name.partition(".")[0]
            dotted = alias.name if alias.asname else bound
            scope.add(Binding(bound, "import", alias, statement, conditional, dotted))
    elif isinstance(statement, ast.ImportFrom):
        base = "." * statement.level + (statement.module or "")
        for alias in statement.names:
            if alias.name == "*":
                scope.star_imports.append(base)
                continue
            dotted = base + alias.name if base.endswith(".") else f"{base}.{alias.name}"
            scope.add(Binding(alias.asname or alias.name, "import", alias, statement, conditional, dotted))


def _assignment(name: ast.Name, parents: Mapping[ast.AST, ast.AST]) -> Binding:
    """The binding made by a name in store (or delete) context."""
    path: list[int] = []
    child: ast.AST = name
    parent = parents[name]
    while isinstance(parent, ast.Tuple | ast.List):
        position = parent.elts.index(child)  # type: ignore[arg-type]
        if any(isinstance(element, ast.Starred) for element in parent.elts[: position + 1]):
            break
        path.insert(0, position)
        child, parent = parent, parents[parent]
    statement = _statement(name, parents)
    conditional = _is_conditional(statement, parents) or isinstance(parent, ast.For | ast.AsyncFor)
    match parent:
        case ast.Assign(value=value) | ast.NamedExpr(value=value):
            return Binding(name.id, "assignment", name, statement, conditional, None, value, tuple(path))
        case ast.AnnAssign(value=ast.expr() as value):
            return Binding(name.id, "assignment", name, statement, conditional, None, value)
        case ast.withitem(context_expr=value):
            return Binding(name.id, "with", name, statement, conditional, None, value, tuple(path))
    return Binding(name.id, "other", name, statement, conditional)


def _statement(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> ast.stmt:
    while not isinstance(node, ast.stmt):
        node = parents[node]
    return node


def _is_conditional(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    parent = parents.get(node)
    while parent is not None and not isinstance(parent, SCOPE_NODES):
        if isinstance(parent, CONDITIONAL):
            return True
        parent = parents.get(parent)
    return False


def iter_children(node: ast.AST) -> Iterator[ast.AST]:
    """The child nodes in source order, without the contexts and operators that :func:`ast.iter_child_nodes` yields too."""
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, ast.AST):
                    yield item


def index_nodes(tree: ast.Module) -> tuple[dict[type, list[ast.AST]], dict[ast.AST, ast.AST]]:
    """The nodes of a tree by type, in source order, and each node's parent. One walk, no recursion."""
    by_type: dict[type, list[ast.AST]] = {}
    parents: dict[ast.AST, ast.AST] = {}
    stack: list[ast.AST] = [tree]
    pop, push = stack.pop, stack.append
    while stack:
        node = pop()
        kind = type(node)
        known = by_type.get(kind)
        if known is None:
            by_type[kind] = [node]
        else:
            known.append(node)
        for name in _child_fields(kind):  # type: ignore[arg-type]
            value = getattr(node, name, None)
            if isinstance(value, list):
                for item in reversed(value):
                    if item.__class__ not in LEAVES:
                        parents[item] = node
                        push(item)
            elif value.__class__ not in LEAVES:
                parents[value] = node  # type: ignore[index]
                push(value)  # type: ignore[arg-type]
    return by_type, parents


LEAVES = frozenset(
    [type(None), str, int, bool]
    + [
        kind
        for kind in vars(ast).values()
        if isinstance(kind, type)
        and issubclass(kind, ast.expr_context | ast.operator | ast.boolop | ast.unaryop | ast.cmpop)
    ]
)
"""The types of what stands in fields and has no position and no parts: names, flags, contexts, operators."""


@cache
def _child_fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields that may hold nodes, last first."""
    never = {"ctx", "op", "ops", "kind", "type_comment", "id", "attr", "arg", "level", "module", "is_async"}
    if kind is ast.Constant:
        return ()
    return tuple(name for name in reversed(kind._fields) if name not in never)


def last_before(bindings: Iterable[Binding], position: tuple[int, int]) -> list[Binding]:
    """The bindings that may hold at ``position`` of their own scope: the last unconditional one before it, and what comes after."""
    earlier = [binding for binding in bindings if binding.position < position]
    for index in range(len(earlier) - 1, -1, -1):
        if not earlier[index].conditional:
            return earlier[index:]
    return earlier
