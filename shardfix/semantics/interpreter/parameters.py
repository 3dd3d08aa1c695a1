"""Parameters and what they hold in a run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardfix.semantics.interpreter.aliases import is_changeable, of_its_kind
from shardfix.semantics.interpreter.invocation import Arguments
from shardfix.semantics.interpreter.shardings import from_annotation
from shardfix.semantics.interpreter.trace import Environment
from shardfix.semantics.values import UNKNOWN, Class, Dict, Function, Instance, Sequence, Value, join, join_all

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter


def default_arguments(parameters: ast.arguments) -> list[tuple[str, ast.expr]]:
    """The parameters that have a default, with it."""
    positional = [*parameters.posonlyargs, *parameters.args]
    with_default = positional[len(positional) - len(parameters.defaults) :]
    pairs = [(argument.arg, default) for argument, default in zip(with_default, parameters.defaults, strict=True)]
    named = zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
    return pairs + [(argument.arg, default) for argument, default in named if default is not None]


def bind_parameters(
    interpreter: Interpreter, function: Function, given: Arguments, outer: Environment, environment: Environment
) -> None:
    """Bind the parameters of ``function`` in ``environment``; defaults and annotations are looked up in ``outer``."""
    parameters = function.node.args
    arguments, missing, exact = given.positional, given.missing, given.exact
    positional = [*parameters.posonlyargs, *parameters.args]
    defaults = dict(default_arguments(parameters))
    evaluated = dict(function.defaults)

    def default(name: str) -> Value:
        value = evaluated[name] if name in evaluated else interpreter.evaluate(defaults[name], outer)
        if not is_changeable(value) or (isinstance(value, Instance) and name not in function.module.mutated_names):
            return value
        return of_its_kind(value)  # one object for all calls, in which it may have been changed

    left = dict(given.keywords)
    for position, argument in enumerate(positional):
        if position < len(arguments):
            value = arguments[position]
        elif argument.arg in left:
            value = left.pop(argument.arg)
        elif exact and argument.arg in defaults:
            value = default(argument.arg)
        elif missing != UNKNOWN:
            value = join(missing, default(argument.arg)) if argument.arg in defaults else missing
        else:
            value = from_annotation(argument.annotation, outer)
        environment.variables[argument.arg] = value
    for argument in parameters.kwonlyargs:
        if argument.arg in left:
            environment.variables[argument.arg] = left.pop(argument.arg)
        elif exact and argument.arg in defaults:
            environment.variables[argument.arg] = default(argument.arg)
        else:
            environment.variables[argument.arg] = from_annotation(argument.annotation, outer)
    if parameters.vararg is not None:
        extra = arguments[len(positional) :]
        rest = join_all((*extra, missing))
        environment.variables[parameters.vararg.arg] = Sequence(extra) if exact else Sequence(None, rest=rest)
    if parameters.kwarg is not None:
        environment.variables[parameters.kwarg.arg] = Dict(tuple(left.items()), complete=exact)
    if positional and function.bound_self is None and positional[0].arg == "self" and not arguments:
        cls = function.module.enclosing(function.node, ast.ClassDef)
        if cls is not None and function.node in cls.body:
            environment.variables["self"] = Instance(Class(function.module, cls, open=True))
