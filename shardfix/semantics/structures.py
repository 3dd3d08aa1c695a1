"""What a pytree of shardings belongs to: one array, several arguments or results, or something not in view."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.semantics.definitions import returns
from shardfix.semantics.sharding_arguments import is_array
from shardfix.semantics.values import Array, Constant, Dict, Function, Number, Sequence, Value

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.semantics.sharding_arguments import ShardingArgument

__all__ = ["ARRAY", "UNKNOWN_STRUCTURE", "Structure", "mapped_function", "structure"]

ARGUMENTS = frozenset({"in_specs", "in_shardings", "in_sharding"})
RESULTS = frozenset({"out_specs", "out_shardings", "out_sharding"})


@dataclass(frozen=True)
class Structure:
    """The shape of a pytree, as far as its top goes."""

    kind: str
    """``array``, ``tuple``, ``list``, ``dict``, ``arguments`` (of a function) or ``unknown``."""
    parts: tuple[Structure, ...] | None = None
    """Of a tuple, a list or arguments; None where their number is not known."""

    @property
    def is_array(self) -> bool:
        return self.kind == "array"


ARRAY = Structure("array")
UNKNOWN_STRUCTURE = Structure("unknown")


def structure(module: Module, argument: ShardingArgument) -> Structure:
    """What the value of ``argument`` is laid over."""
    if not argument.parameter.takes.tree:
        return ARRAY
    name = argument.parameter.name
    if argument.api.rpartition(".")[2] in ("device_put", "with_sharding_constraint", "reshard"):
        operand = argument.call.value("x", 0) if argument.call is not None else None
        if operand is None and argument.call is not None:
            operand = argument.call.value("xs", 0)
        return _of_expression(module, operand) if operand is not None else UNKNOWN_STRUCTURE
    found = mapped_function(module, argument)
    if name == "out_specs" and (known := _of_runs(module, argument.node)).kind != "unknown":
        return known
    if found is None:
        return Structure("arguments") if name in ARGUMENTS else UNKNOWN_STRUCTURE
    where, function, bound = found
    if name in ARGUMENTS:
        return _of_arguments(function, bound)
    return _of_result(where, function)


def _of_runs(module: Module, call: ast.AST) -> Structure:
    """What the function mapped at ``call`` gives wherever it is called in view."""
    found = [_of_value(run.result) for run in module.trace.maps if run.site.call is call]
    known = [item for item in found if item.kind != "unknown"]
    return known[0] if known and all(item == known[0] for item in known) else UNKNOWN_STRUCTURE


def mapped_function(
    module: Module, argument: ShardingArgument
) -> tuple[Module, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, bool] | None:
    """The function that a map or a jit is given, with its module, and whether it is a method bound to its instance."""
    node = argument.node
    given = argument.call.value("f", 0) if argument.call is not None else None
    if given is None and argument.call is not None:
        given = argument.call.value("fun", 0)
    parent = module.parent(node)
    if given is None or given is argument.value:
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and node in parent.decorator_list:
            return module, parent, False
        if isinstance(parent, ast.Call) and parent.func is node and parent.args:
            given = parent.args[0]
        else:
            return None
    if isinstance(given, ast.Lambda):
        return module, given, False
    definition = module.definition(given)
    if definition is not None and isinstance(definition[1], ast.FunctionDef | ast.AsyncFunctionDef):
        return definition[0], definition[1], False
    value = module.value_of(given)
    if isinstance(value, Function):
        return value.module, value.node, value.bound_self is not None
    return None


def _of_arguments(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, bound: bool) -> Structure:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args][1 if bound else 0 :]
    if arguments.vararg is not None or arguments.defaults:
        return Structure("arguments")
    return Structure("arguments", (ARRAY,) * len(positional))


def _of_result(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Structure:
    if isinstance(function, ast.Lambda):
        results: list[ast.expr | None] = [function.body]
    else:
        results = [statement.value for statement in returns(function)]
    found = [_of_expression(module, result) if result is not None else UNKNOWN_STRUCTURE for result in results]
    if found and all(item == found[0] for item in found) and found[0].kind != "unknown":
        return found[0]
    from shardfix.semantics.interpreter.core import Interpreter

    outer = module.value_of(function) if isinstance(function, ast.Lambda) else None
    value = outer if isinstance(outer, Function) else Function(module, function, _environment(module, function))
    return _of_value(Interpreter().entry(value))


def _environment(module: Module, function: ast.AST):  # type: ignore[no-untyped-def]
    from shardfix.semantics.interpreter.bindings import static_environment

    return static_environment(module, module.scope_of(function))


def _of_expression(module: Module, expression: ast.expr, depth: int = 0) -> Structure:
    match expression:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            kind = "tuple" if isinstance(expression, ast.Tuple) else "list"
            if any(isinstance(element, ast.Starred) for element in elements):
                return Structure(kind)
            return Structure(kind, tuple(_of_expression(module, element, depth + 1) for element in elements))
        case ast.Dict() | ast.DictComp():
            return Structure("dict")
        case ast.Name() if depth < 6:
            bindings = module.reaching(expression)
            if bindings and len(bindings) == 1 and bindings[0].value is not None and not bindings[0].path:
                if isinstance(bindings[0].value, ast.Tuple | ast.List | ast.Dict) and bindings[0].kind == "assignment":
                    return _of_expression(module, bindings[0].value, depth + 1)
        case ast.BinOp() if not isinstance(expression.left, ast.Tuple | ast.List):
            if is_array(module, expression) or _is_arithmetic(expression):
                return ARRAY
    return ARRAY if is_array(module, expression) else _of_value(module.value_of(expression))


def _is_arithmetic(expression: ast.BinOp) -> bool:
    """Whether an operator is one that only numbers and arrays have: ``+`` and ``*`` could join or repeat tuples."""
    return not isinstance(expression.op, ast.Add | ast.Mult) or any(
        isinstance(side, ast.Constant | ast.UnaryOp) or (isinstance(side, ast.BinOp) and _is_arithmetic(side))
        for side in (expression.left, expression.right)
    )


def _of_value(value: Value) -> Structure:
    match value:
        case Array() | Number():
            return ARRAY
        case Constant(value=int() | float() | complex()):
            return ARRAY
        case Sequence(items=tuple() as items, kind="tuple" | "list" as kind):
            return Structure(kind, tuple(_of_value(item) for item in items))
        case Sequence(kind="tuple" | "list" as kind):
            return Structure(kind)
        case Dict():
            return Structure("dict")
    return UNKNOWN_STRUCTURE
