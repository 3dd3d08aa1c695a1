"""Which mesh context a place runs in: ``jax.set_mesh``, ``with mesh:``, the body of a mapped function, or none.

The context is followed from the place outwards through ``with`` blocks, and from the enclosing function to its calls in
view, those of what jit, vmap or a map makes of it included.
"""

from __future__ import annotations

import ast
import enum
import re
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from shardfix.semantics.definitions import attributes_named, enclosing_functions, name_uses

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.semantics.values import Mesh

__all__ = ["Context", "ContextView", "State", "is_at_module_level", "position"]

SET_MESH = frozenset(
    {
        "jax.set_mesh",
        "jax.sharding.set_mesh",
        "jax.sharding.use_mesh",
        "jax.sharding.use_abstract_mesh",
        "jax.use_abstract_mesh",
    }
)
SET_WHEN_CALLED = frozenset({"jax.set_mesh", "jax.sharding.set_mesh"})
"""Those of them that set the mesh when they are called, entered or not."""
MAPS = frozenset({"jax.shard_map", "jax.experimental.shard_map.shard_map", "jax.smap", "jax.pmap"})
PLAIN_WRAPPERS = frozenset(
    {
        "functools.partial",
        "functools.lru_cache",
        "functools.cache",
        "functools.wraps",
        "jax.tree_util.Partial",
        "builtins.staticmethod",
        "builtins.classmethod",
    }
)
"""Wrappers that trace nothing."""
WRAPPERS = PLAIN_WRAPPERS | frozenset(
    {
        "jax.jit",
        "jax.experimental.pjit.pjit",
        "jax.vmap",
        "jax.grad",
        "jax.value_and_grad",
        "jax.jacfwd",
        "jax.jacrev",
        "jax.jacobian",
        "jax.hessian",
        "jax.checkpoint",
        "jax.remat",
        "jax.ad_checkpoint.checkpoint",
        "jax.custom_jvp",
        "jax.custom_vjp",
        "jax.named_call",
        "jax.make_jaxpr",
    }
)
"""Take a function and give one that runs it in the context in which it is called."""
UNTRACED = PLAIN_WRAPPERS | frozenset(
    {
        "jax.tree.map",
        "jax.tree_util.tree_map",
        "absl.app.run",
        "builtins.map",
        "builtins.property",
    }
)
"""Call what they are given, or give what calls it, without tracing it."""
RUNNERS = frozenset(
    {
        "jax.lax.scan",
        "jax.lax.cond",
        "jax.lax.switch",
        "jax.lax.while_loop",
        "jax.lax.fori_loop",
        "jax.lax.map",
        "jax.lax.associative_scan",
        "jax.eval_shape",
        "jax.jvp",
        "jax.vjp",
        "jax.linearize",
        "jax.tree.map",
        "jax.tree_util.tree_map",
        "absl.app.run",
        "builtins.map",
    }
)
"""Run the function they are given where they are called."""
MAX_DEPTH = 12
_SETS_MESH = re.compile(r"^[ \t]*(?:\w+\.)*(?:set_mesh|use_mesh)\(", re.MULTILINE)
_ENTERS_BY_HAND = re.compile(
    r"enter_context\(\s*(?:[\w.]*[mM]esh\s*\)|[\w.]*(?:Mesh|make_mesh)\()|[mM]esh\.__enter__\(|^[ \t]*@[\w.]*mesh[ \t]*$",
    re.M,
)
_HARMLESS = frozenset(
    "builtins contextlib warnings tempfile unittest pytest time logging tqdm numpy threading absl open".split()
)


class State(enum.StrEnum):
    """What a place may be run under."""

    NONE = "none"
    """No mesh is set."""
    SET = "set"
    """Under ``jax.set_mesh`` or one of its older names."""
    LEGACY = "legacy"
    """Under ``with mesh:``, which only pjit and with_sharding_constraint see."""
    MANUAL = "manual"
    """In the body of a mapped function, all axes of the mesh being manual there."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Context:
    """Everything that a place may be run under, over all calls in view."""

    states: frozenset[State]
    meshes: tuple[tuple[Module, ast.expr], ...] = ()
    """The arguments of the ``set_mesh`` calls (and the meshes of ``with mesh:``) that hold."""
    traced: bool | None = False
    """Whether the place runs under a JAX transformation (jit, vmap, scan, ...); None where it may be either."""

    @property
    def only(self) -> State | None:
        """The state where it is the same on every path, else None."""
        return next(iter(self.states)) if len(self.states) == 1 else None

    @property
    def is_set(self) -> bool:
        return self.states == {State.SET}

    @property
    def is_manual(self) -> bool:
        return self.states == {State.MANUAL}

    @property
    def may_lack_mesh(self) -> bool:
        """Whether some path in view certainly has no mesh that ``out_sharding`` sees."""
        return bool(self.states & {State.NONE, State.LEGACY})

    @property
    def lacks_mesh(self) -> bool:
        """Whether no path has one."""
        return self.states <= {State.NONE, State.LEGACY}

    def join(self, other: Context) -> Context:
        meshes = dict.fromkeys(self.meshes + other.meshes)
        return Context(self.states | other.states, tuple(meshes), self.traced if self.traced == other.traced else None)


UNKNOWN_CONTEXT = Context(frozenset({State.UNKNOWN}), traced=None)
NO_CONTEXT = Context(frozenset({State.NONE}))
MANUAL_CONTEXT = Context(frozenset({State.MANUAL}), traced=True)


class ContextView:
    """Answers, for places of one module, which context holds.

    Args:
        module: the module. The view does not keep it alive.
        mesh_of: what is known of the mesh that an expression gives; None where it is not known to be a mesh.
    """

    def __init__(self, module: Module, mesh_of: Callable[[ast.expr], Mesh | None]) -> None:
        self._module = weakref.ref(module)
        self._mesh_of = mesh_of
        self._contexts: dict[ast.AST, Context] = {}
        self._active: set[ast.AST] = set()

    @property
    def module(self) -> Module:
        module = self._module()
        assert module is not None
        return module

    def lexical_contexts(self, node: ast.AST) -> Iterator[ast.expr]:
        """The meshes set around ``node`` within its own function, innermost first."""
        for ancestor in self._ancestors_in_frame(node):
            if isinstance(ancestor, ast.With | ast.AsyncWith):
                for item in reversed(ancestor.items):
                    mesh = self._set_by(item.context_expr)
                    if mesh is not None and not _within(self.module, node, item):
                        yield mesh

    def _ancestors_in_frame(self, node: ast.AST) -> Iterator[ast.AST]:
        child = node
        for ancestor in self.module.ancestors(node):
            if isinstance(ancestor, ast.Lambda) and child is ancestor.body:
                return
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef) and child in ancestor.body:
                return
            yield ancestor
            child = ancestor

    def _set_by(self, expression: ast.expr, depth: int = 0) -> ast.expr | None:
        """The mesh that a context manager sets; None where it is not ``jax.set_mesh`` or kin."""
        if isinstance(expression, ast.Call):
            if self.module.resolve(expression.func) & SET_MESH:
                if expression.args:
                    return expression.args[0]
                return next((keyword.value for keyword in expression.keywords if keyword.arg == "mesh"), None)
            return None
        if isinstance(expression, ast.Name) and depth < 4:
            bindings = self.module.reaching(expression)
            if bindings and len(bindings) == 1 and bindings[0].value is not None and not bindings[0].path:
                return self._set_by(bindings[0].value, depth + 1)
        return None

    def context(self, node: ast.AST) -> Context:
        """The context that ``node`` runs in."""
        return self._context(node, 0)

    def context_of_calls(self, function: ast.expr) -> Context:
        """The contexts in which the function that an expression gives (a lambda, a ``partial(...)``) is called."""
        return self._flow(function, 0)

    def _context(self, node: ast.AST, depth: int) -> Context:
        module = self.module
        legacy: ast.expr | None = None
        unknown = False
        child = node
        for ancestor in module.ancestors(node):
            match ancestor:
                case ast.With() | ast.AsyncWith():
                    for item in reversed(ancestor.items):
                        if _within(module, node, item):
                            continue
                        mesh = self._set_by(item.context_expr)
                        if mesh is not None:
                            return self._in_frame(node, Context(frozenset({State.SET}), ((module, mesh),)), depth)
                        if self._mesh_of(item.context_expr) is not None:
                            legacy = legacy or item.context_expr
                        elif self._may_set_mesh(item.context_expr):
                            unknown = True
                case ast.Lambda() if child is ancestor.body:
                    return self._finish(self._flow(ancestor, depth + 1), legacy, unknown)
                case ast.FunctionDef() | ast.AsyncFunctionDef() if child in ancestor.body:
                    statement = self._set_before(ancestor.body, node)
                    if statement is not None:
                        set_here = Context(frozenset({State.SET}), ((module, statement),), traced=None)
                        return replace(set_here, traced=self._function_context(ancestor, depth + 1).traced)
                    return self._finish(self._function_context(ancestor, depth + 1), legacy, unknown)
            child = ancestor
        statement = self._set_before(module.tree.body, node)
        if statement is not None:
            return Context(frozenset({State.SET}), ((module, statement),))
        return self._finish(NO_CONTEXT, legacy, unknown or self._set_out_of_view)

    def _in_frame(self, node: ast.AST, context: Context, depth: int) -> Context:
        """``context`` with what is known of tracing from the function around ``node``."""
        function = next(enclosing_functions(self.module, node), None)
        if function is None:
            return context
        outer = (
            self._flow(function, depth + 1)
            if isinstance(function, ast.Lambda)
            else self._function_context(function, depth + 1)
        )
        return replace(context, traced=outer.traced)

    def _finish(self, context: Context, legacy: ast.expr | None, unknown: bool) -> Context:
        if unknown or self._entered_by_hand:
            return replace(context, states=(context.states - {State.NONE}) | {State.UNKNOWN})
        if legacy is not None and State.NONE in context.states:
            return replace(context, states=(context.states - {State.NONE}) | {State.LEGACY})
        return context

    def _may_set_mesh(self, expression: ast.expr) -> bool:
        """Whether a context manager that is not known may set a mesh."""
        function = expression.func if isinstance(expression, ast.Call) else expression
        names = self.module.resolve(function)
        if names:
            return not all(name.partition(".")[0] in _HARMLESS or name.startswith("jax.") for name in names)
        definition = self.module.definition(function)
        if definition is not None:
            where, node = definition
            entered = "with " in where.text(node) or "enter_context" in where.text(node)
            return entered or "mesh" in where.text(node).lower()
        text = self.module.text(expression).lower()
        return "mesh" in text or "context" in text or "shard" in text or "scope" in text

    @cached_property
    def _entered_by_hand(self) -> bool:
        """Whether a mesh is entered by other means than a ``with``, so that all that runs later is under it."""
        return _ENTERS_BY_HAND.search(self.module.source) is not None

    @cached_property
    def _set_out_of_view(self) -> bool:
        """Whether a function of this module, or of one that it imports, sets a mesh for good when it is called."""
        module = self.module
        for call in module.calls_to(*SET_MESH):
            parent = module.parent(call.node)
            held = isinstance(parent, ast.withitem)
            if not held and next(enclosing_functions(module, call.node), None) is not None:
                return True
        for imported in module.imports:
            for dotted in (imported.dotted, imported.dotted.rpartition(".")[0]):
                path = module.project.find(dotted, module.path) if dotted.strip(".") else None
                if path is not None and _SETS_MESH.search(module.project.source(path) or ""):
                    return True
        return False

    def _set_before(self, body: list[ast.stmt], node: ast.AST) -> ast.expr | None:
        """The mesh of a ``jax.set_mesh(mesh)`` statement that has run before ``node``."""
        found: ast.expr | None = None
        around = set(self.module.ancestors(node)) | {node}
        at_top = body is self.module.tree.body and not is_at_module_level(self.module, node)
        for statement in body:
            if not at_top and position(statement) >= position(node):
                break
            value: ast.expr | None = None
            if isinstance(statement, ast.Expr | ast.Assign):
                value = statement.value
            if isinstance(value, ast.Call):
                if isinstance(value.func, ast.Attribute) and value.func.attr in ("enter_context", "__enter__"):
                    inner = value.args[0] if value.args else value.func.value
                    found = self._set_by(inner) or found
                elif isinstance(statement, ast.Expr) or self.module.resolve(value.func) & SET_WHEN_CALLED:
                    found = self._set_by(value) or found
            elif statement in around:
                for block in ("body", "orelse", "finalbody"):
                    inner_body = getattr(statement, block, None)
                    if isinstance(inner_body, list) and not isinstance(
                        statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
                    ):
                        found = self._set_before(inner_body, node) or found
        return found

    def _function_context(self, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> Context:
        """The contexts in which a function is called, joined over all its uses in view."""
        known = self._contexts.get(function)
        if known is not None:
            return known
        if function in self._active or depth > MAX_DEPTH:
            return UNKNOWN_CONTEXT
        self._active.add(function)
        try:
            found = self._decorated(function, depth)
        finally:
            self._active.discard(function)
        self._contexts[function] = found
        return found

    def _decorated(self, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> Context:
        traced = False
        for decorator in function.decorator_list:
            names = self.transforms(decorator)
            if names & MAPS:
                return MANUAL_CONTEXT if self._fully_manual(decorator) else UNKNOWN_CONTEXT
            if names and names <= WRAPPERS:
                traced = traced or not names <= UNTRACED
            elif not names <= UNTRACED or not names:
                if self._is_pytest(decorator):
                    return UNKNOWN_CONTEXT
                return replace(UNKNOWN_CONTEXT, traced=None)
        context = self._uses_context(function, depth)
        return replace(context, traced=True) if traced else context

    def transforms(self, expression: ast.expr) -> frozenset[str]:
        """The transformations that a decorator (``jax.jit``, ``partial(jax.jit, ...)``, ``jax.jit(...)``) stands for."""
        names = self.module.resolve(expression)
        if names:
            return names
        if isinstance(expression, ast.Call):
            names = self.module.resolve(expression.func)
            if names & {"functools.partial", "jax.tree_util.Partial"} and expression.args:
                return self.transforms(expression.args[0])
            if not names and isinstance(expression.func, ast.Call | ast.Name):
                return frozenset()
            return names
        if isinstance(expression, ast.Name):
            bindings = self.module.reaching(expression)
            if bindings and len(bindings) == 1 and isinstance(bindings[0].value, ast.Call) and not bindings[0].path:
                return self.transforms(bindings[0].value)
        return frozenset()

    @staticmethod
    def _is_pytest(decorator: ast.expr) -> bool:
        return "pytest" in ast.dump(decorator)

    @staticmethod
    def _fully_manual(expression: ast.expr) -> bool:
        """Whether a map leaves no axis of the mesh to the compiler (no ``axis_names=`` or ``auto=``)."""
        return not any(
            isinstance(node, ast.keyword) and node.arg in ("axis_names", "auto", None, "axis_name")
            for node in ast.walk(expression)
        )

    def _uses_context(self, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> Context:
        parent = self.module.parent(function)
        uses: list[ast.expr] = []
        if isinstance(parent, ast.ClassDef):
            if function.name == "__init__":
                uses = name_uses(self.module, parent.name, parent)
            elif function.name == "__call__":
                return self._instances_context(parent, depth)
            else:
                uses = list(attributes_named(self.module, function.name))
        else:
            uses = name_uses(self.module, function.name, function)
        uses = [use for use in uses if function not in self.module.ancestors(use)]
        return self._join([self._use(use, depth) for use in uses])

    def _instances_context(self, cls: ast.ClassDef, depth: int) -> Context:
        """Where the instances of a class are called, as far as names show."""
        found: list[Context] = []
        for use in name_uses(self.module, cls.name, cls):
            call = self.module.parent(use)
            if isinstance(call, ast.Call) and call.func is use:
                found.append(self._flow(call, depth))
        return self._join(found)

    @staticmethod
    def _join(contexts: list[Context]) -> Context:
        if not contexts:
            return UNKNOWN_CONTEXT
        result = contexts[0]
        for context in contexts[1:]:
            result = result.join(context)
        return result

    def _use(self, use: ast.expr, depth: int) -> Context:
        """The context in which a use of a function (a name, an attribute) has it run."""
        return self._flow(use, depth)

    def _flow(self, value: ast.expr, depth: int) -> Context:
        """The contexts in which the function that ``value`` gives is called."""
        if depth > MAX_DEPTH or value in self._active:
            return UNKNOWN_CONTEXT
        module = self.module
        parent = module.parent(value)
        match parent:
            case ast.Call() if parent.func is value:
                return self._context(parent, depth + 1)
            case ast.Call():
                return self._passed_to(parent, depth)
            case ast.keyword():
                call = module.parent(parent)
                return self._passed_to(call, depth) if isinstance(call, ast.Call) else UNKNOWN_CONTEXT
            case ast.Assign(targets=[ast.Name() as target]) | ast.AnnAssign(target=ast.Name() as target):
                self._active.add(value)
                try:
                    uses = [use for use in name_uses(module, target.id, target) if use is not target]
                    return self._join([self._flow(use, depth + 1) for use in uses])
                finally:
                    self._active.discard(value)
            case ast.Assign(targets=[ast.Attribute(attr=name) as target]):
                self._active.add(value)
                try:
                    uses = [n for n in attributes_named(module, name) if isinstance(n.ctx, ast.Load)]
                    return self._join([self._flow(use, depth + 1) for use in uses if use is not target])
                finally:
                    self._active.discard(value)
            case ast.Return():
                return self._returned(value, depth)
        return UNKNOWN_CONTEXT

    def _returned(self, value: ast.expr, depth: int) -> Context:
        """Where a function is called that another one returns: ``make()(x)``, ``step = make()``."""
        maker = next(enclosing_functions(self.module, value), None)
        if not isinstance(maker, ast.FunctionDef) or maker.decorator_list:
            return UNKNOWN_CONTEXT
        if isinstance(self.module.parent(maker), ast.ClassDef):
            uses: list[ast.expr] = list(attributes_named(self.module, maker.name))
        else:
            uses = name_uses(self.module, maker.name, maker)
        self._active.add(value)
        try:
            calls = [(use, self.module.parent(use)) for use in uses]
            return self._join(
                [
                    self._flow(call, depth + 1) if isinstance(call, ast.Call) and call.func is use else UNKNOWN_CONTEXT
                    for use, call in calls
                ]
            )
        finally:
            self._active.discard(value)

    def _passed_to(self, call: ast.Call, depth: int) -> Context:
        module = self.module
        names = module.resolve(call.func)
        if not names:
            names = self.transforms(call)
            if not names or not names <= (MAPS | WRAPPERS):
                return UNKNOWN_CONTEXT
        if names & {"functools.partial", "jax.tree_util.Partial"} and call.args:
            inner = module.resolve(call.args[0])
            if inner & MAPS:
                names = inner
        if names & MAPS:
            return MANUAL_CONTEXT if self._fully_manual(call) else UNKNOWN_CONTEXT
        if names <= WRAPPERS:
            context = self._flow(call, depth + 1)
            return context if names <= UNTRACED else replace(context, traced=True)
        if names <= RUNNERS:
            context = self._context(call, depth + 1)
            return context if names <= UNTRACED else replace(context, traced=True)
        return UNKNOWN_CONTEXT


def position(node: ast.AST) -> tuple[int, int]:
    """Where a node begins."""
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def is_at_module_level(module: Module, node: ast.AST) -> bool:
    return next(enclosing_functions(module, node), None) is None


def _within(module: Module, node: ast.AST, item: ast.withitem) -> bool:
    return item in module.ancestors(node)
