"""Assignments: to names, items and attributes; and what a part of the program may assign that is not followed."""

from __future__ import annotations

import ast
from copy import copy
from typing import TYPE_CHECKING

from shardfix.semantics.interpreter.aliases import of_its_kind
from shardfix.semantics.interpreter.attributes import sets_plainly
from shardfix.semantics.interpreter.indexing import element_of, index_value
from shardfix.semantics.interpreter.mutation import with_attribute, with_item
from shardfix.semantics.interpreter.operators import operation
from shardfix.semantics.interpreter.trace import Environment
from shardfix.semantics.interpreter.trees import iterated
from shardfix.semantics.module import MUTATORS
from shardfix.semantics.values import UNKNOWN, Dict, Instance, Sequence, Value, join_all

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter


def bind(interpreter: Interpreter, target: ast.expr, value: Value, environment: Environment) -> None:
    match target:
        case ast.Name(id=name):
            holder = environment
            if name in environment.scope.globals or name in environment.scope.nonlocals:
                return
            holder.variables[name] = value
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            starred = next((i for i, element in enumerate(elements) if isinstance(element, ast.Starred)), None)
            for position, element in enumerate(elements):
                if isinstance(element, ast.Starred):
                    bind(interpreter, element.value, Sequence(None, "list"), environment)
                elif starred is not None and position > starred:
                    bind(interpreter, element, element_of(value, position - len(elements)), environment)
                else:
                    bind(interpreter, element, element_of(value, position), environment)
        case ast.Subscript(value=owner, slice=key):
            container = interpreter.evaluate(owner, environment)
            if isinstance(container, Sequence | Dict | Instance):
                interpreter.change(
                    container, with_item(container, index_value(interpreter, key, environment), value), environment
                )
            elif container == UNKNOWN:  # from where the value may be changed unseen
                interpreter.let_go_of(value, environment)
        case ast.Attribute(value=owner, attr=attribute_name):
            instance = interpreter.evaluate(owner, environment)
            if isinstance(instance, Instance):
                plain = sets_plainly(interpreter, instance.cls, attribute_name)
                new = with_attribute(instance, attribute_name, value) if plain else of_its_kind(instance)
                interpreter.change(instance, new, environment)
            elif instance == UNKNOWN:
                interpreter.let_go_of(value, environment)


def augment(interpreter: Interpreter, node: ast.AugAssign, environment: Environment) -> None:
    load = copy(node.target)
    load.ctx = ast.Load()
    old = interpreter.evaluate(load, environment)
    right = interpreter.evaluate(node.value, environment)
    sum_ = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
    value = operation(interpreter, node.op, old, right, sum_, environment)
    if isinstance(old, Sequence | Dict) and not (isinstance(old, Sequence) and old.kind == "tuple"):
        if isinstance(old, Sequence) and isinstance(node.op, ast.Add) and value == UNKNOWN:
            value = Sequence(None, old.kind, join_all((*(old.items or (old.rest,)), iterated(right))))
        interpreter.change(old, value, environment)
    bind(interpreter, node.target, value, environment)


def forget(interpreter: Interpreter, target: ast.expr, environment: Environment) -> None:
    """A name that may be bound anew, or a container that may be changed, is unknown from here on."""
    match target:
        case ast.Name(id=name):
            environment.variables[name] = UNKNOWN
        case ast.Subscript(value=ast.expr() as owner) | ast.Attribute(value=ast.expr() as owner):
            while isinstance(owner, ast.Subscript | ast.Attribute):
                owner = owner.value
            if isinstance(owner, ast.Name):
                known = environment.lookup(owner.id, interpreter)
                if isinstance(known, Sequence | Dict | Instance):
                    interpreter.change(known, UNKNOWN, environment)
                    environment.variables[owner.id] = UNKNOWN


def forget_assigned(interpreter: Interpreter, statements: list[ast.stmt], environment: Environment) -> None:
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                environment.variables[node.id] = UNKNOWN
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                environment.variables[node.name] = UNKNOWN
            elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
                forget(interpreter, node, environment)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
                forget(interpreter, node.func, environment)
