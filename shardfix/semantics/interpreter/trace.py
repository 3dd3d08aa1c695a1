"""What a run is made of and what it leaves behind: environments, runs, and the trace of maps, carries and calls."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfix.semantics.interpreter.aliases import HOLDERS, held, substituted
from shardfix.semantics.values import UNKNOWN, Function, MapSite, Value

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter
    from shardfix.semantics.module import Module
    from shardfix.semantics.scopes import Scope


@dataclass(eq=False)
class Environment:
    """The values of one scope's names at one moment of a run. Names that are bound but not held here are unknown.

    A *static* environment holds no moment: its names are evaluated on demand, joined over all their bindings.
    """

    module: Module
    scope: Scope
    parent: Environment | None
    variables: dict[str, Value] = field(default_factory=dict)
    static: bool = False
    open_branches: int = 0
    """The blocks around the statement that is being run that need not run: branches, loops, tries."""
    open_expressions: int = 0
    """The same for parts of expressions: arms of conditionals, elements of comprehensions."""
    left_early: bool = False
    """Whether the function may have returned before the statement that is being run."""
    kept: bool = False
    """Whether its module keeps it for good, so that what is found of its names may be remembered."""

    def replace_value(self, old: Value, new: Value, memo: dict[int, Value]) -> bool:
        """Let ``new`` stand for ``old``, the very object, in all variables; whether any held it."""
        found = False
        for name, value in self.variables.items():
            if value is old or (value.__class__ in HOLDERS and held(value, old)):
                self.variables[name] = substituted(value, old, new, memo)
                found = True
        return found

    def blur_value(self, old: Value) -> bool:
        """``old``, the very object, may be changed from here on, unseen by these variables; whether any held it."""
        found = False
        for name, value in self.variables.items():
            if value is old or (value.__class__ in HOLDERS and held(value, old)):
                self.variables[name] = UNKNOWN
                found = True
        return found

    @property
    def is_certain(self) -> bool:
        """Whether what is being run runs whenever the function does."""
        return not (self.open_branches or self.open_expressions or self.left_early)

    def lookup(self, name: str, interpreter: Interpreter) -> Value | None:
        """The value of a name; None where it is not bound in any scope."""
        environment: Environment | None = self
        first = True
        while environment is not None:
            if first or not environment.scope.is_class:
                if name in environment.scope.globals:
                    return interpreter.global_value(environment.module, name)
                if name in environment.variables:
                    if interpreter.later is None or interpreter.later.is_settled(environment, name):
                        if name not in environment.module.rebound_names:
                            return environment.variables[name]
                    return interpreter.global_value(environment.module, name) if environment.parent is None else UNKNOWN
                if name in environment.scope.bindings:
                    if environment.static:
                        return interpreter.static_value(environment, name)
                    if environment.parent is None:
                        return interpreter.global_value(environment.module, name)
                    return UNKNOWN
            first = False
            environment = environment.parent
        return None


@dataclass(frozen=True)
class Later:
    """The moment at which a mapped function will be called: after the map, when names around it may be bound anew."""

    module: Module
    call: ast.Call
    """The call of shard_map or smap."""
    around: frozenset[int]
    """The ids of the environments that were there when the function was mapped."""

    @classmethod
    def than(cls, site: MapSite, function: Value, environment: Environment) -> Later:
        """Later than the map at ``site``, which is evaluated in ``environment``."""
        around: set[int] = set()
        for start in (environment, getattr(function, "environment", None)):
            while start is not None:
                around.add(id(start))
                start = start.parent
        return cls(site.module, site.call, frozenset(around))

    def is_settled(self, environment: Environment, name: str) -> bool:
        """Whether the name has its last value at the map already."""
        if id(environment) not in self.around:
            return True
        bindings = environment.scope.bindings.get(name, ())
        if name in environment.module.mutated_names:
            return False
        if len(bindings) <= 1:
            return True
        if environment.module is not self.module:
            return False
        loops = {
            around
            for around in self.module.ancestors(self.call)
            if isinstance(around, ast.For | ast.While | ast.AsyncFor)
        }
        return all(
            binding.position[0] <= self.call.lineno and loops.isdisjoint(self.module.ancestors(binding.statement))
            for binding in bindings
        )


@dataclass(frozen=True)
class ReturnFact:
    """What one ``return`` gives (for a lambda: its body)."""

    node: ast.expr | None
    value: Value


@dataclass(frozen=True)
class FunctionRun:
    """One run of a function of the project."""

    function: Function
    returns: tuple[ReturnFact, ...]
    result: Value


@dataclass(frozen=True)
class MapRun:
    """A mapped function run on its blocks: at the map (``arguments`` None), or at a call of the mapped function."""

    site: MapSite
    function: Value
    arguments: tuple[Value, ...] | None
    call: ast.Call | None
    result: Value
    run: FunctionRun | None
    """The run of the function whose body gives the result; None where it is not one of the project."""
    operands: Mapping[ast.Call, Value] = field(default_factory=dict)
    """The array that each call in the run works on (its first argument, or the owner of the method)."""


@dataclass(frozen=True)
class Carry:
    """A loop carry (or the results of a cond's branches) whose varying axes certainly do not agree, where JAX checks them."""

    module: Module
    call: ast.Call
    api: str
    """``scan``, ``while_loop``, ``fori_loop`` or ``cond``."""
    path: tuple[str | int, ...]
    axes: frozenset[str]
    """The axes that one side varies over and the other does not."""
    site: MapSite | None = None
    """The map inside of which it is."""


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of a call of a JAX function that takes shardings."""

    module: Module = field(repr=False)
    node: ast.expr = field(repr=False)
    dotted: str
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    result: Value = UNKNOWN

    def argument(self, name: str, index: int | None = None) -> Value | None:
        """The value of an argument; None where it is not given."""
        known = dict(self.keywords).get(name)
        if known is None and index is not None and index < len(self.arguments):
            return self.arguments[index]
        return known


@dataclass
class Trace:
    """What was seen while running: the maps, and the arguments of the calls of JAX's functions."""

    maps: list[MapRun] = field(default_factory=list)
    provoked: list[MapRun] = field(default_factory=list)
    """The maps whose error the code around them expects (``pytest.raises``, ``assertRaises``); not among ``maps``."""
    carries: list[Carry] = field(default_factory=list)
    calls: dict[ast.Call, list[Evaluation]] = field(default_factory=dict)
    entered: set[ast.AST] = field(default_factory=set)
    """Functions that were run, by whatever way."""
    called: set[ast.AST] = field(default_factory=set)
    """Functions that were run other than as the function of a map."""
