"""What is known of a module's mapped functions: the interpreter run over all the code that has to do with them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardfix.semantics.interpreter import Environment, Interpreter, Trace, static_environment
from shardfix.semantics.interpreter.names import MAPS, SHARDING_KEYWORDS
from shardfix.semantics.values import Function

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

__all__ = ["analyse"]

ENTRIES = 400
"""Functions run at most in one module; what is past that is not known."""


def analyse(module: Module) -> Trace:
    """Run the top level and every function that maps, or calls something that does, with unknown arguments.

    Functions that the code in view calls are run with what it passes; those entered that way are not run again.
    """
    interpreter = Interpreter()
    interpreter.run_module(module)
    for node in _functions_of_interest(module)[:ENTRIES]:
        if node in interpreter.trace.entered:
            continue
        interpreter.entry(Function(module, node, _around(module, node)))
    return interpreter.trace


def _around(module: Module, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Environment:
    return static_environment(module, module.scope_of(node))


def _functions_of_interest(module: Module) -> list[ast.FunctionDef]:
    """Functions that hold a map or a sharding argument, and those of the file that mention such functions; outer ones first."""
    interesting: set[ast.AST] = set()
    places: list[ast.AST] = [call.node for call in module.calls_to(*MAPS)]
    places += [keyword for keyword in module.nodes(ast.keyword) if keyword.arg in SHARDING_KEYWORDS]
    for place in places:
        interesting.update(_functions_around(module, place))
    names = {node.name for node in interesting if isinstance(node, ast.FunctionDef)}
    for place in places:  # mapped = jax.shard_map(...)
        statement = module.statement(place)
        if isinstance(statement, ast.Assign):
            names.update(
                target.id if isinstance(target, ast.Name) else target.attr
                for target in statement.targets
                if isinstance(target, ast.Name | ast.Attribute)
            )
    for name in module.imports:
        if module.project.find(name.dotted.rpartition(".")[0] or name.dotted, module.path):
            names.add(name.bound)
    while True:
        found = {
            function
            for kind in (ast.Name, ast.Attribute)
            for node in module.nodes(kind)
            if (node.id if isinstance(node, ast.Name) else node.attr) in names
            for function in _functions_around(module, node)
        }
        if found <= interesting:
            break
        interesting |= found
        names |= {node.name for node in found if isinstance(node, ast.FunctionDef)}
    return [node for node in module.nodes(ast.FunctionDef) if node in interesting]


def _functions_around(module: Module, node: ast.AST) -> list[ast.AST]:
    return [ancestor for ancestor in module.ancestors(node) if isinstance(ancestor, ast.FunctionDef)]
