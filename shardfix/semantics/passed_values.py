"""Shardings that reach JAX through a parameter of a function of the module: its default, and what calls in view pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.semantics.definitions import (
    FunctionNode,
    argument_for,
    attributes_named,
    default_of,
    direct_calls,
    name_uses,
)
from shardfix.semantics.jax_api import out_sharding_callables, out_sharding_parameter
from shardfix.semantics.readings import leaf_nodes
from shardfix.semantics.sharding_arguments import ShardingArgument
from shardfix.semantics.values import Function, Instance

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.semantics.scopes import Binding

__all__ = ["PassedValue", "passed_values", "values_of_shared_parameter"]


@dataclass(frozen=True, eq=False)
class PassedValue:
    """A value that reaches a sharding argument through a parameter of a function of this module."""

    argument: ShardingArgument
    value: ast.expr
    call: ast.AST
    """The call that passes it, or the function whose default it is."""


def passed_values(module: Module, arguments: list[ShardingArgument]) -> Iterator[PassedValue]:
    """The defaults and the arguments of calls in view that JAX gets as they are."""
    yield from _spread_values(module)
    done: set[ast.arg] = set()
    placed = {node for item in arguments if item.certain for node in leaf_nodes(item.value)}
    open_: list[tuple[ShardingArgument, ast.expr]] = [(item, item.value) for item in arguments if item.certain]
    while open_:
        argument, value = open_.pop()
        for node in leaf_nodes(value):
            parameter = _parameter_behind(module, node)
            if parameter is None or parameter[1] in done:
                continue
            function, declared = parameter
            done.add(declared)
            if not _only_placed(module, function, declared, placed, set()):
                continue
            default = default_of(function, declared)
            for stand_in in (default, *_fallbacks(module, node)):
                if stand_in is not None:
                    yield PassedValue(argument, stand_in, function)
            for call, bound in _calls_of(module, function):
                given = argument_for(function, call, declared.arg, bound=bound)
                if given is not None and given is not default:
                    yield PassedValue(argument, given, call)
                    open_.append((argument, given))


def values_of_shared_parameter(
    module: Module, node: ast.expr, arguments: list[ShardingArgument]
) -> list[ast.expr] | None:
    """What a parameter may be that is placed, and used otherwise as well: what all calls in view pass, or its default.

    None where no call is in view, where one hides what it passes, and where the function asks what it was given.
    """
    parameter = _parameter_behind(module, node)
    if parameter is None:
        return None
    function, declared = parameter
    placed = {leaf for item in arguments if item.certain for leaf in leaf_nodes(item.value)}
    if _only_placed(module, function, declared, placed, set()) or _is_asked_for(module, function, declared):
        return None
    given = [argument_for(function, call, declared.arg, bound=bound) for call, bound in _calls_of(module, function)]
    return [value for value in given if value is not None] if given and None not in given else None


def _is_asked_for(module: Module, function: FunctionNode, declared: ast.arg) -> bool:
    """Whether a function asks for the type of a parameter, or compares it."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == declared.arg:
            parent = module.parent(node)
            if isinstance(parent, ast.Compare) and not _is_test(module, node):
                return True
            if isinstance(parent, ast.Call) and module.resolve(parent.func) & {"builtins.isinstance", "builtins.type"}:
                return True
            if isinstance(parent, ast.Starred):
                return True
    return False


def _spread_values(module: Module) -> Iterator[PassedValue]:
    """What calls in view hand to JAX through the ``**`` parameter of a function that does nothing else with it."""
    for api in sorted(module.called_names & out_sharding_callables()):
        parameter = out_sharding_parameter(api)
        for call in module.calls_to(api):
            for keyword in call.node.keywords:
                function = _spread_parameter(module, keyword)
                if function is None or parameter is None or call.argument("out_sharding") is not None:
                    continue
                declared = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
                argument = ShardingArgument(
                    api, parameter, call.node, call.function, keyword.value, None, False, call.is_partial, True, call
                )
                for site, _ in _calls_of(module, function):
                    for given in site.keywords:
                        if given.arg == "out_sharding" and given.arg not in declared:
                            yield PassedValue(argument, given.value, site)


def _spread_parameter(module: Module, keyword: ast.keyword) -> FunctionNode | None:
    """The function whose ``**`` parameter a call spreads, if that is all that is done with it."""
    if keyword.arg is not None or not isinstance(keyword.value, ast.Name):
        return None
    known = module.scope_of(keyword.value).lookup(keyword.value.id)
    if known is None or len(known[1]) != 1 or not isinstance(known[1][0].statement, FunctionNode):
        return None
    function = known[1][0].statement
    if known[1][0].node is not function.args.kwarg:
        return None
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == keyword.value.id]
    return function if len(uses) == 1 else None


def _parameter_behind(module: Module, node: ast.expr) -> tuple[FunctionNode, ast.arg] | None:
    """The parameter that a name is, if nothing else is bound to it but what stands in where it is None."""
    if not isinstance(node, ast.Name):
        return None
    known = module.scope_of(node).lookup(node.id)
    if known is None or known[1][0].kind != "parameter":
        return None
    binding, *others = known[1]
    if any(_fallback(module, other) is None for other in others):
        return None
    if not isinstance(binding.node, ast.arg) or not isinstance(binding.statement, FunctionNode):
        return None
    arguments = binding.statement.args
    if binding.node in (arguments.vararg, arguments.kwarg):
        return None
    return binding.statement, binding.node


def _fallbacks(module: Module, node: ast.expr) -> Iterator[ast.expr]:
    """What a parameter that is None is replaced by in its function."""
    known = module.scope_of(node).lookup(node.id) if isinstance(node, ast.Name) else None
    for binding in known[1][1:] if known is not None else ():
        value = _fallback(module, binding)
        if value is not None:
            yield value


def _fallback(module: Module, binding: Binding) -> ast.expr | None:
    """The value of ``x`` in ``x = x or value``, ``x = value if x is None else x`` and ``if x is None: x = value``."""
    statement, value = binding.statement, binding.value
    if not isinstance(statement, ast.Assign) or value is None or binding.path or len(statement.targets) != 1:
        return None
    name = statement.targets[0]
    if not isinstance(name, ast.Name):
        return None
    around = module.parent(statement)
    match value:
        case ast.BoolOp(op=ast.Or(), values=[ast.Name(id=first), fallback]) if first == name.id:
            return fallback
        case ast.IfExp(test=test, body=fallback, orelse=ast.Name(id=same)) if same == name.id:
            return fallback if _asks_for_none(test, name.id) else None
        case ast.IfExp(test=ast.Name(id=first), body=ast.Name(id=same), orelse=fallback) if first == same == name.id:
            return fallback
    if isinstance(around, ast.If) and around.body == [statement] and _asks_for_none(around.test, name.id):
        return value
    return None


def _asks_for_none(test: ast.expr, name: str) -> bool:
    match test:
        case ast.Compare(left=ast.Name(id=left), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return left == name
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=operand)):
            return operand == name
    return False


def _calls_of(module: Module, function: FunctionNode) -> Iterator[tuple[ast.Call, bool]]:
    """The calls in view, and whether they are calls of a bound method."""
    if isinstance(function, ast.Lambda):
        parent = module.parent(function)
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
            for use in name_uses(module, parent.targets[0].id, parent.targets[0]):
                call = module.parent(use)
                if isinstance(call, ast.Call) and call.func is use:
                    yield call, False
        return
    owner = module.parent(function)
    if isinstance(owner, ast.ClassDef) and function.name == "__call__":
        for call in module.nodes(ast.Call):
            if not module.resolve(call.func) and isinstance(call.func, ast.Name | ast.Attribute | ast.Call):
                value = module.value_of(call.func)
                if isinstance(value, Instance) and value.cls.node is owner:
                    yield call, True
        return
    if isinstance(owner, ast.ClassDef):
        for attribute in attributes_named(module, function.name):
            call = module.parent(attribute)
            if isinstance(call, ast.Call) and call.func is attribute:
                value = module.value_of(attribute)
                if isinstance(value, Function) and value.node is function and value.bound_self is not None:
                    yield call, True
        return
    for call in direct_calls(module, function):
        yield call, False


def _only_placed(
    module: Module, function: FunctionNode, declared: ast.arg, placed: set[ast.expr], active: set[ast.arg]
) -> bool:
    """Whether a function hands a parameter to JAX as a sharding, and does nothing else with it but ask if it is None."""
    if declared in active:
        return True
    active = active | {declared}
    uses = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id == declared.arg
        and _is_bound_to(module, node, declared)
    ]
    return bool(uses) and all(
        use in placed
        or _is_test(module, use)
        or _is_replaced(module, use)
        or _is_passed_on(module, use, placed, active)
        for use in uses
    )


def _is_bound_to(module: Module, node: ast.Name, declared: ast.arg) -> bool:
    known = module.scope_of(node).lookup(node.id)
    return known is not None and any(binding.node is declared for binding in known[1])


def _is_test(module: Module, use: ast.Name) -> bool:
    match module.parent(use):
        case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return True
        case ast.If(test=test) | ast.IfExp(test=test) if test is use:
            return True
        case ast.UnaryOp(op=ast.Not()):
            return True
    return False


def _is_replaced(module: Module, use: ast.Name) -> bool:
    """Whether a parameter is read only to be bound anew where it is None."""
    statement = module.statement(use)
    known = module.scope_of(use).lookup(use.id)
    bindings = known[1] if known is not None else []
    return any(binding.statement is statement and _fallback(module, binding) is not None for binding in bindings)


def _is_passed_on(module: Module, use: ast.Name, placed: set[ast.expr], active: set[ast.arg]) -> bool:
    parent = module.parent(use)
    call = module.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or call.func is use:
        return False
    definition = module.definition(call.func)
    if definition is None or definition[0] is not module or not isinstance(definition[1], ast.FunctionDef):
        return False
    function = definition[1]
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    for declared in every:
        if argument_for(function, call, declared.arg) is use:
            return _only_placed(module, function, declared, placed, active)
    return False
