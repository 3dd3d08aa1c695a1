"""What names are bound to: by imports, definitions and assignments, at no particular moment."""

from __future__ import annotations

import ast
import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from shardfix.semantics.interpreter.indexing import element_of
from shardfix.semantics.interpreter.names import LIMITS, NUMBERS
from shardfix.semantics.interpreter.parameters import default_arguments
from shardfix.semantics.interpreter.records import has_decorator, is_plain_class
from shardfix.semantics.interpreter.shardings import entered_context, from_annotation
from shardfix.semantics.interpreter.trace import Environment
from shardfix.semantics.values import (
    INVARIANT,
    SHARD_MAPS,
    UNKNOWN,
    Array,
    Class,
    Function,
    Instance,
    JaxObject,
    ModuleValue,
    Number,
    Rank,
    Value,
)

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter
    from shardfix.semantics.module import Module
    from shardfix.semantics.scopes import Binding, Scope


_TRANSPARENT_DECORATORS = frozenset(
    {
        "functools.wraps()",
        "functools.wraps",
        "typing.no_type_check",
        "typing.overload",
        "typing.final",
        "functools.lru_cache",
        "functools.cache",
    }
)


def binding_value(interpreter: Interpreter, binding: Binding, environment: Environment) -> Value:
    """What one binding gives its name, evaluated where it stands."""
    module = environment.module
    match binding.kind:
        case "import":
            return imported(interpreter, module, binding.dotted or "")
        case "function":
            return defined(interpreter, binding.node, environment)  # type: ignore[arg-type]
        case "class":
            cls = Class(module, binding.node)  # type: ignore[arg-type]
            return cls if is_plain_class(cls) else UNKNOWN
        case "assignment" if binding.value is not None:
            if not binding.path:
                return interpreter.evaluate(binding.value, environment)
            return _unpacked(interpreter, binding.value, binding.path, environment)
        case "with" if binding.value is not None and not binding.path:
            return entered_context(interpreter.evaluate(binding.value, environment))
    return UNKNOWN


def _unpacked(interpreter: Interpreter, node: ast.expr, path: tuple[int, ...], environment: Environment) -> Value:
    """What one of the targets gets that ``node`` is unpacked to; the others ask for the same."""
    key = (id(environment), node) if environment.kept else None
    value = interpreter.once(key, (environment,), lambda: interpreter.evaluate(node, environment))
    for position in path:
        value = element_of(value, position)
    return value


def imported(interpreter: Interpreter, module: Module, dotted: str) -> Value:
    base, _, name = dotted.rpartition(".")
    if dotted.startswith(".") and not base.strip("."):
        base = dotted[: len(dotted) - len(name)]
    other = module.project.module(base, module.path) if base else None
    if other is not None and other is not module:
        exported = _exported(interpreter, other, name)
        if exported != UNKNOWN:
            return exported
    names = module._resolve_dotted(dotted)
    if len(names) != 1:
        return object_of(names)
    resolved = next(iter(names))
    path = module.project.find(dotted, module.path) if resolved == dotted else None
    if path is not None:
        return ModuleValue(path)
    return UNKNOWN if resolved.startswith(".") else known_object(resolved)


def object_of(names: Collection[str]) -> Value:
    """The object that a name means that may mean any of ``names``; unknown where those are several."""
    if len(names) > 1 and set(names) <= set(SHARD_MAPS):
        return JaxObject(SHARD_MAPS[1])
    return known_object(next(iter(names))) if len(names) == 1 else UNKNOWN


def known_object(dotted: str) -> Value:
    """An object of JAX, numpy or the standard library."""
    owner, _, name = dotted.rpartition(".")
    if name in NUMBERS and owner in ("jax.numpy", "numpy", "math"):
        return Number()
    if owner in LIMITS:
        return Array(Rank.exactly(0), INVARIANT)
    return JaxObject(dotted)


def member(interpreter: Interpreter, module: Module | None, name: str) -> Value:
    """An attribute of a module of the project: a name of its, or a module inside the package."""
    if module is None:
        return UNKNOWN
    exported = _exported(interpreter, module, name)
    if exported == UNKNOWN and os.path.basename(module.path) == "__init__.py":
        path = module.project.find(f".{name}", module.path)
        return UNKNOWN if path is None else ModuleValue(path)
    return exported


def _exported(interpreter: Interpreter, module: Module, name: str) -> Value:
    if name in module.module_scope.bindings:
        return interpreter.global_value(module, name)
    if len(module.module_scope.star_imports) == 1 and not interpreter.is_deep:
        other = module.project.module(module.module_scope.star_imports[0], module.path)
        if other is not None and other is not module and name in other.module_scope.bindings:
            return interpreter.global_value(other, name)
    names = module.exported(name)
    return object_of(names)


def defined(interpreter: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef, environment: Environment) -> Value:
    if isinstance(node, ast.AsyncFunctionDef):
        return UNKNOWN
    value: Value = function_of(interpreter, node, environment)
    for decorator in reversed(node.decorator_list):
        applied = interpreter.evaluate(decorator, environment)
        if isinstance(applied, JaxObject) and applied.dotted in _TRANSPARENT_DECORATORS:
            continue
        value = interpreter.apply(applied, environment, decorator, value)
    return value


def function_of(interpreter: Interpreter, node: ast.FunctionDef | ast.Lambda, environment: Environment) -> Function:
    """A function at the moment of its definition."""
    if environment.static:
        return Function(environment.module, node, environment)
    defaults = tuple(
        (name, interpreter.evaluate(default, environment)) for name, default in default_arguments(node.args)
    )
    return Function(environment.module, node, environment, None, defaults)


def static_environment(module: Module, scope: Scope) -> Environment:
    """The environment of a scope at no particular moment; one for each scope."""
    known = module.static_environments.get(scope)
    if known is not None:
        return known
    parent = static_environment(module, scope.parent) if scope.parent is not None else None
    environment = module.static_environments[scope] = Environment(module, scope, parent, static=True, kept=True)
    node = scope.node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        cls = module.parent(node)
        parameters = [*node.args.posonlyargs, *node.args.args]
        if isinstance(cls, ast.ClassDef) and parameters and not has_decorator(node, "staticmethod", "classmethod"):
            environment.variables[parameters[0].arg] = Instance(Class(module, cls, open=True))
        for parameter in (*parameters, *node.args.kwonlyargs):
            if parameter.annotation is not None and parent is not None:
                known_type = from_annotation(parameter.annotation, parent)
                if known_type != UNKNOWN and len(scope.bindings.get(parameter.arg, ())) == 1:
                    environment.variables[parameter.arg] = known_type
    return environment


def class_surroundings(cls: Class) -> Environment:
    """The scopes around a class, at no particular moment."""
    written = cls.node in cls.module.scopes  # or made by a call of namedtuple
    return static_environment(cls.module, cls.module.scope_of(cls.node) if written else cls.module.module_scope)
