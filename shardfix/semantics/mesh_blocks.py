"""``with mesh:`` blocks, and whether what a statement enters is a mesh."""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from shardfix.semantics.contexts import SET_MESH
from shardfix.semantics.definitions import class_attributes, is_static, returns
from shardfix.semantics.flow import settled_bindings
from shardfix.semantics.meshes import is_dotted, mesh_view
from shardfix.semantics.values import Mesh

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.semantics.project import Project

__all__ = ["MeshBlock", "class_of_self", "entered_mesh", "enters_mesh_elsewhere", "mesh_blocks", "own_attribute"]

MESH_MAKERS = frozenset(
    {
        "jax.sharding.Mesh",
        "jax.make_mesh",
        "jax.interpreters.pxla.Mesh",
        "jax.experimental.maps.Mesh",
        "jax._src.mesh.Mesh",
    }
)
MAX_DEPTH = 8


@dataclass(frozen=True, eq=False)
class MeshBlock:
    """One ``with`` statement that enters a mesh."""

    statement: ast.With | ast.AsyncWith
    item: ast.withitem
    mesh: Mesh
    """What is known of the mesh."""
    guess: bool
    """Whether only the name says that it is a mesh."""

    @property
    def can_bind_before(self) -> bool:
        """Whether what ``as`` binds, if anything, can be bound by a statement before the block."""
        name = self.item.optional_vars
        return name is None or (isinstance(name, ast.Name) and self.statement.items[0] is self.item)


def mesh_blocks(module: Module) -> list[MeshBlock]:
    """The blocks of a module that enter a mesh as a context manager, in source order."""
    found = []
    statements: list[ast.With | ast.AsyncWith] = [*module.nodes(ast.With), *module.nodes(ast.AsyncWith)]
    for statement in statements:
        for item in statement.items:
            mesh, guess = entered_mesh(module, item.context_expr)
            if mesh is not None:
                found.append(MeshBlock(statement, item, mesh, guess))
    return found


_ENTERING: WeakKeyDictionary[Project, frozenset[str]] = WeakKeyDictionary()
_ENTERS_MESH = re.compile(
    r"^[ \t]*(?:async )?with\b[^:\n]*\b\w*[mM]esh\b|^[ \t]*(?:async )?with\s*\([^:]{0,400}?\b\w*[mM]esh\b", re.MULTILINE
)


def enters_mesh_elsewhere(module: Module) -> bool:
    """Whether another file of the run may enter a mesh as a context manager, as far as its text tells."""
    project = module.project
    files = project.files  # asked for each time, for it is noted what an answer depends on
    if project not in _ENTERING:
        entering = (path for path in files if _ENTERS_MESH.search(project.source(path) or ""))
        _ENTERING[project] = frozenset(map(os.path.abspath, entering))
    return bool(_ENTERING[project] - {os.path.abspath(module.path)})


def entered_mesh(module: Module, expression: ast.expr) -> tuple[Mesh | None, bool]:
    """The mesh that an expression gives (None: it is none), and whether only its name says so."""
    if not _may_be_mesh(module, expression) or _sets_mesh(module, expression):
        return None, False
    known = mesh_view(module).mesh_of(expression)
    if known is not None and not _only_named(module, expression):
        return (None, False) if known.abstract else (known, False)
    if is_dotted(expression) and _named_like_a_mesh(expression) and _is_jax_code(module):
        if not _is_of_own_class(module, expression):
            return known or Mesh(), True
    return None, False


def _may_be_mesh(module: Module, expression: ast.expr) -> bool:
    """Whether it is worth while to ask what an expression is."""
    match expression:
        case ast.Call(func=function):
            names = module.resolve(function)
            if names:
                return bool(names & MESH_MAKERS)
            return is_dotted(function) and "mesh" in module.text(function).lower()
        case ast.IfExp(body=body, orelse=orelse):
            return _may_be_mesh(module, body) or _may_be_mesh(module, orelse)
        case ast.Attribute():
            return _named_like_a_mesh(expression)
        case ast.Name():
            if _named_like_a_mesh(expression):
                return True
            values = [binding.value for binding in settled_bindings(module, expression)]
            return any(isinstance(value, ast.Call) and _may_be_mesh(module, value) for value in values)
    return False


def _sets_mesh(module: Module, expression: ast.expr, depth: int = 0) -> bool:
    """Whether an expression gives what ``jax.set_mesh`` or one of its older names returns."""
    match expression:
        case ast.Call():
            if module.resolve(expression.func) & SET_MESH:
                return True
            home, function = module.definition(expression.func) or (module, None)
            if not isinstance(function, ast.FunctionDef) or depth >= MAX_DEPTH:
                return False
            given = [statement.value for statement in returns(function) if statement.value is not None]
            return any(_sets_mesh(home, value, depth + 1) for value in given)
        case ast.IfExp():
            return _sets_mesh(module, expression.body, depth) or _sets_mesh(module, expression.orelse, depth)
        case ast.Name() if depth < MAX_DEPTH:
            values = [binding.value for binding in settled_bindings(module, expression) if binding.value is not None]
            return any(_sets_mesh(module, value, depth + 1) for value in values)
    return False


def _only_named(module: Module, expression: ast.expr) -> bool:
    if not isinstance(expression, ast.Name):
        return False
    if not all(binding.kind == "parameter" for binding in settled_bindings(module, expression)):
        return False
    return not isinstance(module.value_of(expression), Mesh)  # an annotation says more than the name


def _is_of_own_class(module: Module, expression: ast.expr) -> bool:
    """Whether an expression is an instance of a class that is not JAX's, whatever its name says."""
    match expression:
        case ast.Name():
            bindings = settled_bindings(module, expression)
            if any(isinstance(b.node, ast.arg) and _is_another_class(module, b.node.annotation) for b in bindings):
                return True
            values = [binding.value for binding in bindings]
        case ast.Attribute():
            values = list(own_attribute(module, expression))
        case _:
            return False
    made = [module.definition(value.func) for value in values if isinstance(value, ast.Call)]
    return any(found is not None and isinstance(found[1], ast.ClassDef) for found in made)


def _is_another_class(module: Module, annotation: ast.expr | None) -> bool:
    """Whether an annotation names a class of the project, or of a library that is not JAX."""
    if not isinstance(annotation, ast.Name | ast.Attribute):
        return False
    names = module.resolve(annotation)
    if names:
        return not any(
            name.partition(".")[0] in ("jax", "typing", "builtins") or name.endswith(".Mesh") for name in names
        )  # a library may hand JAX's Mesh on
    found = module.definition(annotation)
    return found is not None and isinstance(found[1], ast.ClassDef)


def _named_like_a_mesh(expression: ast.expr) -> bool:
    name = expression.attr if isinstance(expression, ast.Attribute) else getattr(expression, "id", "")
    return name.lower().lstrip("_") == "mesh" or name.lower().endswith("_mesh")


def _is_jax_code(module: Module) -> bool:
    roots = {imported.dotted.partition(".")[0] for imported in module.imports}
    return bool(roots & {"jax", "flax", "haiku", "equinox"}) and not any(
        "DeviceMesh" in imported.dotted or "dtensor" in imported.dotted for imported in module.imports
    )


def own_attribute(module: Module, attribute: ast.Attribute) -> list[ast.expr]:
    """What the class around a method assigns to ``self.name``; empty where the attribute is not one of ``self``."""
    cls = class_of_self(module, attribute.value)
    values = class_attributes(cls).get(attribute.attr, []) if cls is not None else []
    return [value for value, _, _ in values if value is not None]


def class_of_self(module: Module, node: ast.expr) -> ast.ClassDef | None:
    """The class whose ``self`` a name is; None where it is none."""
    if not isinstance(node, ast.Name):
        return None
    for function in module.ancestors(node):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            cls = module.parent(function)
            if isinstance(cls, ast.ClassDef):
                arguments = [*function.args.posonlyargs, *function.args.args]
                return cls if arguments and arguments[0].arg == node.id and not is_static(function) else None
    return None
