"""Expressions, each evaluated to what is known of its value."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shardfix.semantics.interpreter.aliases import of_its_kind
from shardfix.semantics.interpreter.assignments import bind
from shardfix.semantics.interpreter.attributes import attribute_of, may_inherit_unseen
from shardfix.semantics.interpreter.bindings import function_of, object_of
from shardfix.semantics.interpreter.indexing import entry_value, subscript
from shardfix.semantics.interpreter.invocation import Arguments, Invocation
from shardfix.semantics.interpreter.mutation import with_item
from shardfix.semantics.interpreter.operators import (
    binary_operation,
    boolean_operation,
    comparison,
    truth_of,
    unary_operation,
)
from shardfix.semantics.interpreter.trace import Environment
from shardfix.semantics.interpreter.trees import iterated
from shardfix.semantics.scopes import COMPREHENSIONS
from shardfix.semantics.values import (
    UNKNOWN,
    Class,
    Constant,
    Dict,
    Instance,
    Sequence,
    Spec,
    Super,
    Text,
    Value,
    join,
    join_all,
)

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter

LARGEST_DICT = 64
"""Entries of a dict display that are looked at one by one."""
MOST_ROUNDS = 16
"""Items of a known sequence that a comprehension is run for one by one."""


def _constant(interpreter: Interpreter, node: ast.Constant, environment: Environment) -> Value:
    return Text(node.value) if isinstance(node.value, str) else Constant(node.value)


def _name(interpreter: Interpreter, node: ast.Name, environment: Environment) -> Value:
    value = environment.lookup(node.id, interpreter)
    if value is not None:
        return value
    names = environment.module._resolve_unbound(node)
    return object_of(names)


def _attribute(interpreter: Interpreter, node: ast.Attribute, environment: Environment) -> Value:
    return attribute_of(interpreter, interpreter.evaluate(node.value, environment), node.attr, environment)


def _sequence(interpreter: Interpreter, node: ast.Tuple | ast.List | ast.Set, environment: Environment) -> Value:
    kind = "tuple" if isinstance(node, ast.Tuple) else "list" if isinstance(node, ast.List) else "set"
    items: list[Value] = []
    exact = True
    for element in node.elts:
        if isinstance(element, ast.Starred):
            inner = interpreter.evaluate(element.value, environment)
            if isinstance(inner, Spec) and inner.entries is not None and ... not in inner.entries:
                items.extend(map(entry_value, inner.entries))
            elif isinstance(inner, Sequence) and inner.items is not None:
                items.extend(inner.items)
            else:
                exact = False
                items.append(inner.rest if isinstance(inner, Sequence) else UNKNOWN)
        else:
            items.append(interpreter.evaluate(element, environment))
    return Sequence(tuple(items), kind) if exact else Sequence(None, kind, join_all(items))


def _dict(interpreter: Interpreter, node: ast.Dict, environment: Environment) -> Value:
    if len(node.keys) > LARGEST_DICT:
        return Dict((), complete=False)
    items: dict[Any, Value] = {}
    complete = True
    for key, item in zip(node.keys, node.values, strict=True):
        value = interpreter.evaluate(item, environment)
        if key is None:
            if isinstance(value, Dict):
                items.update(value.items)
                complete = complete and value.complete
            else:
                items, complete = {}, False
            continue
        name = interpreter.evaluate(key, environment)
        if (isinstance(name, Text) and name.value is not None) or (
            isinstance(name, Constant) and isinstance(name.value, int | str | float | bool | None)
        ):
            items[name.value] = value
        else:
            items, complete = {}, False
    return Dict(tuple(items.items()), complete)


def _conditional(interpreter: Interpreter, node: ast.IfExp, environment: Environment) -> Value:
    truth = truth_of(interpreter.evaluate(node.test, environment))
    if truth is not None:
        return interpreter.evaluate(node.body if truth else node.orelse, environment)
    with interpreter.perhaps():
        return join(interpreter.evaluate(node.body, environment), interpreter.evaluate(node.orelse, environment))


def _named(interpreter: Interpreter, node: ast.NamedExpr, environment: Environment) -> Value:
    value = interpreter.evaluate(node.value, environment)
    target = environment
    while isinstance(target.scope.node, COMPREHENSIONS) and target.parent is not None:
        target = target.parent
    target.variables[node.target.id] = value
    return value


def _formatted(interpreter: Interpreter, node: ast.JoinedStr, environment: Environment) -> Value:
    return Text()


def _comprehension(
    interpreter: Interpreter, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, environment: Environment
) -> Value:
    kind = "list" if isinstance(node, ast.ListComp) else "generator" if isinstance(node, ast.GeneratorExp) else "set"
    inner = Environment(environment.module, environment.module.scopes[node], environment, static=False)
    first = interpreter.evaluate(node.generators[0].iter, environment)
    if (
        len(node.generators) == 1
        and not node.generators[0].ifs
        and isinstance(first, Sequence)
        and first.items is not None
    ):
        if len(first.items) <= MOST_ROUNDS:
            items = []
            for item in first.items:
                bind(interpreter, node.generators[0].target, item, inner)
                items.append(interpreter.evaluate(node.elt, inner))
            return Sequence(tuple(items), kind)
    with interpreter.perhaps():
        bind(interpreter, node.generators[0].target, iterated(first), inner)
        for generator in node.generators[1:]:
            bind(interpreter, generator.target, iterated(interpreter.evaluate(generator.iter, inner)), inner)
        return Sequence(None, kind, interpreter.evaluate(node.elt, inner))


def _dict_comprehension(interpreter: Interpreter, node: ast.DictComp, environment: Environment) -> Value:
    inner = Environment(environment.module, environment.module.scopes[node], environment)
    source = interpreter.evaluate(node.generators[0].iter, environment)
    if len(node.generators) > 1 or node.generators[0].ifs:
        return Dict((), complete=False)
    if not isinstance(source, Sequence) or source.items is None or len(source.items) > MOST_ROUNDS:
        return Dict((), complete=False)
    result: Value = Dict(())
    for item in source.items:
        bind(interpreter, node.generators[0].target, item, inner)
        result = with_item(result, interpreter.evaluate(node.key, inner), interpreter.evaluate(node.value, inner))
    return result


def _call(interpreter: Interpreter, node: ast.Call, environment: Environment) -> Value:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        return _super(interpreter, node, environment)
    owner: Value = UNKNOWN
    if isinstance(node.func, ast.Attribute):
        interpreter.spend()
        owner = interpreter.evaluate(node.func.value, environment)
        function = attribute_of(interpreter, owner, node.func.attr, environment)
    else:
        function = interpreter.evaluate(node.func, environment)
    arguments: list[Value] = []
    exact = True
    missing: Value = UNKNOWN
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            spread = interpreter.evaluate(argument.value, environment)
            if isinstance(spread, Sequence) and spread.items is not None and spread.kind != "set":
                arguments.extend(spread.items)
            elif isinstance(spread, Spec) and spread.entries is not None and ... not in spread.entries:
                arguments.extend(map(entry_value, spread.entries))
            else:
                exact = False
                if argument is node.args[-1] and isinstance(spread, Sequence):
                    missing = iterated(spread)
                break
        else:
            arguments.append(interpreter.evaluate(argument, environment))
    keywords: dict[str, Value] = {}
    for keyword in node.keywords:
        value = interpreter.evaluate(keyword.value, environment)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif isinstance(value, Dict) and value.complete:
            keywords.update({key: item for key, item in value.items if isinstance(key, str)})
        else:
            exact, missing = False, UNKNOWN
    if function == UNKNOWN and isinstance(owner, Super):  # a base class that is not followed may set any attribute
        interpreter.change(owner.owner, of_its_kind(owner.owner), environment)
    elif function == UNKNOWN and isinstance(owner, Instance) and may_inherit_unseen(interpreter, owner.cls):
        interpreter.change(owner, of_its_kind(owner), environment)
    return interpreter.call(
        function, Invocation(interpreter, environment, node, Arguments(tuple(arguments), keywords, exact, missing))
    )


def _super(interpreter: Interpreter, node: ast.Call, environment: Environment) -> Value:
    """``super()`` in a method whose first parameter is known."""
    module = environment.module
    method_node = module.enclosing(node, ast.FunctionDef, ast.Lambda)
    cls = module.parent(method_node) if isinstance(method_node, ast.FunctionDef) else None
    if not isinstance(cls, ast.ClassDef) or not isinstance(method_node, ast.FunctionDef) or not method_node.args.args:
        return UNKNOWN
    owner = environment.lookup(method_node.args.args[0].arg, interpreter)
    return Super(Class(module, cls), owner) if isinstance(owner, Instance) else UNKNOWN


EXPRESSIONS: dict[type[ast.AST], Callable[[Interpreter, Any, Environment], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: subscript,
    ast.Tuple: _sequence,
    ast.List: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.BinOp: binary_operation,
    ast.UnaryOp: unary_operation,
    ast.BoolOp: boolean_operation,
    ast.Compare: comparison,
    ast.IfExp: _conditional,
    ast.Lambda: function_of,
    ast.NamedExpr: _named,
    ast.JoinedStr: _formatted,
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _dict_comprehension,
    ast.Call: _call,
}
"""What evaluates an expression, by the type of its node; the value of any other is unknown."""
