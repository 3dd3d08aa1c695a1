"""What is known of a module's mapped functions: the interpreter run over all the code that has to do with them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from shardfix.semantics.gates import is_provoked
from shardfix.semantics.interpreter import Environment, Interpreter, Trace, static_environment
from shardfix.semantics.interpreter.names import MAPS
from shardfix.semantics.values import Function

if TYPE_CHECKING:
    from shardfix.semantics.module import ImportedName, Module
    from shardfix.semantics.scopes import Scope

__all__ = ["analyse"]

TOTAL = 150_000
"""Expressions and statements evaluated for one module; functions past that are not run, and nothing is known of them."""
CALLERS = 2
"""How far up the callers of a mapping function are run, for what they pass to it."""


def analyse(module: Module) -> Trace:
    """Run the top level and every function that maps, or calls something that does, with unknown arguments.

    Functions that the code in view calls are run with what it passes; those entered that way are not run again.
    """
    interpreter = Interpreter()
    functions, concerned = _functions_of_interest(module)
    if not concerned:
        return interpreter.trace
    interpreter.run_module(module)
    for node in functions:
        if interpreter.evaluated > TOTAL:
            break
        if node not in interpreter.trace.entered:
            interpreter.entry(Function(module, node, _around(module, node)))
    _leave_out_what_is_provoked(module, interpreter.trace)
    return interpreter.trace


def _leave_out_what_is_provoked(module: Module, trace: Trace) -> None:
    """Take away the maps whose error a test expects, where they are made or at each of their calls in view."""
    provoked, wanted = set(), set()
    for run in trace.maps:
        if _is_expected(module, run.site.call) or (run.call is not None and _is_expected(module, run.call)):
            provoked.add(run.site.call)
        elif run.call is not None:
            wanted.add(run.site.call)
    provoked -= wanted
    if not provoked:
        return
    mapped = [run.function for run in trace.maps if run.site.call in provoked]
    bodies = {function.node for function in mapped if isinstance(function, Function)}
    trace.maps[:] = [run for run in trace.maps if run.site.call not in provoked]
    trace.carries[:] = [carry for carry in trace.carries if bodies.isdisjoint(carry.module.ancestors(carry.call))]


def _is_expected(module: Module, node: ast.AST) -> bool:
    """Whether an error at ``node`` is expected: there, or wherever the function around it is used."""
    if is_provoked(module, node):
        return True
    function = next((outer for outer in module.ancestors(node) if isinstance(outer, ast.FunctionDef)), None)
    if function is None:
        return False
    scope = module.scope_of(function)
    uses = [
        name
        for name in module.nodes(ast.Name)
        if name.id == function.name and isinstance(name.ctx, ast.Load) and _is_of(module, name, scope)
    ]
    return bool(uses) and all(is_provoked(module, use) for use in uses)


def _is_of(module: Module, name: ast.Name, scope: Scope) -> bool:
    known = module.scope_of(name).lookup(name.id)
    return known is not None and known[0] is scope


def _around(module: Module, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Environment:
    return static_environment(module, module.scope_of(node))


def _functions_of_interest(module: Module) -> tuple[list[ast.FunctionDef], bool]:
    """Functions that hold a map or a sharding argument, and those of the file that mention such functions, outer ones first;
    and whether anything in the file has to do with maps at all."""
    interesting: set[ast.AST] = set()
    places: list[ast.AST] = [call.node for call in module.calls_to(*MAPS)]
    places += [keyword for keyword in module.nodes(ast.keyword) if keyword.arg == "out_sharding"]
    for place in places:
        interesting.update(_functions_around(module, place))
    names = {node.name for node in interesting if isinstance(node, ast.FunctionDef)}
    for place in places:  # mapped = jax.shard_map(...)
        names |= _assigned_names(module.statement(place))
    names |= _imported_mappers(module)
    readers: list[ast.Name | ast.Attribute] = [*module.nodes(ast.Name), *module.nodes(ast.Attribute)]
    for _ in range(CALLERS):
        found = {
            function
            for node in readers
            if (node.id if isinstance(node, ast.Name) else node.attr) in names
            for function in _functions_around(module, node)
        }
        if found <= interesting:
            break
        interesting |= found
        names |= {node.name for node in found if isinstance(node, ast.FunctionDef)}
    return [node for node in module.nodes(ast.FunctionDef) if node in interesting], bool(places or names)


def _imported_mappers(module: Module) -> set[str]:
    """Imported names of the project that are handed functions, and whose module speaks of maps."""
    handed = {
        name
        for call in module.nodes(ast.Call)
        if any(_is_function(module, argument) for argument in call.args)
        for name in [_root(call.func)]
        if name is not None
    }
    return {name.bound for name in module.imports if name.bound in handed and _may_map(module, name)}


def _is_function(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.Lambda):
        return True
    found = module.reaching(node) if isinstance(node, ast.Name) else None
    return bool(found) and all(binding.kind == "function" for binding in found or ())


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _may_map(module: Module, name: ImportedName) -> bool:
    """Whether an import brings in code of the project that speaks of shard_map."""
    for dotted in (name.dotted, name.dotted.rpartition(".")[0]):
        path = module.project.find(dotted, module.path) if dotted.strip(".") else None
        if path is not None:
            source = module.project.source(path)
            return source is not None and ("shard_map" in source or "smap" in source)
    return False


def _assigned_names(statement: ast.stmt) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    named = {target.id for target in targets if isinstance(target, ast.Name)}
    return named | {target.attr for target in targets if isinstance(target, ast.Attribute)}


def _functions_around(module: Module, node: ast.AST) -> list[ast.AST]:
    return [ancestor for ancestor in module.ancestors(node) if isinstance(ancestor, ast.FunctionDef)]
