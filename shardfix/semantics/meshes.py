"""Which mesh a piece of code can name.

The one given to the enclosing ``jax.set_mesh``, a parameter or local variable, an attribute of ``self``, a variable of an
enclosing function, a module global; the nearest first.
"""

from __future__ import annotations

import ast
import enum
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from shardfix.semantics.contexts import SET_MESH, Context, ContextView, is_at_module_level, position
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
)
from shardfix.semantics.gates import is_main_guard
from shardfix.semantics.values import Mesh

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.semantics.scopes import Binding, Scope

__all__ = ["Home", "MeshInView", "MeshView", "mesh_view"]

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
MAX_DEPTH = 12
_MAY_BE_MESH = (ast.Call, ast.Name, ast.Attribute, ast.IfExp, ast.NamedExpr, ast.Subscript)


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
        self._module = weakref.ref(module)  # a weak dictionary whose values hold their keys never lets go of them
        self.contexts = ContextView(module, self.mesh_of)
        self._meshes: dict[ast.expr, Mesh | None] = {}
        self._active: set[ast.AST] = set()

    @property
    def module(self) -> Module:
        module = self._module()
        assert module is not None
        return module

    def context(self, node: ast.AST) -> Context:
        """The context that ``node`` runs in."""
        return self.contexts.context(node)

    def meshes(self, node: ast.AST) -> list[MeshInView]:
        """The meshes that code in the place of ``node`` can name, nearest first."""
        found: dict[str, MeshInView] = {}
        for candidate in self._candidates(node):
            found.setdefault(candidate.code, candidate)
        return sorted(found.values(), key=lambda candidate: (candidate.home, candidate.guess))

    def _candidates(self, node: ast.AST) -> Iterator[MeshInView]:
        for expression in self.contexts.lexical_contexts(node):
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
        if same_scope or (scope.parent is None and is_at_module_level(module, node)):
            if position(statement) >= position(module.statement(node)):
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
                if function in self.module.ancestors(place) and position(place) >= position(node):
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
        if isinstance(expression, ast.Call) and self.module.resolve(expression.func) & SET_MESH:
            return None  # the context, not the mesh
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


def _same(found: list[Mesh | None]) -> Mesh | None:
    """The mesh where all are the same; a mesh of which nothing is known where they differ; None where one is no mesh."""
    if not found or any(mesh is None for mesh in found):
        return None
    first = found[0]
    return first if all(mesh == first for mesh in found) else Mesh()


def _named_like_a_mesh(name: str) -> bool:
    return name.lower().lstrip("_") == "mesh" or name.lower().endswith("_mesh")


def _same_frame(own: Scope, scope: Scope) -> bool:
    """Whether ``scope`` belongs to the same function call as ``own`` (comprehensions run in their function's frame)."""
    current: Scope | None = own
    while current is not None and current is not scope:
        if isinstance(current.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module):
            return False
        current = current.parent
    return True


def is_dotted(expression: ast.AST) -> bool:
    """Whether an expression is a name or a chain of attributes of one."""
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return isinstance(expression, ast.Name)
