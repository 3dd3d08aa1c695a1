"""Operators and comparisons."""

from __future__ import annotations

import ast
import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shardfix.semantics import rank_rules
from shardfix.semantics.interpreter.shardings import add_specs
from shardfix.semantics.interpreter.trace import Environment
from shardfix.semantics.interpreter.trees import leaf_of
from shardfix.semantics.values import (
    UNKNOWN,
    Array,
    Class,
    Constant,
    Dict,
    Function,
    JaxObject,
    Mapped,
    Number,
    Partial,
    Sequence,
    Spec,
    Text,
    Transformed,
    Tree,
    Value,
    as_array,
    is_number,
    join,
    join_all,
)

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter

_COMPARISONS: dict[type, Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def binary_operation(interpreter: Interpreter, node: ast.BinOp, environment: Environment) -> Value:
    left = interpreter.evaluate(node.left, environment)
    right = interpreter.evaluate(node.right, environment)
    return operation(interpreter, node.op, left, right, node, environment)


def operation(
    interpreter: Interpreter, op: ast.operator, left: Value, right: Value, node: ast.expr, environment: Environment
) -> Value:
    match left, op, right:
        case Sequence(), ast.Add(), Sequence() if left.kind == right.kind:
            if left.items is not None and right.items is not None:
                return replace(left, items=left.items + right.items)
            return Sequence(
                None, left.kind, join(join_all(left.items or (left.rest,)), join_all(right.items or (right.rest,)))
            )
        case Sequence(items=tuple() as items), ast.Mult(), Constant(value=int() as count):
            return (
                replace(left, items=items * count)
                if len(items) * max(count, 0) <= 64
                else Sequence(None, left.kind, join_all(items))
            )
        case Constant(value=int()), ast.Mult(), Sequence():
            return _repeated(right, left)
        case Sequence(), ast.Mult(), _:
            return Sequence(None, left.kind, join_all(left.items) if left.items else left.rest)
        case Dict(complete=True), ast.BitOr(), Dict(complete=True):
            return Dict(tuple((dict(left.items) | dict(right.items)).items()))
        case Spec(), ast.Add(), Spec() | Sequence():
            return add_specs(left, right)
        case Text(value=str() as a), ast.Add(), Text(value=str() as b):
            return Text(a + b)
        case Text(), _, _:
            return Text()
        case (Constant(), _, Constant()):
            return _fold(op, left.value, right.value)
    if isinstance(left, Array | Tree) or isinstance(right, Array | Tree):
        return interpreter.note(
            rank_rules.binary(op, leaf_of(left), leaf_of(right)) or UNKNOWN, node, environment, left, right
        )
    if is_number(left) and is_number(right):
        return Number()
    return UNKNOWN


def _repeated(sequence: Sequence, count: Value) -> Value:
    if sequence.items is not None and isinstance(count, Constant) and isinstance(count.value, int):
        if len(sequence.items) * max(count.value, 0) <= 64:
            return replace(sequence, items=sequence.items * count.value)
    return Sequence(None, sequence.kind, join_all(sequence.items) if sequence.items else sequence.rest)


def unary_operation(interpreter: Interpreter, node: ast.UnaryOp, environment: Environment) -> Value:
    operand = interpreter.evaluate(node.operand, environment)
    if isinstance(operand, Array | Tree):
        if isinstance(node.op, ast.Not):
            return Number()
        return rank_rules.unary(node.op, as_array(operand)) or UNKNOWN
    if isinstance(operand, Constant):
        functions: dict[type, Any] = {
            ast.USub: operator.neg,
            ast.UAdd: operator.pos,
            ast.Not: operator.not_,
            ast.Invert: operator.invert,
        }
        try:
            return Constant(functions[type(node.op)](operand.value))
        except (TypeError, KeyError):
            return UNKNOWN
    return Number() if isinstance(node.op, ast.Not) or is_number(operand) else UNKNOWN


def boolean_operation(interpreter: Interpreter, node: ast.BoolOp, environment: Environment) -> Value:
    for position, operand in enumerate(node.values):
        value = interpreter.evaluate(operand, environment)
        truth = truth_of(value)
        if truth is None and position < len(node.values) - 1:
            with interpreter.perhaps():
                return join_all(
                    [value, *(interpreter.evaluate(other, environment) for other in node.values[position + 1 :])]
                )
        if truth == isinstance(node.op, ast.Or):
            return value
    return value


def comparison(interpreter: Interpreter, node: ast.Compare, environment: Environment) -> Value:
    operands = [interpreter.evaluate(operand, environment) for operand in (node.left, *node.comparators)]
    if len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot):
        left, right = operands
        if right == Constant(None) and left != UNKNOWN and not isinstance(left, Tree):  # None is a pytree too
            same = left == Constant(None)
            return Constant(same if isinstance(node.ops[0], ast.Is) else not same)
        return Number()
    if any(isinstance(operand, Array | Tree) for operand in operands):
        if len(operands) == 2 and not isinstance(node.ops[0], ast.In | ast.NotIn):
            return rank_rules.compare(node.ops[0], leaf_of(operands[0]), leaf_of(operands[1])) or UNKNOWN
        return Number()
    match operands, node.ops:
        case [Constant() | Text() as a, Constant() | Text() as b], [op] if type(op) in _COMPARISONS:
            if a.value is not None or not isinstance(a, Text):
                if not (isinstance(b, Text) and b.value is None):
                    try:
                        return Constant(_COMPARISONS[type(op)](a.value, b.value))
                    except TypeError:
                        return UNKNOWN
    plain = (Constant, Number, Text, Sequence, Dict, Spec)
    return Number() if all(isinstance(operand, plain) for operand in operands) else UNKNOWN


def truth_of(value: Value) -> bool | None:
    match value:
        case Constant(value=known):
            return bool(known)
        case Text(value=str() as known):
            return bool(known)
        case Sequence(items=tuple() as items):
            return bool(items)
        case Function() | Class() | JaxObject() | Partial() | Mapped() | Transformed():
            return True
    return None


def _fold(op: ast.operator, left: Any, right: Any) -> Value:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return UNKNOWN
    function = _OPERATORS.get(type(op))
    if function is None:
        return Number()
    try:
        return Constant(function(left, right))
    except (ArithmeticError, ValueError):
        return Number()
