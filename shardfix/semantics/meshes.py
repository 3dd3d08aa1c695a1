"""Which mesh a piece of code can name, and which mesh context it runs in.

Two questions decide what a sharding may look like at a place. *Which mesh is in view*: the one given to the enclosing
``jax.set_mesh``, a parameter or local variable, an attribute of ``self``, a variable of an enclosing function, a
module global; the nearest first. *Which context holds*: followed from the place outwards through ``with`` blocks and
then through the calls of the enclosing function, its jitted and mapped forms included.
"""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from shardfix.semantics.definitions import (
    argument_for,
    attribute_names,
    attributes_named,
    class_attributes,
    default_of,
    direct_calls,
    enclosing_functions,
    follow,
    imported_value,
    is_static,
    name_uses,
)
from shardfix.semantics.values import Mesh

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.semantics.scopes import Binding, Scope

__all__ = ["Context", "Home", "MeshInView", "MeshView", "State", "is_main_guard", "mesh_view"]

SET_MESH = frozenset(
    {
        "jax.set_mesh",
        "jax.sharding.set_mesh",
        "jax.sharding.use_mesh",
        "jax.sharding.use_abstract_mesh",
        "jax.use_abstract_mesh",
    }
)
MESH_CLASSES = frozenset(
    {
        "jax.sharding.Mesh",
        "jax.sharding.AbstractMesh",
        "jax.interpreters.pxla.Mesh",
        "jax.experimental.maps.Mesh",
        "jax._src.mesh.Mesh",
        "jax._src.mesh.AbstractMesh",
    }
)
MAPS = frozenset({"jax.shard_map", "jax.experimental.shard_map.shard_map", "jax.smap", "jax.pmap"})
WRAPPERS = frozenset(
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
        "functools.partial",
        "functools.lru_cache",
        "functools.cache",
        "functools.wraps",
        "jax.tree_util.Partial",
        "builtins.staticmethod",
        "builtins.classmethod",
    }
)
"""Take a function and give one that runs it in the context in which it is called."""
UNTRACED = frozenset(
    {
        "functools.partial",
        "functools.lru_cache",
        "functools.cache",
        "functools.wraps",
        "jax.tree_util.Partial",
        "builtins.staticmethod",
        "builtins.classmethod",
        "jax.tree.map",
        "jax.tree_util.tree_map",
        "absl.app.run",
        "builtins.map",
        "builtins.property",
    }
)
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
_MAY_BE_MESH = (ast.Call, ast.Name, ast.Attribute, ast.IfExp, ast.NamedExpr, ast.Subscript)


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


class Home(enum.IntEnum):
    """Where a mesh in view is bound, nearest first."""

    CONTEXT = 0
    LOCAL = 1
    ATTRIBUTE = 2
    ENCLOSING = 3
    GLOBAL = 4


@dataclass(frozen=True)
class MeshInView:
    """A mesh that code at a place can name."""

    code: str
    """How it is written there: ``mesh``, ``self.mesh``."""
    mesh: Mesh
    """What is known of it; ``Mesh()`` where nothing is."""
    home: Home
    module: Module
    expression: ast.AST | None = None
    """What it is bound to, where that is in view: its identity."""
    guess: bool = False
    """Whether only the name says that it is a mesh."""

    def lacks(self, axes: frozenset[str] | None) -> frozenset[str]:
        """Those of ``axes`` that the mesh certainly does not have."""
        if axes is None or self.mesh.axes is None:
            return frozenset()
        return axes - set(self.mesh.axes)


_VIEWS: WeakKeyDictionary[Module, MeshView] = WeakKeyDictionary()


def mesh_view(module: Module) -> MeshView:
    """The mesh view of a module; one a module, so that all codemods share what it has found."""
    if module not in _VIEWS:
        _VIEWS[module] = MeshView(module)
    return _VIEWS[module]


class MeshView:
    """Answers, for places of one module, which meshes they can name and which context holds."""

    def __init__(self, module: Module) -> None:
        # A weak dictionary whose values hold their keys would never let go of them.
        import weakref

        self._module = weakref.ref(module)
        self._contexts: dict[ast.AST, Context] = {}
        self._meshes: dict[ast.expr, Mesh | None] = {}
        self._active: set[ast.AST] = set()

    @property
    def module(self) -> Module:
        module = self._module()
        assert module is not None
        return module

    # Which mesh

    def meshes(self, node: ast.AST) -> list[MeshInView]:
        """The meshes that code in the place of ``node`` can name, nearest first."""
        found: dict[str, MeshInView] = {}
        for candidate in self._candidates(node):
            found.setdefault(candidate.code, candidate)
        return sorted(found.values(), key=lambda candidate: (candidate.home, candidate.guess))

    def _candidates(self, node: ast.AST) -> Iterator[MeshInView]:
        for expression in self._lexical_contexts(node):
            if is_dotted(expression):
                mesh = self.mesh_of(expression) or Mesh()
                yield MeshInView(
                    self.module.text(expression), mesh, Home.CONTEXT, self.module, self.identity(expression)
                )
        own = self.module.scope_of(node)
        scope: Scope | None = own
        while scope is not None:
            home = Home.GLOBAL if scope.parent is None else Home.LOCAL if _same_frame(own, scope) else Home.ENCLOSING
            for name, bindings in scope.bindings.items():
                known = own.lookup(name)
                if known is None or known[0] is not scope:
                    continue
                candidate = self._bound_mesh(name, bindings, scope, node, home)
                if candidate is not None:
                    yield candidate
            if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from self._attributes(scope.node, node)
            scope = scope.parent

    def _bound_mesh(
        self, name: str, bindings: list[Binding], scope: Scope, node: ast.AST, home: Home
    ) -> MeshInView | None:
        in_view = [binding for binding in bindings if self._reaches(binding, bindings, scope, node)]
        if not in_view:
            return None
        meshes: list[Mesh] = []
        guess = False
        for binding in in_view:
            mesh, by_name = self._mesh_of_binding(binding)
            if mesh is None:
                return None
            meshes.append(mesh)
            guess = guess or by_name
        first = meshes[0] if all(mesh == meshes[0] for mesh in meshes) else Mesh()
        identity: ast.AST = in_view[-1].node if len(in_view) == 1 else bindings[0].node
        return MeshInView(name, first, home, self.module, identity, guess)

    def _reaches(self, binding: Binding, bindings: list[Binding], scope: Scope, node: ast.AST) -> bool:
        """Whether the binding has been made where ``node`` runs."""
        if binding.kind == "parameter":
            return True
        if binding.kind in ("function", "class"):
            return False
        module = self.module
        statement = module.statement(binding.node) if not isinstance(binding.statement, ast.stmt) else binding.statement
        same_scope = module.scope_of(node) is scope
        if same_scope or (scope.parent is None and _at_module_level(module, node)):
            if _position(statement) >= _position(module.statement(node)):
                return False
        if not binding.conditional:
            return True
        guards = [
            ancestor
            for ancestor in module.ancestors(binding.node)
            if isinstance(ancestor, ast.If | ast.For | ast.AsyncFor | ast.While | ast.Try | ast.TryStar | ast.Match)
        ]
        around = set(module.ancestors(node))
        if guards and guards[0] in around:
            return True
        others = [other for other in bindings if other is not binding and other.conditional]
        return bool(others) and not any(isinstance(guard, ast.If) and is_main_guard(guard) for guard in guards)

    def _mesh_of_binding(self, binding: Binding) -> tuple[Mesh | None, bool]:
        """What is known of the mesh a name is bound to (None: it is none), and whether only its name says so."""
        match binding.kind:
            case "parameter":
                return self._mesh_of_parameter(binding)
            case "assignment" | "with":
                if binding.value is not None:
                    value = follow(binding.value, binding.path)
                    if value is not None:
                        mesh = self.mesh_of(value)
                        if mesh is not None:
                            return mesh, False
                        if not isinstance(value, ast.Call | ast.Attribute | ast.Name | ast.Subscript | ast.Await):
                            return None, False
                        if self.module.resolve(value.func if isinstance(value, ast.Call) else value):
                            return None, False
                        if isinstance(value, ast.Call) and self.module.resolve(value.func) & SET_MESH:
                            return None, False
                if isinstance(binding.node, ast.Name) and isinstance(binding.node.ctx, ast.Del):
                    return None, False
                return (Mesh(), True) if _named_like_a_mesh(binding.name) else (None, False)
            case "import":
                if isinstance(binding.statement, ast.ImportFrom) and not (binding.dotted or "").startswith("jax"):
                    imported = imported_value(self.module, binding)
                    mesh = mesh_view(imported[0]).mesh_of(imported[1]) if imported is not None else None
                    return mesh, False
        return None, False

    def _mesh_of_parameter(self, binding: Binding) -> tuple[Mesh | None, bool]:
        argument = binding.node
        assert isinstance(argument, ast.arg)
        function = binding.statement
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            default = default_of(function, argument)
            if isinstance(default, ast.Constant) and default.value is None:
                return None, False
        if argument.annotation is not None:
            if self._is_mesh_annotation(argument.annotation):
                return self._passed(binding) or Mesh(), False
            return None, False
        if _named_like_a_mesh(argument.arg):
            return self._passed(binding) or Mesh(), True
        return None, False

    def _passed(self, binding: Binding) -> Mesh | None:
        """The mesh that every call in view gives for a parameter, where it is the same one."""
        function = binding.statement
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function in self._active:
            return None
        self._active.add(function)
        try:
            found: list[Mesh | None] = []
            for call in direct_calls(self.module, function):
                given = argument_for(function, call, binding.name)
                found.append(self.mesh_of(given) if given is not None else None)
        finally:
            self._active.discard(function)
        if not found or found[0] is None or any(mesh != found[0] for mesh in found):
            return None
        return found[0]

    def _is_mesh_annotation(self, annotation: ast.expr) -> bool:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            return annotation.value.rpartition(".")[2] in ("Mesh", "AbstractMesh")
        names = self.module.resolve(annotation)
        if names & MESH_CLASSES:
            return True
        last = annotation.attr if isinstance(annotation, ast.Attribute) else getattr(annotation, "id", "")
        return last in ("Mesh", "AbstractMesh") and not names and self.module.definition(annotation) is None

    def _attributes(self, function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.AST) -> Iterator[MeshInView]:
        """Meshes held by the instance of a method, or by a parameter whose ``.mesh`` the function reads."""
        owner = self.module.parent(function)
        arguments = [*function.args.posonlyargs, *function.args.args]
        if isinstance(owner, ast.ClassDef) and arguments and not is_static(function):
            for name, mesh, value, guess in self._class_meshes(owner, function, node):
                yield MeshInView(f"{arguments[0].arg}.{name}", mesh, Home.ATTRIBUTE, self.module, value, guess)
        for attribute, root in self._mesh_attributes:
            if function not in self.module.ancestors(attribute):
                continue
            known = self.module.scope_of(attribute).lookup(root.id)
            here = self.module.scope_of(node).lookup(root.id)
            if known is None or here is None or known[0] is not here[0] or known[0].node is not function:
                continue
            if any(binding.kind != "parameter" for binding in known[1]) or self.module.resolve(attribute):
                continue
            mesh = self.mesh_of(attribute) or Mesh()
            yield MeshInView(self.module.text(attribute), mesh, Home.ATTRIBUTE, self.module, None, guess=True)

    @cached_property
    def _mesh_attributes(self) -> list[tuple[ast.Attribute, ast.Name]]:
        """The attributes that are read and named like a mesh, with the names that their chains start with."""
        found: list[tuple[ast.Attribute, ast.Name]] = []
        for name in filter(_named_like_a_mesh, attribute_names(self.module)):
            for attribute in attributes_named(self.module, name):
                root: ast.expr = attribute
                while isinstance(root, ast.Attribute):
                    root = root.value
                if isinstance(root, ast.Name) and isinstance(attribute.ctx, ast.Load):
                    found.append((attribute, root))
        return found

    def _class_meshes(
        self, owner: ast.ClassDef, function: ast.AST, node: ast.AST
    ) -> Iterator[tuple[str, Mesh, ast.AST | None, bool]]:
        for name, values in class_attributes(owner).items():
            if name.startswith("__"):
                continue
            meshes: list[Mesh] = []
            guess = False
            for value, annotation, place in values:
                if annotation is not None and self._is_mesh_annotation(annotation):
                    known = self.mesh_of(value) if value is not None else None
                    meshes.append(known or Mesh())
                    continue
                if value is None or (isinstance(value, ast.Constant) and value.value is None):
                    continue
                mesh = self.mesh_of(value)
                if mesh is None and _named_like_a_mesh(name) and is_dotted(value):
                    mesh, guess = Mesh(), True
                if mesh is None and _named_like_a_mesh(name) and isinstance(value, ast.Call):
                    mesh, guess = (None if self.module.resolve(value.func) else Mesh()), True
                if mesh is None:
                    meshes = []
                    break
                if function in self.module.ancestors(place) and _position(place) >= _position(node):
                    continue
                meshes.append(mesh)
            if meshes:
                same = meshes[0] if all(mesh == meshes[0] for mesh in meshes) else Mesh()
                yield name, same, values[0][2], guess

    def mesh_of(self, expression: ast.expr, depth: int = 0) -> Mesh | None:
        """What is known of the mesh that an expression gives; None where it is not known to be a mesh."""
        if expression not in self._meshes:
            self._meshes[expression] = None  # what a cycle finds
            self._meshes[expression] = self._mesh_of(expression, depth)
        return self._meshes[expression]

    def _mesh_of(self, expression: ast.expr, depth: int) -> Mesh | None:
        if depth > MAX_DEPTH or not isinstance(expression, _MAY_BE_MESH):
            return None
        value = self.module.value_of(expression)
        if isinstance(value, Mesh):
            return value
        match expression:
            case ast.Name():
                found: list[Mesh | None] = []
                for binding in self.module.reaching(expression) or ():
                    inner = follow(binding.value, binding.path) if binding.value is not None else None
                    if binding.kind in ("assignment", "with") and inner is not None:
                        found.append(self.mesh_of(inner, depth + 1))
                    elif binding.kind == "parameter":
                        found.append(self._mesh_of_parameter(binding)[0])
                    else:
                        return None
                return _same(found)
            case ast.Attribute(value=ast.Name() as owner):
                return _same(
                    [self.mesh_of(value, depth + 1) for value in self._attribute_values(owner, expression.attr)]
                )
            case ast.IfExp(body=body, orelse=orelse):
                return _same([self.mesh_of(body, depth + 1), self.mesh_of(orelse, depth + 1)])
        return None

    def _attribute_values(self, owner: ast.Name, name: str) -> list[ast.expr]:
        """The expressions that ``self.name`` is assigned in the class around."""
        for function in enclosing_functions(self.module, owner):
            cls = self.module.parent(function)
            arguments = [*function.args.posonlyargs, *function.args.args]
            if isinstance(cls, ast.ClassDef) and arguments and arguments[0].arg == owner.id:
                return [value for value, _, _ in class_attributes(cls).get(name, ()) if value is not None]
        return []

    def identity(self, expression: ast.expr) -> ast.AST | None:
        """What a mesh expression is bound to: equal for two expressions that certainly mean the same mesh."""
        if isinstance(expression, ast.Name):
            known = self.module.scope_of(expression).lookup(expression.id)
            if known is not None and known[1]:
                return known[1][-1].node if len(known[1]) == 1 else known[1][0].node
        return None

    # Which context

    def _lexical_contexts(self, node: ast.AST) -> Iterator[ast.expr]:
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
                        if self.mesh_of(item.context_expr) is not None:
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

    @staticmethod
    def _finish(context: Context, legacy: ast.expr | None, unknown: bool) -> Context:
        if unknown:
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
        text = self.module.text(expression).lower()
        return "mesh" in text or "context" in text or "shard" in text or "scope" in text

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
        at_top = body is self.module.tree.body and not _at_module_level(self.module, node)
        for statement in body:
            if not at_top and _position(statement) >= _position(node):
                break
            value: ast.expr | None = None
            if isinstance(statement, ast.Expr | ast.Assign):
                value = statement.value
            if isinstance(value, ast.Call):
                if isinstance(value.func, ast.Attribute) and value.func.attr in ("enter_context", "__enter__"):
                    inner = value.args[0] if value.args else value.func.value
                    found = self._set_by(inner) or found
                elif isinstance(statement, ast.Expr):
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
        return UNKNOWN_CONTEXT

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


_SETS_MESH = re.compile(r"^\s+(?:\w+\.)*(?:set_mesh|use_mesh)\(", re.MULTILINE)
_HARMLESS = frozenset(
    "builtins contextlib warnings tempfile unittest pytest time logging tqdm numpy threading absl open".split()
)


def _same(found: list[Mesh | None]) -> Mesh | None:
    """The mesh where all are the same; a mesh of which nothing is known where they differ; None where one is no mesh."""
    if not found or any(mesh is None for mesh in found):
        return None
    first = found[0]
    return first if all(mesh == first for mesh in found) else Mesh()


def _named_like_a_mesh(name: str) -> bool:
    return name.lower().lstrip("_") == "mesh" or name.lower().endswith("_mesh")


def _position(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _same_frame(own: Scope, scope: Scope) -> bool:
    """Whether ``scope`` belongs to the same function call as ``own`` (comprehensions run in their function's frame)."""
    current: Scope | None = own
    while current is not None and current is not scope:
        if isinstance(current.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module):
            return False
        current = current.parent
    return True


def _at_module_level(module: Module, node: ast.AST) -> bool:
    return next(enclosing_functions(module, node), None) is None


def _within(module: Module, node: ast.AST, item: ast.withitem) -> bool:
    return item in module.ancestors(node)


def is_main_guard(statement: ast.If) -> bool:
    """Whether a statement is ``if __name__ == "__main__":``."""
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))


def is_dotted(expression: ast.AST) -> bool:
    """Whether an expression is a name or a chain of attributes of one."""
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return isinstance(expression, ast.Name)
