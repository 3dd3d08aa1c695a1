"""Where control parts and meets again: branches, loops, ``try`` and ``match``.

As for any statement, the answer is whether control falls through to the next one.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from shardfix.semantics.interpreter.aliases import HOLDERS, holds_any, of_its_kind, shared_containers
from shardfix.semantics.interpreter.assignments import bind, forget_assigned
from shardfix.semantics.interpreter.trace import Environment, ReturnFact
from shardfix.semantics.values import UNKNOWN, Constant, Text, Value, join

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter

LOOP_ROUNDS = 3
"""Rounds after which the variables of a loop that still change are unknown."""


def branch(
    interpreter: Interpreter,
    truth: bool | None,
    body: list[ast.stmt],
    orelse: list[ast.stmt],
    environment: Environment,
    returns: list[ReturnFact],
) -> bool:
    if truth is True:
        return interpreter.run_block(body, environment, returns)
    if truth is False:
        return interpreter.run_block(orelse, environment, returns)
    before = dict(environment.variables)
    with interpreter.maybe(environment):
        first = interpreter.run_block(body, environment, returns)
        after_body = environment.variables
        environment.variables = dict(before)
        second = interpreter.run_block(orelse, environment, returns)
    if not second:
        environment.variables = after_body
    elif first:
        environment.variables = joined_variables(after_body, environment.variables)
    return first or second


def loop(
    interpreter: Interpreter,
    bind: Any,
    body: list[ast.stmt],
    orelse: list[ast.stmt],
    environment: Environment,
    returns: list[ReturnFact],
    node: ast.stmt,
) -> bool:
    for _ in range(LOOP_ROUNDS):
        before = dict(environment.variables)
        _round(interpreter, bind, body, environment, returns)
        environment.variables = joined_variables(before, environment.variables)
        if environment.variables == before:
            break
    else:
        forget_assigned(interpreter, body, environment)
        _round(interpreter, bind, body, environment, returns)
        forget_assigned(interpreter, body, environment)
    before = environment.variables
    environment.variables = dict(before)
    with interpreter.maybe(environment):
        interpreter.run_block(orelse, environment, returns)
    if node in environment.module.loops_with_jumps:  # after a break it is not run
        environment.variables = joined_variables(before, environment.variables)
    endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value is True
    return not endless or any(isinstance(inner, ast.Break) for inner in ast.walk(node))


def rounds(
    interpreter: Interpreter,
    target: ast.expr,
    items: tuple[Value, ...],
    body: list[ast.stmt],
    orelse: list[ast.stmt],
    environment: Environment,
    returns: list[ReturnFact],
) -> bool:
    """A loop over known items without break or continue: one round after the other."""
    for item in items:
        bind(interpreter, target, item, environment)
        if not interpreter.run_block(body, environment, returns):
            return False
    return interpreter.run_block(orelse, environment, returns)


def _round(
    interpreter: Interpreter, bind: Any, body: list[ast.stmt], environment: Environment, returns: list[ReturnFact]
) -> None:
    """One round of a loop; its end is where the body falls through, or breaks, or continues."""
    bind()
    interpreter.exits.append([])
    try:
        with interpreter.maybe(environment):
            falls_through = interpreter.run_block(body, environment, returns)
    finally:
        exits = interpreter.exits.pop()
    ends = [environment.variables, *exits] if falls_through or not exits else exits
    environment.variables = ends[0]
    for end in ends[1:]:
        environment.variables = joined_variables(environment.variables, end)


def try_statement(
    interpreter: Interpreter, node: ast.Try | ast.TryStar, environment: Environment, returns: list[ReturnFact]
) -> bool:
    before = dict(environment.variables)
    exits = len(interpreter.exits[-1]) if interpreter.exits else 0
    with interpreter.maybe(environment):
        falls_through = interpreter.run_block(node.body, environment, returns)
        if falls_through:
            falls_through = interpreter.run_block(node.orelse, environment, returns)
        ends = [environment.variables] if falls_through else []
        changed = [name for name, value in before.items() if environment.variables.get(name) is not value]
        for handler in node.handlers:
            environment.variables = {**before, **{name: of_its_kind(before[name]) for name in changed}}
            forget_assigned(interpreter, node.body, environment)
            if interpreter.run_block(handler.body, environment, returns):
                ends.append(environment.variables)
    if ends:
        environment.variables = ends[0]
        for end in ends[1:]:
            environment.variables = joined_variables(environment.variables, end)
    if not node.finalbody:
        return bool(ends)
    if interpreter.exits:  # breaks out of the try pass through the final block too
        variables = environment.variables
        for end in interpreter.exits[-1][exits:]:
            environment.variables = end
            forget_assigned(interpreter, node.finalbody, environment)
        environment.variables = variables
    final = interpreter.run_block(node.finalbody, environment, returns)
    return bool(ends) and final


def match_statement(
    interpreter: Interpreter,
    subject: Value,
    cases: list[ast.match_case],
    environment: Environment,
    returns: list[ReturnFact],
) -> bool:
    before = dict(environment.variables)
    ends: list[dict[str, Value]] = [before]
    for case in cases:
        matches = _matches(interpreter, case.pattern, subject, environment)
        if matches is False:
            continue
        environment.variables = dict(before)
        for inner in ast.walk(case.pattern):
            name = getattr(inner, "name", None) or getattr(inner, "rest", None)
            if isinstance(name, str):
                environment.variables[name] = UNKNOWN
        with interpreter.maybe(environment):
            falls_through = interpreter.run_block(case.body, environment, returns)
        if falls_through:
            ends.append(environment.variables)
        if matches and case.guard is None:
            ends.pop(0)
            break
    environment.variables = ends[0] if ends else before
    for end in ends[1:]:
        environment.variables = joined_variables(environment.variables, end)
    return bool(ends)


def _matches(interpreter: Interpreter, pattern: ast.pattern, subject: Value, environment: Environment) -> bool | None:
    """Whether a pattern matches; None where that is not known."""
    match pattern:
        case ast.MatchAs(pattern=None):
            return True
        case ast.MatchAs(pattern=ast.pattern() as inner):
            return _matches(interpreter, inner, subject, environment)
        case ast.MatchOr(patterns=patterns):
            found = [_matches(interpreter, inner, subject, environment) for inner in patterns]
            return True if True in found else None if None in found else False
        case ast.MatchValue(value=value):
            wanted = interpreter.evaluate(value, environment)
            if isinstance(wanted, Text | Constant) and isinstance(subject, Text | Constant):
                if wanted != Text() and subject != Text():
                    return bool(wanted.value == subject.value)
    return None


def may_swallow(item: ast.withitem) -> bool:
    """Whether a context may end its block by an exception that goes no further: ``suppress``, ``pytest.raises`` ..."""
    call = item.context_expr
    name = call.func if isinstance(call, ast.Call) else call
    last = name.attr if isinstance(name, ast.Attribute) else name.id if isinstance(name, ast.Name) else ""
    return last in ("suppress", "raises") or last.startswith("assertRaises")


def joined_variables(a: dict[str, Value], b: dict[str, Value]) -> dict[str, Value]:
    """The variables where two paths meet; a name that only one path has bound is unknown. Aliases stay aliases."""
    joins: dict[tuple[int, int], Value] = {}
    result: dict[str, Value] = {}
    shared: frozenset[int] | None = None
    for name in a.keys() | b.keys():
        if name not in a or name not in b:
            result[name] = UNKNOWN
            continue
        x, y = a[name], b[name]
        key = id(x), id(y)
        if key not in joins:
            joined = join(x, y)
            if x is not y and (x.__class__ in HOLDERS or y.__class__ in HOLDERS):
                if shared is None:
                    shared = shared_containers(a.values()) | shared_containers(b.values())
                if shared and (holds_any(x, shared) or holds_any(y, shared)):
                    joined = UNKNOWN  # what is held elsewhere too would no longer be the same object
            joins[key] = joined
        result[name] = joins[key]
    return result
