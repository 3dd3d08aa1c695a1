"""What is known of a module's mapped functions: the interpreter run over all the code that has to do with them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from shardfix.semantics.gates import is_provoked
from shardfix.semantics.interpreter.bindings import static_environment
from shardfix.semantics.interpreter.core import Interpreter
from shardfix.semantics.interpreter.names import MAPS
from shardfix.semantics.interpreter.trace import Environment, Trace
from shardfix.semantics.values import Function, Sharding, Spec

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
    """Put the maps aside whose error a test expects, where they are made or at each of their calls in view."""
    expected = _Expected(module)
    if not expected.names:
        return
    provoked, wanted = set(), set()
    for run in trace.maps:
        if run.site.call in expected or (run.call is not None and run.call in expected):
            provoked.add(run.site.call)
        elif run.call is not None:
            wanted.add(run.site.call)
    provoked -= wanted
    if not provoked:
        return
    mapped = [run.function for run in trace.maps if run.site.call in provoked]
    bodies = {function.node for function in mapped if isinstance(function, Function)}
    trace.provoked[:] = [run for run in trace.maps if run.site.call in provoked]
    trace.maps[:] = [run for run in trace.maps if run.site.call not in provoked]
    trace.carries[:] = [carry for carry in trace.carries if bodies.isdisjoint(carry.module.ancestors(carry.call))]


class _Expected:
    """The nodes of a module at which an error is expected: there, or wherever the function around them is used."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[ast.AST, bool] = {}
        read = (
            [name for name in module.nodes(ast.Name) if isinstance(name.ctx, ast.Load)]
            if "aises" in module.source
            else []
        )
        self._provoked = {name for name in read if is_provoked(module, name)}
        self.names = {name.id for name in self._provoked}
        """Names that are read where an error is expected."""
        self._read = [name for name in read if name.id in self.names]

    def __contains__(self, node: ast.AST) -> bool:
        if node not in self._known:
            function = next(
                (outer for outer in self._module.ancestors(node) if isinstance(outer, ast.FunctionDef)), None
            )
            self._known[node] = is_provoked(self._module, node) or (
                function is not None and self._is_only_provoked(function)
            )
        return self._known[node]

    def _is_only_provoked(self, function: ast.FunctionDef) -> bool:
        if function.name not in self.names:
            return False
        scope = self._module.scope_of(function)
        uses = [name for name in self._read if name.id == function.name and self._is_of(name, scope)]
        return bool(uses) and self._provoked.issuperset(uses)

    def _is_of(self, name: ast.Name, scope: Scope) -> bool:
        known = self._module.scope_of(name).lookup(name.id)
        return known is not None and known[0] is scope


def _around(module: Module, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Environment:
    return static_environment(module, module.scope_of(node))


def _functions_of_interest(module: Module) -> tuple[list[ast.FunctionDef], bool]:
    """Functions that hold a map or a sharding argument, and those of the file that mention such functions, outer ones first;
    and whether anything in the file has to do with maps at all."""
    interesting: set[ast.AST] = set()
    places: list[ast.AST] = [call.node for call in module.calls_to(*MAPS)]
    places += [
        keyword
        for keyword in module.nodes(ast.keyword)
        if keyword.arg == "out_sharding" and _is_sharding(module, keyword.value)
    ]
    for place in places:
        interesting.update(_functions_around(module, place))
    names = _called_names(interesting)
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
        names |= _called_names(found)
    return [node for node in module.nodes(ast.FunctionDef) if node in interesting], bool(places or names)


def _is_sharding(module: Module, value: ast.expr) -> bool:
    """Whether ``value`` is, or may be, a spec or a sharding that is known where it stands; a parameter is for the callers to say."""
    if isinstance(value, ast.IfExp):
        return _is_sharding(module, value.body) or _is_sharding(module, value.orelse)
    return isinstance(module.value_of(value), Spec | Sharding)


def _called_names(functions: Iterable[ast.AST]) -> set[str]:
    """The names by which functions are called; special methods have none."""
    names = {node.name for node in functions if isinstance(node, ast.FunctionDef)}
    return {name for name in names if not (name.startswith("__") and name.endswith("__"))}


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
