"""The abstract interpreter: runs functions on what is known of their arguments.

It never runs the user's code. What it cannot know it calls :data:`UNKNOWN`; what it calls known holds on every path.
Work is bounded: past the budget everything is unknown.

:class:`Interpreter` holds the state of a run: its frames, its budget, what was seen. The modules around it say what each
kind of code does: ``expressions`` and ``statements`` first, ``jax_calls`` for what is called outside the project."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from shardfix.semantics import rank_rules
from shardfix.semantics.interpreter import jax_calls, statements
from shardfix.semantics.interpreter.aliases import (
    DEEPEST,
    HOLDERS,
    held,
    holds_any,
    inner_values,
    is_changeable,
    of_its_kind,
)
from shardfix.semantics.interpreter.attributes import class_attribute
from shardfix.semantics.interpreter.bindings import binding_value, static_environment
from shardfix.semantics.interpreter.expressions import EXPRESSIONS
from shardfix.semantics.interpreter.instances import instantiate
from shardfix.semantics.interpreter.invocation import Arguments, Invocation
from shardfix.semantics.interpreter.maps import call_mapped
from shardfix.semantics.interpreter.mutation import changed_by_method, changes_outside
from shardfix.semantics.interpreter.names import SHARDING_KEYWORDS, leaves_arguments_alone
from shardfix.semantics.interpreter.parameters import bind_parameters
from shardfix.semantics.interpreter.repeats import NOWHERE, OUTSIDE, Repeats, is_plain, run_key
from shardfix.semantics.interpreter.trace import Environment, Evaluation, FunctionRun, Later, ReturnFact, Trace
from shardfix.semantics.interpreter.transforms import call_transformed
from shardfix.semantics.interpreter.trees import leaf_of
from shardfix.semantics.values import (
    UNKNOWN,
    Array,
    BoundMethod,
    Class,
    Constant,
    Function,
    Instance,
    JaxObject,
    Mapped,
    MapSite,
    Origin,
    Partial,
    Transformed,
    Tree,
    Value,
    join,
    join_all,
)

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

T = TypeVar("T")

BUDGET = 30_000
"""Expressions and statements evaluated for one entry before the rest is unknown."""
STATIC_BUDGET = 4_000
"""The same for one question about a static value."""
STATIC_TOTAL = 400_000
"""The same for all such questions about one module."""
CALL_DEPTH = 12
"""Functions of the project inside each other before the result of a further one is unknown."""
EXPRESSION_DEPTH = 90
"""The same for expressions."""
STATIC_DEPTH = 40
"""The same for static values."""


class OutOfBudget(Exception):
    """Raised inside a run whose budget is used up; the entry's result is then unknown."""


class Interpreter:
    """Runs code of one project. One interpreter may serve many entries; each has its own budget."""

    def __init__(self, trace: Trace | None = None) -> None:
        self.trace = trace if trace is not None else Trace()
        self._static: dict[tuple[int, str], Value] = {}
        """Static values by environment and name; the environments are kept alive by their modules."""
        self._in_progress: set[tuple[int, str]] = set()
        self._cut_short = False
        """Whether a cycle, or the depth, has cut the static value short that is being worked out."""
        self._stack: list[ast.AST] = []
        self.frames: list[Environment] = []
        self.exits: list[list[dict[str, Value]]] = []
        """For each loop that is being run, the variables at its breaks and continues."""
        self._depth = 0
        self._left = BUDGET
        self._static_left = STATIC_TOTAL
        self.evaluated = 0
        """Expressions and statements evaluated in all entries so far."""
        self.site: MapSite | None = None
        """The map whose function is being run."""
        self.operands: dict[ast.Call, Value] = {}
        self._changed: dict[int, Value] = {}
        """The containers that were changed in place, by their ids: what no frame holds may hold them yet."""
        self.reach = NOWHERE
        """The number of the outermost frame that something has changed in since it was last asked; a result that depends on
        more than its arguments, and what is noted in the trace, count as :data:`OUTSIDE`."""
        self._repeats = Repeats()
        self.later: Later | None = None
        """Where what is being run is a mapped function whose call comes later: what may have changed by then."""

    @property
    def checked(self) -> bool | None:
        """Whether the map around what is being run checks replication."""
        return None if self.site is None else self.site.checked

    # Entries

    def entry(self, function: Function, arguments: tuple[Value, ...] | None = None) -> Value:
        """Run a function with a fresh budget; with unknown arguments by default."""
        given = Arguments(exact=False) if arguments is None else Arguments(arguments)
        return self._alone(BUDGET, lambda: self.run(function, given).result) or UNKNOWN

    def value_of(self, module: Module, node: ast.expr) -> Value:
        """What is known of an expression at no particular moment. All such questions share one budget: past it, nothing is known."""
        environment = static_environment(module, module.scope_of(node))
        evaluated = self.evaluated
        known = self._alone(min(STATIC_BUDGET, self._static_left), lambda: self.evaluate(node, environment))
        self._static_left -= self.evaluated - evaluated
        self._in_progress.clear()
        self._cut_short = False
        return known or UNKNOWN

    def run_module(self, module: Module) -> Environment:
        """Run the top level of a module."""
        environment = Environment(module, module.module_scope, None)

        def work() -> bool:
            self.frames.append(environment)
            return self.run_block(module.tree.body, environment, [])

        if self._alone(BUDGET, work) is None:
            environment.variables.clear()
        return environment

    def _alone(self, budget: int, work: Callable[[], T]) -> T | None:
        """What ``work`` gives as a run of its own; None where that uses up the budget, or Python's stack."""
        self._left = budget
        try:
            return work()
        except (OutOfBudget, RecursionError):
            return None
        finally:
            self.evaluated += budget - max(self._left, 0)
            self._stack.clear()
            self.frames.clear()
            self.exits.clear()
            self._depth = 0

    def spend(self, count: int = 1) -> None:
        """Count one more expression or statement, or several.

        Raises:
            OutOfBudget: that was more than there was left.
        """
        self._left -= count
        if self._left < 0:
            raise OutOfBudget

    def _give_up_if_too_dear(self, key: Hashable) -> None:
        """Do not begin what is known to cost more than there is left."""
        if self._repeats.more_than(key) >= self._left > 0:
            self.spend(self._left + 1)

    @property
    def is_deep(self) -> bool:
        """Whether no further function is followed from here."""
        return len(self._stack) >= CALL_DEPTH

    # Names

    def global_value(self, module: Module, name: str) -> Value:
        """What is known of a module-level name at any time: the join over all its bindings."""
        return self.static_value(static_environment(module, module.module_scope), name)

    def static_value(self, environment: Environment, name: str) -> Value:
        """The join over all bindings of a name in a static environment's scope."""
        key = (id(environment), name)
        known = self._static.get(key)
        if known is not None:
            if self._changed and known.__class__ in HOLDERS and holds_any(known, frozenset(self._changed)):
                return of_its_kind(known)
            return known
        if key in self._in_progress or len(self._in_progress) > STATIC_DEPTH:
            self._cut_short = True
            self.reach = OUTSIDE
            return UNKNOWN
        if name in environment.module.mutated_names:
            return UNKNOWN
        self._give_up_if_too_dear(key)
        cut_before, self._cut_short = self._cut_short, False
        self._in_progress.add(key)
        left = self._left
        try:
            bindings = environment.scope.bindings.get(name, [])
            value = join_all(binding_value(self, binding, environment) for binding in bindings)
        except OutOfBudget:
            self._repeats.remember_too_dear(key, left, environment)
            raise
        finally:
            self._in_progress.discard(key)
        if environment.kept and not (self._cut_short and self._in_progress):
            self._static[key] = value
        self._cut_short = self._cut_short or cut_before
        return value

    # Code

    def evaluate(self, node: ast.expr, environment: Environment) -> Value:
        """What is known of the value of an expression."""
        self.spend()
        if self._depth > EXPRESSION_DEPTH:
            return UNKNOWN
        self._depth += 1
        try:
            handler = EXPRESSIONS.get(type(node))
            return handler(self, node, environment) if handler else UNKNOWN
        finally:
            self._depth -= 1

    def run_block(self, block: Iterable[ast.stmt], environment: Environment, returns: list[ReturnFact]) -> bool:
        """Run statements one after the other; what they return is added to ``returns``."""
        return statements.run_block(self, block, environment, returns)

    @contextmanager
    def perhaps(self) -> Iterator[None]:
        """Inside, expressions are evaluated that the program may not come to, or come to several times."""
        frame = self.frames[-1] if self.frames else None
        if frame is not None:
            frame.open_expressions += 1
        try:
            yield
        finally:
            if frame is not None:
                frame.open_expressions -= 1

    @contextmanager
    def maybe(self, environment: Environment) -> Iterator[None]:
        """Inside, statements are run that the program may not come to, or come to several times."""
        environment.open_branches += 1
        try:
            yield
        finally:
            environment.open_branches -= 1

    # Calls

    def apply(self, function: Value, environment: Environment, node: ast.expr, *arguments: Value) -> Value:
        """The result of calling ``function`` with just these arguments at ``node``."""
        return self.call(function, Invocation(self, environment, node, Arguments(arguments)))

    def call(self, function: Value, call: Invocation) -> Value:
        """The result of a call of ``function``."""
        match function:
            case Function():
                return self._result(function, call.given)
            case Partial():
                return self.call(function.function, call.passing(call.given.after(function)))
            case Class():
                return instantiate(self, function, call.given)
            case Instance():
                called = class_attribute(self, function.cls, "__call__", function)
                return self.call(called, call) if called != UNKNOWN else UNKNOWN
            case Mapped():
                return call_mapped(function, call)
            case Transformed():
                return call_transformed(function, call)
            case JaxObject():
                self._note_operand(call, call.arguments[0] if call.arguments else None)
                self._note_evaluation(call, function.dotted)
                result = jax_calls.call(function.dotted, call)
                if not leaves_arguments_alone(function.dotted):
                    self.let_go(call.given, call.environment)
                return self.note(result, call.node, call.environment, *call.arguments)
            case BoundMethod():
                self._note_operand(call, function.owner)
                self._note_evaluation(call, f"jax.Array.{function.name}")
                return self._call_method(function.owner, function.name, call)
        self.let_go(call.given, call.environment)
        return UNKNOWN

    def _call_method(self, owner: Value, name: str, call: Invocation) -> Value:
        """The result of a method of something that is not of the project."""
        if name.startswith(rank_rules.AT):
            updated = rank_rules.method(owner, name, call.arguments, call.keywords, exact_arguments=call.exact)
            return self.note(updated or UNKNOWN, call.node, call.environment, *call.arguments)
        change = changed_by_method(owner, name, call.arguments, call.keywords, call.exact)
        if change is not None:
            self.change(owner, change[1], call.environment)
            return change[0]
        known = jax_calls.value_method(owner, name, call)
        if known is None:
            plain = [leaf_of(argument) for argument in call.arguments]
            options = {key: leaf_of(value) for key, value in call.keywords.items()}
            known = rank_rules.method(leaf_of(owner), name, plain, options, exact_arguments=call.exact)
        return self.note(known or UNKNOWN, call.node, call.environment, owner, *call.arguments)

    def _result(self, function: Function, given: Arguments) -> Value:
        """The result of a run, which is that of an earlier one where it must be the same."""
        key = run_key(function, given, id(self.operands))
        return self.once(key, (function, given, self.operands), lambda: self.run(function, given).result)

    def once(self, key: Hashable | None, alive: tuple[object, ...], work: Callable[[], Value]) -> Value:
        """What ``work`` gives, which is what it gave before under the same key (None: it depends on more than can be told)."""
        if key is None:
            return work()
        known = self._repeats.result(key)
        if known is not None:
            result, cost = known
            self.spend(cost)  # so that what is known does not hang on what was asked before
            return result
        self._give_up_if_too_dear(key)
        reach, self.reach = self.reach, NOWHERE
        left = self._left
        try:
            result = work()
        except OutOfBudget:
            self._repeats.remember_too_dear(key, left, *alive)
            raise
        if self.reach >= len(self.frames) and is_plain(result):
            self._repeats.remember(key, result, left - self._left, *alive)
        self.reach = min(reach, self.reach)
        return result

    def run(self, function: Function, given: Arguments, *, mapped: bool = False) -> FunctionRun:
        """Run a function of the project; ``mapped`` as the function of a map."""
        node = function.node
        if not mapped:
            self.trace.called.add(node)
        if node in self._stack or self.is_deep:
            self.reach = OUTSIDE
            self._let_go_unrun(function, given)
            return FunctionRun(function, (), UNKNOWN)
        if not isinstance(node, ast.Lambda) and node in function.module.generators:
            self._let_go_unrun(function, given)
            return FunctionRun(function, (), UNKNOWN)
        environment = Environment(function.module, function.module.scopes[node], function.environment)
        if function.bound_self is not None:
            given = replace(given, positional=(function.bound_self, *given.positional))
        outer = function.environment or static_environment(function.module, function.module.module_scope)
        bind_parameters(self, function, given, outer, environment)
        self.trace.entered.add(node)
        self._stack.append(node)
        self.frames.append(environment)
        depth, self._depth = self._depth, 0
        try:
            if isinstance(node, ast.Lambda):
                value = self.evaluate(node.body, environment)
                return FunctionRun(function, (ReturnFact(node.body, value),), value)
            returns: list[ReturnFact] = []
            falls_through = self.run_block(node.body, environment, returns)
            values = [fact.value for fact in returns]
            if falls_through:
                values.append(Constant(None))
            result = join_all(values) if values else UNKNOWN
            return FunctionRun(function, tuple(returns), result)
        finally:
            self._stack.pop()
            self.frames.pop()
            self._depth = depth

    # Changes in place

    def change(self, old: Value, new: Value, environment: Environment) -> None:
        """A container was changed in place: let all that hold it hold what has become of it.

        Those in functions that wait for this one to return hold it for certain only if it runs here on every path; where
        it may not, nothing is known of the container from here on, for it is not followed any further there.
        """
        if held(new, old):  # a container inside itself is followed no further: its parts have names that are not seen
            parts, new = inner_values(new), UNKNOWN
            for part in parts:
                self.let_go_of(part, environment)
        self._changed[id(old)] = old
        certain = True
        memo: dict[int, Value] = {}
        seen: set[int] = set()
        for number in range(len(self.frames) - 1, -1, -1):
            frame = self.frames[number]
            certain = certain and not frame.open_expressions
            found = frame.replace_value(old, new, memo) if certain else frame.blur_value(old)
            if found:
                self.reach = min(self.reach, number)
            seen.add(id(frame))
            certain = certain and frame.is_certain
        for start in (environment, *self.frames):
            around: Environment | None = start
            while around is not None:
                if id(around) not in seen:
                    if around.blur_value(old):
                        self.reach = OUTSIDE
                    seen.add(id(around))
                around = around.parent

    def let_go(self, given: Arguments, environment: Environment) -> None:
        """Code that is not followed is handed these: nothing is known any more of what it may change in them."""
        for value in (*given.positional, *given.keywords.values(), given.missing):
            self.let_go_of(value, environment)

    def _let_go_unrun(self, function: Function, given: Arguments) -> None:
        """A function of the project is not run: it may change what it is handed, and what it closes over."""
        around = function.environment or static_environment(function.module, function.module.module_scope)
        self.let_go(given, around)
        if function.bound_self is not None:
            self.let_go_of(function.bound_self, around)
        outer = function.environment if changes_outside(function.node) else None
        while outer is not None:
            for value in list(outer.variables.values()):
                if not isinstance(value, Function):
                    self.let_go_of(value, around)
            outer = outer.parent

    def let_go_of(self, value: Value, environment: Environment, depth: int = 0) -> None:
        """The same of one value, and of all that it holds."""
        if value.__class__ not in HOLDERS or depth > DEEPEST:
            return
        parts = inner_values(value)
        if is_changeable(value):
            self.change(value, UNKNOWN, environment)
        if isinstance(value, Function) and value.node not in self._stack and changes_outside(value.node):
            with self.perhaps():
                self.run(value, Arguments(exact=False))
        for part in parts:
            self.let_go_of(part, environment, depth + 1)

    # Explanations

    def _note_evaluation(self, call: Invocation, dotted: str) -> None:
        """Note a call of a function that takes shardings."""
        if isinstance(call.node, ast.Call) and not SHARDING_KEYWORDS.isdisjoint(call.keywords):
            module = call.environment.module
            seen = Evaluation(module, call.node, dotted, call.arguments, tuple(call.keywords.items()))
            self.trace.calls.setdefault(call.node, []).append(seen)
            self.reach = OUTSIDE

    def _note_operand(self, call: Invocation, operand: Value | None) -> None:
        """Note the array that a call works on."""
        if isinstance(call.node, ast.Call) and isinstance(operand, Array | Tree):
            known = self.operands.get(call.node)
            self.operands[call.node] = operand if known is None else join(known, operand)

    def note(self, value: Value, node: ast.expr, environment: Environment, *causes: Value) -> Value:
        """Say where an array comes from, so that a message can."""
        if node in self.trace.calls:
            *earlier, last = self.trace.calls[node]
            self.trace.calls[node] = [*earlier, replace(last, result=value)]
        if isinstance(value, Array) and value.origin is None and isinstance(node, ast.expr):
            cause = next(
                (known.origin for known in causes if isinstance(known, Array) and known.origin is not None), None
            )
            return replace(
                value, origin=Origin(environment.module.path, node.lineno, environment.module.text(node), cause)
            )
        return value


def value_of(module: Module, node: ast.expr) -> Value:
    """What is known of an expression where it stands, whatever the arguments of the functions around it."""
    known = module.static_values.get(node)
    if known is None:
        known = module.static_values[node] = module.static_interpreter.value_of(module, node)
    return known
