"""Statements, run one after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from shardfix.semantics.interpreter.assignments import augment, bind, forget, forget_assigned
from shardfix.semantics.interpreter.bindings import defined, imported
from shardfix.semantics.interpreter.operators import truth_of
from shardfix.semantics.interpreter.paths import (
    branch,
    joined_variables,
    loop,
    match_statement,
    may_swallow,
    rounds,
    try_statement,
)
from shardfix.semantics.interpreter.records import is_plain_class
from shardfix.semantics.interpreter.shardings import entered_context
from shardfix.semantics.interpreter.trace import Environment, ReturnFact
from shardfix.semantics.interpreter.trees import iterated
from shardfix.semantics.values import UNKNOWN, Class, Constant, Sequence

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter

MOST_ROUNDS = 16
"""Items of a known sequence that a loop is run for one by one."""


def run_block(
    interpreter: Interpreter, statements: Iterable[ast.stmt], environment: Environment, returns: list[ReturnFact]
) -> bool:
    """Run statements one after the other; whether control falls through the last of them."""
    for statement in statements:
        interpreter.spend()
        if not _statement(interpreter, statement, environment, returns):
            return False
    return True


def _map_methods(interpreter: Interpreter, cls: ast.ClassDef, environment: Environment) -> None:
    """Evaluate the decorators of a class's methods that map them."""
    for node in cls.body:
        if isinstance(node, ast.FunctionDef):
            decorators = [item for item in node.decorator_list if not isinstance(item, ast.Name)]
            if any("smap" in text or "shard_map" in text for text in map(environment.module.text, decorators)):
                defined(interpreter, node, Environment(environment.module, environment.module.scopes[cls], environment))


def _statement(interpreter: Interpreter, node: ast.stmt, environment: Environment, returns: list[ReturnFact]) -> bool:
    match node:  # the most frequent first
        case ast.Assign(targets=targets, value=value):
            result = interpreter.evaluate(value, environment)
            for target in targets:
                bind(interpreter, target, result, environment)
        case ast.Expr(value=value):
            interpreter.evaluate(value, environment)
        case ast.If(test=test, body=body, orelse=orelse):
            return branch(
                interpreter, truth_of(interpreter.evaluate(test, environment)), body, orelse, environment, returns
            )
        case ast.Return(value=value):
            returns.append(
                ReturnFact(value, interpreter.evaluate(value, environment) if value is not None else Constant(None))
            )
            environment.left_early = environment.left_early or environment.open_branches > 0
            return False
        case ast.Raise():
            return False  # the caller is not come back to
        case ast.Break() | ast.Continue():
            if interpreter.exits:
                interpreter.exits[-1].append(dict(environment.variables))
            return False
        case ast.Assert(test=test):
            interpreter.evaluate(test, environment)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            bind(interpreter, target, interpreter.evaluate(value, environment), environment)
        case ast.AugAssign():
            augment(interpreter, node, environment)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            environment.variables[node.name] = defined(interpreter, node, environment)
        case ast.ClassDef():
            cls = Class(environment.module, node)
            environment.variables[node.name] = cls if is_plain_class(cls) else UNKNOWN
            _map_methods(interpreter, node, environment)
        case ast.Import() | ast.ImportFrom():
            for alias in node.names:
                name = alias.asname or (alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name)
                for binding in environment.scope.bindings.get(name, ()):
                    if binding.node is alias:
                        environment.variables[name] = imported(interpreter, environment.module, binding.dotted or "")
        case ast.For(target=target, iter=iterable, body=body, orelse=orelse):
            source = interpreter.evaluate(iterable, environment)
            if isinstance(source, Sequence) and source.items is not None and len(source.items) <= MOST_ROUNDS:
                if source.kind != "set" and node not in environment.module.loops_with_jumps:
                    return rounds(interpreter, target, source.items, body, orelse, environment, returns)
            return loop(
                interpreter,
                lambda: bind(interpreter, target, iterated(source), environment),
                body,
                orelse,
                environment,
                returns,
                node,
            )
        case ast.While(test=test, body=body, orelse=orelse):
            return loop(
                interpreter,
                lambda: interpreter.evaluate(test, environment) and None,
                body,
                orelse,
                environment,
                returns,
                node,
            )
        case ast.With(items=items, body=body):
            for item in items:
                entered = entered_context(interpreter.evaluate(item.context_expr, environment))
                if item.optional_vars is not None:
                    bind(interpreter, item.optional_vars, entered, environment)
            if not any(map(may_swallow, items)):
                return run_block(interpreter, body, environment, returns)
            before = dict(environment.variables)
            with interpreter.maybe(environment):
                run_block(interpreter, body, environment, returns)
            environment.variables = joined_variables(before, environment.variables)
            forget_assigned(interpreter, body, environment)
        case ast.Try() | ast.TryStar():
            return try_statement(interpreter, node, environment, returns)
        case ast.Match(subject=subject, cases=cases):
            matched = interpreter.evaluate(subject, environment)
            return match_statement(interpreter, matched, cases, environment, returns)
        case ast.Delete(targets=targets):
            for target in targets:
                forget(interpreter, target, environment)
        case ast.AsyncFor() | ast.AsyncWith():
            forget_assigned(interpreter, [node], environment)
            returns.append(ReturnFact(None, UNKNOWN))
    return True
