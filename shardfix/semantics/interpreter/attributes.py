"""Attributes of what is known: of modules, classes, instances, arrays."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from shardfix.semantics import rank_rules
from shardfix.semantics.interpreter.aliases import is_changeable, of_its_kind
from shardfix.semantics.interpreter.bindings import class_surroundings, known_object, member
from shardfix.semantics.interpreter.invocation import Arguments
from shardfix.semantics.interpreter.names import leaves_arguments_alone
from shardfix.semantics.interpreter.records import (
    is_dataclass,
    is_overridden,
    own_method,
    record_fields,
    self_assignments,
)
from shardfix.semantics.interpreter.repeats import value_key
from shardfix.semantics.interpreter.shardings import known_attribute
from shardfix.semantics.interpreter.trace import Environment
from shardfix.semantics.values import (
    UNKNOWN,
    Array,
    BoundMethod,
    Class,
    Function,
    Instance,
    JaxObject,
    ModuleValue,
    Super,
    Tree,
    Value,
    as_array,
)

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter


def attribute_of(interpreter: Interpreter, owner: Value, name: str, environment: Environment) -> Value:
    """The attribute ``name`` of a known value."""
    match owner:
        case JaxObject(dotted=dotted):
            names = environment.module._resolve_member(dotted, name)
            if names == {f"{dotted}.{name}"}:
                return known_object(f"{dotted}.{name}")
            return member(interpreter, environment.module.project.module(dotted, environment.module.path), name)
        case ModuleValue(path=path):
            return member(interpreter, environment.module.project.module_at(path), name)
        case Instance():
            if own_method(owner.cls, "__getattribute__") is not None:
                return UNKNOWN
            if name == "__dict__":
                interpreter.change(owner, of_its_kind(owner), environment)
                return UNKNOWN
            known = owner.get(name)
            if known is None and name in ("_replace", "_asdict") and record_fields(owner.cls) is not None:
                return BoundMethod(owner, name)
            return known if known is not None else class_attribute(interpreter, owner.cls, name, owner)
        case Class():
            return class_attribute(interpreter, owner, name, None)
        case Super():
            return base_attribute(interpreter, owner.cls, name, owner.owner)
    if isinstance(owner, BoundMethod) and owner.name == rank_rules.AT:
        return BoundMethod(owner.owner, f"{rank_rules.AT}.{name}")
    special = known_attribute(owner, name)
    if special is not None:
        return special
    if isinstance(owner, Array | Tree):
        return rank_rules.attribute(as_array(owner), name) or BoundMethod(owner, name)
    return UNKNOWN if owner == UNKNOWN else BoundMethod(owner, name)


def class_attribute(interpreter: Interpreter, cls: Class, name: str, owner: Instance | None, depth: int = 0) -> Value:
    scope = cls.module.scopes.get(cls.node)
    if scope is None or depth > 5 or (cls.open and is_overridden(cls, name)):
        return UNKNOWN
    if name in scope.bindings:
        bindings = scope.bindings[name]
        if len(bindings) == 1 and isinstance(bindings[0].node, ast.FunctionDef):
            return _method(interpreter, cls, bindings[0].node, owner, inherited=depth > 0)
        if owner is not None and (owner.changed or is_dataclass(cls) or self_assignments(cls, name)):
            return UNKNOWN
        if owner is not None and any(isinstance(binding.statement, ast.AnnAssign) for binding in bindings):
            if not all(
                isinstance(interpreter.evaluate(base, class_surroundings(cls)), Class) for base in cls.node.bases
            ):
                return UNKNOWN  # a field of a record, as the base class may make one
        around = Environment(cls.module, scope, class_surroundings(cls), static=True)
        value = interpreter.once(
            (scope, name, id(interpreter.operands)),
            (interpreter.operands,),
            lambda: interpreter.static_value(around, name),
        )
        return of_its_kind(value) if is_changeable(value) else value
    if owner is not None:
        assigned = self_assignments(cls, name)
        if assigned and owner.changed:
            return UNKNOWN
        if assigned:
            return _assigned_attribute(interpreter, cls, assigned, owner)
    return base_attribute(interpreter, cls, name, owner, depth)


def may_inherit_unseen(interpreter: Interpreter, cls: Class, depth: int = 0) -> bool:
    """Whether a class may have methods of a base class that is not of the project and may change any attribute."""
    for base in cls.node.bases:
        value = interpreter.evaluate(base, class_surroundings(cls))
        if isinstance(value, Class) and depth < 5:
            if may_inherit_unseen(interpreter, value, depth + 1):
                return True
        elif not (isinstance(value, JaxObject) and leaves_arguments_alone(value.dotted)):
            return True
    return False


def base_attribute(interpreter: Interpreter, cls: Class, name: str, owner: Instance | None, depth: int = 0) -> Value:
    """The attribute as the first of the base classes that is known to have it defines it."""
    for base in cls.node.bases:
        value = interpreter.evaluate(base, class_surroundings(cls))
        if not isinstance(value, Class):
            return UNKNOWN
        found = class_attribute(interpreter, value, name, owner, depth + 1)
        if found != UNKNOWN:
            return found
    return UNKNOWN


def _method(
    interpreter: Interpreter, cls: Class, node: ast.FunctionDef, owner: Instance | None, *, inherited: bool
) -> Value:
    environment = class_surroundings(cls)
    kinds = {name.id for name in node.decorator_list if isinstance(name, ast.Name)}
    plain = Function(cls.module, node, environment)
    if kinds == {"staticmethod"}:
        value: Value = plain
        for decorator in reversed(node.decorator_list):
            if not isinstance(decorator, ast.Name):
                value = interpreter.apply(interpreter.evaluate(decorator, environment), environment, decorator, value)
        return value
    if kinds == {"classmethod"} and (owner is not None or not inherited):
        return replace(plain, bound_self=cls if owner is None else owner.cls)
    if kinds == {"property"} and owner is not None:
        return interpreter.run(replace(plain, bound_self=owner), Arguments()).result
    if owner is None:
        return UNKNOWN if node.decorator_list else plain
    bound: Value = replace(plain, bound_self=owner)
    for decorator in reversed(node.decorator_list):
        applied = interpreter.evaluate(decorator, environment)
        bound = interpreter.apply(applied, environment, decorator, bound)
    return bound


def _assigned_attribute(
    interpreter: Interpreter, cls: Class, assigned: list[tuple[ast.FunctionDef, ast.expr]], owner: Instance
) -> Value:
    """``self.name = value`` in ``__init__``, the one place that sets it."""
    if len(assigned) != 1 or assigned[0][0].name not in ("__init__", "setup", "__post_init__"):
        return UNKNOWN
    method_node, value = assigned[0]
    scope = cls.module.scopes[method_node]
    parent = class_surroundings(cls)
    around = Environment(cls.module, scope, parent, {"self": owner}, static=True)
    seen_by = value_key(owner)
    key = None if seen_by is None else (value, seen_by, id(interpreter.operands))
    return interpreter.once(key, (owner, interpreter.operands), lambda: interpreter.evaluate(value, around))


def sets_plainly(interpreter: Interpreter, cls: Class, name: str) -> bool:
    """Whether an assignment to that attribute stores the value, and does no more."""
    for _ in range(5):
        scope = cls.module.scopes.get(cls.node)
        if scope is None or "__setattr__" in scope.bindings:
            return False
        for binding in scope.bindings.get(name, ()):
            if binding.kind == "function" and not binding.node.decorator_list:  # type: ignore[attr-defined]
                continue
            if isinstance(binding.statement, ast.AnnAssign):
                continue
            if binding.kind != "assignment" or not isinstance(
                binding.value, ast.Constant | ast.Tuple | ast.List | ast.Dict
            ):
                return False  # a property, or another descriptor
        if not cls.node.bases:
            return True
        base = interpreter.evaluate(cls.node.bases[0], class_surroundings(cls))
        if not isinstance(base, Class):
            return isinstance(base, JaxObject) or record_fields(cls) is not None
        cls = base
    return False
