"""The abstract interpreter: runs functions on what is known of their arguments.

It never runs the user's code. What it cannot know it calls :data:`UNKNOWN`; what it calls known holds on every path.
Work is bounded: past the budget everything is unknown."""

from __future__ import annotations

import ast
import operator
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shardfix.semantics.interpreter import jax_calls
from shardfix.semantics.interpreter.aliases import (
    HOLDERS,
    held,
    holds_any,
    is_changeable,
    of_its_kind,
    shared_containers,
)
from shardfix.semantics.interpreter.maps import call_mapped
from shardfix.semantics.interpreter.mutation import (
    changed_by_method,
    with_attribute,
    with_item,
)
from shardfix.semantics.interpreter.names import SHARDING_KEYWORDS
from shardfix.semantics.interpreter.records import (
    has_decorator,
    is_dataclass,
    is_plain_class,
    own_method,
    record_fields,
    self_assignments,
)
from shardfix.semantics.interpreter.repeats import NOWHERE, OUTSIDE, Repeats, is_plain, run_key, value_key
from shardfix.semantics.interpreter.shardings import (
    add_specs,
    entered_context,
    field_default,
    from_annotation,
    known_attribute,
)
from shardfix.semantics.interpreter.trace import Environment, Evaluation, FunctionRun, Later, ReturnFact, Trace
from shardfix.semantics.interpreter.transforms import call_transformed
from shardfix.semantics.interpreter.trees import iterated, leaf_of
from shardfix.semantics.module import MUTATORS
from shardfix.semantics.rank_rules import AT, attribute, binary, compare, index, method, unary
from shardfix.semantics.scopes import COMPREHENSIONS
from shardfix.semantics.values import (
    UNKNOWN,
    Array,
    BoundMethod,
    Class,
    Constant,
    Dict,
    Function,
    Instance,
    JaxObject,
    Mapped,
    ModuleValue,
    Number,
    Origin,
    Partial,
    Sequence,
    Spec,
    Super,
    Text,
    Transformed,
    Tree,
    Value,
    as_array,
    is_number,
    join,
    join_all,
)

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.semantics.scopes import Binding, Scope


BUDGET = 30_000
"""Expressions and statements evaluated for one entry before the rest is unknown."""


STATIC_BUDGET = 4_000
"""The same for one question about a static value."""
STATIC_TOTAL = 400_000
"""The same for all such questions about one module."""
CALL_DEPTH = 12


EXPRESSION_DEPTH = 90


LOOP_ROUNDS = 3
LARGEST_DICT = 64
"""Entries of a dict display that are looked at one by one."""
MOST_ROUNDS = 16
"""Items of a known sequence that a loop or comprehension is run for one by one."""


class OutOfBudget(Exception):
    """Raised inside a run whose budget is used up; the entry's result is then unknown."""


@dataclass(frozen=True)
class _Flow:
    """How a block of statements ended."""

    falls_through: bool


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
        self._frames: list[Environment] = []
        self._exits: list[list[dict[str, Value]]] = []
        """For each loop that is being run, the variables at its breaks and continues."""
        self._depth = 0
        self._left = BUDGET
        self._static_left = STATIC_TOTAL
        self.evaluated = 0
        """Expressions and statements evaluated in all entries so far."""
        self.checked: bool | None = None
        """Whether the shard_map around what is being run checks replication."""
        self.operands: dict[ast.Call, Value] = {}
        self._changed: dict[int, Value] = {}
        """The containers that were changed in place, by their ids: what no frame holds may hold them yet."""
        self.reach = NOWHERE
        """The number of the outermost frame that something has changed in since it was last asked; a result that depends on
        more than its arguments, and what is noted in the trace, count as :data:`OUTSIDE`."""
        self._repeats = Repeats()
        self.later: Later | None = None
        """Where what is being run is a mapped function whose call comes later: what may have changed by then."""

    # Entries

    def entry(self, function: Function, arguments: tuple[Value, ...] | None = None) -> Value:
        """Run a function with a fresh budget; with unknown arguments by default."""
        self._left = BUDGET
        try:
            if arguments is None:
                return self.run(function, (), {}, exact=False).result
            return self.run(function, arguments, {}, exact=True).result
        except (OutOfBudget, RecursionError):
            return UNKNOWN
        finally:
            self.evaluated += BUDGET - max(self._left, 0)
            self._stack.clear()
            self._frames.clear()
            self._exits.clear()
            self._depth = 0

    def value_of(self, module: Module, node: ast.expr) -> Value:
        """What is known of an expression at no particular moment. All such questions share one budget: past it, nothing is known."""
        self._left = min(STATIC_BUDGET, self._static_left)
        before = self._left
        try:
            return self.evaluate(node, static_environment(module, module.scope_of(node)))
        except (OutOfBudget, RecursionError):
            return UNKNOWN
        finally:
            self._static_left -= before - max(self._left, 0)
            self._stack.clear()
            self._frames.clear()
            self._exits.clear()
            self._in_progress.clear()
            self._cut_short = False
            self._depth = 0

    def run_module(self, module: Module) -> Environment:
        """Run the top level of a module."""
        self._left = BUDGET
        environment = Environment(module, module.module_scope, None)
        self._frames.append(environment)
        try:
            self._block(module.tree.body, environment, [])
        except (OutOfBudget, RecursionError):
            environment.variables.clear()
        finally:
            self.evaluated += BUDGET - max(self._left, 0)
            self._stack.clear()
            self._frames.clear()
            self._exits.clear()
            self._depth = 0
        return environment

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
        if key in self._in_progress or len(self._in_progress) > 40:
            self._cut_short = True
            self.reach = OUTSIDE
            return UNKNOWN
        if name in environment.module.mutated_names:
            return UNKNOWN
        cut_before, self._cut_short = self._cut_short, False
        self._in_progress.add(key)
        try:
            bindings = environment.scope.bindings.get(name, [])
            value = join_all(self.binding_value(binding, environment) for binding in bindings)
        finally:
            self._in_progress.discard(key)
        if environment.kept and not (self._cut_short and self._in_progress):
            self._static[key] = value
        self._cut_short = self._cut_short or cut_before
        return value

    def binding_value(self, binding: Binding, environment: Environment) -> Value:
        """What one binding gives its name, evaluated where it stands."""
        module = environment.module
        match binding.kind:
            case "import":
                return self._imported(module, binding.dotted or "")
            case "function":
                return self._defined(binding.node, environment)  # type: ignore[arg-type]
            case "class":
                cls = Class(module, binding.node)  # type: ignore[arg-type]
                return cls if is_plain_class(cls) else UNKNOWN
            case "assignment" if binding.value is not None:
                value = self.evaluate(binding.value, environment)
                for position in binding.path:
                    value = _element(value, position)
                return value
            case "with" if binding.value is not None and not binding.path:
                return entered_context(self.evaluate(binding.value, environment))
        return UNKNOWN

    def _imported(self, module: Module, dotted: str) -> Value:
        base, _, name = dotted.rpartition(".")
        if dotted.startswith(".") and not base.strip("."):
            base = dotted[: len(dotted) - len(name)]
        other = module.project.module(base, module.path) if base else None
        if other is not None and other is not module:
            exported = self._exported(other, name)
            if exported != UNKNOWN:
                return exported
        names = module._resolve_dotted(dotted)
        if len(names) != 1:
            return UNKNOWN
        resolved = next(iter(names))
        path = module.project.find(dotted, module.path) if resolved == dotted else None
        if path is not None:
            return ModuleValue(path)
        return UNKNOWN if resolved.startswith(".") else JaxObject(resolved)

    def _member(self, module: Module | None, name: str) -> Value:
        """An attribute of a module of the project: a name of its, or a module inside the package."""
        if module is None:
            return UNKNOWN
        exported = self._exported(module, name)
        if exported == UNKNOWN and os.path.basename(module.path) == "__init__.py":
            path = module.project.find(f".{name}", module.path)
            return UNKNOWN if path is None else ModuleValue(path)
        return exported

    def _exported(self, module: Module, name: str) -> Value:
        if name in module.module_scope.bindings:
            return self.global_value(module, name)
        if len(module.module_scope.star_imports) == 1 and len(self._stack) < CALL_DEPTH:
            other = module.project.module(module.module_scope.star_imports[0], module.path)
            if other is not None and other is not module and name in other.module_scope.bindings:
                return self.global_value(other, name)
        names = module.exported(name)
        return JaxObject(next(iter(names))) if len(names) == 1 else UNKNOWN

    def _defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef, environment: Environment) -> Value:
        if isinstance(node, ast.AsyncFunctionDef):
            return UNKNOWN
        value: Value = self._function(node, environment)
        for decorator in reversed(node.decorator_list):
            applied = self.evaluate(decorator, environment)
            if isinstance(applied, JaxObject) and applied.dotted in _TRANSPARENT_DECORATORS:
                continue
            value = self.call(applied, (value,), {}, environment, decorator, exact=True)
        return value

    # Expressions

    def evaluate(self, node: ast.expr, environment: Environment) -> Value:
        """What is known of the value of an expression."""
        self._left -= 1
        if self._left < 0:
            raise OutOfBudget
        if self._depth > EXPRESSION_DEPTH:
            return UNKNOWN
        self._depth += 1
        try:
            handler = _EXPRESSIONS.get(type(node))
            return handler(self, node, environment) if handler else UNKNOWN
        finally:
            self._depth -= 1

    def _constant(self, node: ast.Constant, environment: Environment) -> Value:
        return Text(node.value) if isinstance(node.value, str) else Constant(node.value)

    def _name(self, node: ast.Name, environment: Environment) -> Value:
        value = environment.lookup(node.id, self)
        if value is not None:
            return value
        names = environment.module._resolve_unbound(node)
        return JaxObject(next(iter(names))) if len(names) == 1 else UNKNOWN

    def _attribute(self, node: ast.Attribute, environment: Environment) -> Value:
        return self.attribute(self.evaluate(node.value, environment), node.attr, environment)

    def attribute(self, owner: Value, name: str, environment: Environment) -> Value:
        """The attribute ``name`` of a known value."""
        match owner:
            case JaxObject(dotted=dotted):
                names = environment.module._resolve_member(dotted, name)
                if names == {f"{dotted}.{name}"}:
                    return JaxObject(f"{dotted}.{name}")
                return self._member(environment.module.project.module(dotted, environment.module.path), name)
            case ModuleValue(path=path):
                return self._member(environment.module.project.module_at(path), name)
            case Instance():
                if own_method(owner.cls, "__getattribute__") is not None:
                    return UNKNOWN
                if name == "__dict__":
                    self._change(owner, of_its_kind(owner), environment)
                    return UNKNOWN
                known = owner.get(name)
                if known is None and name in ("_replace", "_asdict") and record_fields(owner.cls) is not None:
                    return BoundMethod(owner, name)
                return known if known is not None else self._class_attribute(owner.cls, name, owner)
            case Class():
                return self._class_attribute(owner, name, None)
            case Super():
                return self._base_attribute(owner.cls, name, owner.owner)
        if isinstance(owner, BoundMethod) and owner.name == AT:
            return BoundMethod(owner.owner, f"{AT}.{name}")
        special = known_attribute(owner, name)
        if special is not None:
            return special
        if isinstance(owner, Array | Tree):
            return attribute(as_array(owner), name) or BoundMethod(owner, name)
        return UNKNOWN if owner == UNKNOWN else BoundMethod(owner, name)

    def _class_attribute(self, cls: Class, name: str, owner: Instance | None, depth: int = 0) -> Value:
        scope = cls.module.scopes.get(cls.node)
        if scope is None or depth > 5:
            return UNKNOWN
        if name in scope.bindings:
            bindings = scope.bindings[name]
            if len(bindings) == 1 and isinstance(bindings[0].node, ast.FunctionDef):
                return self._method(cls, bindings[0].node, owner)
            if owner is not None and (owner.changed or is_dataclass(cls) or self_assignments(cls, name)):
                return UNKNOWN
            if owner is not None and any(isinstance(binding.statement, ast.AnnAssign) for binding in bindings):
                if not all(isinstance(self.evaluate(base, class_surroundings(cls)), Class) for base in cls.node.bases):
                    return UNKNOWN  # a field of a record, as the base class may make one
            around = Environment(cls.module, scope, None, static=True)
            value = self._once(
                (scope, name, id(self.operands)), (self.operands,), lambda: self.static_value(around, name)
            )
            return of_its_kind(value) if is_changeable(value) else value
        if owner is not None:
            assigned = self_assignments(cls, name)
            if assigned and owner.changed:
                return UNKNOWN
            if assigned:
                return self._assigned_attribute(cls, assigned, owner)
        return self._base_attribute(cls, name, owner, depth)

    def _base_attribute(self, cls: Class, name: str, owner: Instance | None, depth: int = 0) -> Value:
        """The attribute as the first of the base classes that is known to have it defines it."""
        for base in cls.node.bases:
            value = self.evaluate(base, class_surroundings(cls))
            if not isinstance(value, Class):
                return UNKNOWN
            found = self._class_attribute(value, name, owner, depth + 1)
            if found != UNKNOWN:
                return found
        return UNKNOWN

    def _method(self, cls: Class, node: ast.FunctionDef, owner: Instance | None) -> Value:
        environment = class_surroundings(cls)
        kinds = {name.id for name in node.decorator_list if isinstance(name, ast.Name)}
        plain = Function(cls.module, node, environment)
        if kinds == {"staticmethod"}:
            return plain
        if kinds == {"property"} and owner is not None:
            return self.run(replace(plain, bound_self=owner), (), {}, exact=True).result
        if owner is None:
            return UNKNOWN if node.decorator_list else plain
        bound: Value = replace(plain, bound_self=owner)
        for decorator in reversed(node.decorator_list):
            applied = self.evaluate(decorator, class_surroundings(cls))
            bound = self.call(applied, (bound,), {}, environment, decorator, exact=True)
        return bound

    def _assigned_attribute(
        self, cls: Class, assigned: list[tuple[ast.FunctionDef, ast.expr]], owner: Instance
    ) -> Value:
        """``self.name = value`` in ``__init__``, the one place that sets it."""
        if len(assigned) != 1 or assigned[0][0].name not in ("__init__", "setup", "__post_init__"):
            return UNKNOWN
        method_node, value = assigned[0]
        scope = cls.module.scopes[method_node]
        parent = class_surroundings(cls)
        around = Environment(cls.module, scope, parent, {"self": owner}, static=True)
        seen_by = value_key(owner)
        key = None if seen_by is None else (value, seen_by, id(self.operands))
        return self._once(key, (owner, self.operands), lambda: self.evaluate(value, around))

    def _subscript(self, node: ast.Subscript, environment: Environment) -> Value:
        owner = self.evaluate(node.value, environment)
        if isinstance(owner, BoundMethod):
            updated = BoundMethod(leaf_of(owner.owner), owner.name)
            return index(updated, self._index(node.slice, environment)) or UNKNOWN
        key = self.evaluate(node.slice, environment) if not isinstance(node.slice, ast.Slice) else UNKNOWN
        match owner:
            case Sequence():
                if isinstance(node.slice, ast.Slice):
                    return self._sliced(owner, node.slice, environment)
                return (
                    _element(owner, key.value)
                    if isinstance(key, Constant) and isinstance(key.value, int)
                    else (join_all(owner.items) if owner.items else owner.rest)
                )
            case Dict():
                found = owner.get(key.value) if isinstance(key, Constant | Text) else None
                return found if found is not None else UNKNOWN
            case Array():
                return index(owner, self._index(node.slice, environment)) or Array(varying=owner.varying)
            case Tree():
                if isinstance(key, Text):
                    return owner
                indexed = as_array(
                    index(owner.leaf, self._index(node.slice, environment)) or Array(varying=owner.leaf.varying)
                )
                return Tree(as_array(join(indexed, owner.leaf)))
            case Instance() if isinstance(key, Constant) and isinstance(key.value, int):
                return _element(owner, key.value)
            case Spec(entries=tuple() as entries) if isinstance(key, Constant) and isinstance(key.value, int):
                if -len(entries) <= key.value < len(entries) and entries[key.value] is not ...:
                    return _entry_value(entries[key.value])
        return UNKNOWN

    def _index(self, node: ast.expr, environment: Environment) -> Value:
        """An index as a value: slices are ``Constant(slice)``, tuples keep their items."""
        match node:
            case ast.Slice():
                return Constant(slice(None))
            case ast.Tuple():
                if any(isinstance(element, ast.Starred) for element in node.elts):
                    return UNKNOWN
                return Sequence(tuple(self._index(element, environment) for element in node.elts))
        return self.evaluate(node, environment)

    def _sliced(self, owner: Sequence, node: ast.Slice, environment: Environment) -> Value:
        bounds = [
            None if part is None else self.evaluate(part, environment) for part in (node.lower, node.upper, node.step)
        ]
        if owner.items is None:
            return owner
        if all(
            bound is None or (isinstance(bound, Constant) and isinstance(bound.value, int | None)) for bound in bounds
        ):
            parts = [None if bound is None else bound.value for bound in bounds]  # type: ignore[attr-defined]
            return replace(owner, items=owner.items[slice(*parts)])
        return Sequence(None, owner.kind, join_all(owner.items) if owner.items else UNKNOWN)

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set, environment: Environment) -> Value:
        kind = "tuple" if isinstance(node, ast.Tuple) else "list" if isinstance(node, ast.List) else "set"
        items: list[Value] = []
        exact = True
        for element in node.elts:
            if isinstance(element, ast.Starred):
                inner = self.evaluate(element.value, environment)
                if isinstance(inner, Spec) and inner.entries is not None and ... not in inner.entries:
                    items.extend(map(_entry_value, inner.entries))
                elif isinstance(inner, Sequence) and inner.items is not None:
                    items.extend(inner.items)
                else:
                    exact = False
                    items.append(inner.rest if isinstance(inner, Sequence) else UNKNOWN)
            else:
                items.append(self.evaluate(element, environment))
        return Sequence(tuple(items), kind) if exact else Sequence(None, kind, join_all(items))

    def _dict(self, node: ast.Dict, environment: Environment) -> Value:
        if len(node.keys) > LARGEST_DICT:
            return Dict((), complete=False)
        items: dict[Any, Value] = {}
        complete = True
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.evaluate(item, environment)
            if key is None:
                if isinstance(value, Dict):
                    items.update(value.items)
                    complete = complete and value.complete
                else:
                    items, complete = {}, False
                continue
            name = self.evaluate(key, environment)
            if (isinstance(name, Text) and name.value is not None) or (
                isinstance(name, Constant) and isinstance(name.value, int | str | float | bool | None)
            ):
                items[name.value] = value
            else:
                items, complete = {}, False
        return Dict(tuple(items.items()), complete)

    def _binary(self, node: ast.BinOp, environment: Environment) -> Value:
        left = self.evaluate(node.left, environment)
        right = self.evaluate(node.right, environment)
        return self._operation(node.op, left, right, node, environment)

    def _operation(
        self, op: ast.operator, left: Value, right: Value, node: ast.expr, environment: Environment
    ) -> Value:
        match left, op, right:
            case Sequence(), ast.Add(), Sequence() if left.kind == right.kind:
                if left.items is not None and right.items is not None:
                    return replace(left, items=left.items + right.items)
                return Sequence(
                    None, left.kind, join(join_all(left.items or (left.rest,)), join_all(right.items or (right.rest,)))
                )
            case Sequence(items=tuple() as items), ast.Mult(), Constant(value=int() as count):
                return (
                    replace(left, items=items * count)
                    if len(items) * max(count, 0) <= 64
                    else Sequence(None, left.kind, join_all(items))
                )
            case Constant(value=int()), ast.Mult(), Sequence():
                return self._repeated(right, left)
            case Sequence(), ast.Mult(), _:
                return Sequence(None, left.kind, join_all(left.items) if left.items else left.rest)
            case Dict(complete=True), ast.BitOr(), Dict(complete=True):
                return Dict(tuple((dict(left.items) | dict(right.items)).items()))
            case Spec(), ast.Add(), Spec() | Sequence():
                return add_specs(left, right)
            case Text(value=str() as a), ast.Add(), Text(value=str() as b):
                return Text(a + b)
            case Text(), _, _:
                return Text()
            case (Constant(), _, Constant()):
                return _fold(op, left.value, right.value)
        if isinstance(left, Array | Tree) or isinstance(right, Array | Tree):
            return self._note(binary(op, leaf_of(left), leaf_of(right)) or UNKNOWN, node, environment, left, right)
        if is_number(left) and is_number(right):
            return Number()
        return UNKNOWN

    def _repeated(self, sequence: Sequence, count: Value) -> Value:
        if sequence.items is not None and isinstance(count, Constant) and isinstance(count.value, int):
            if len(sequence.items) * max(count.value, 0) <= 64:
                return replace(sequence, items=sequence.items * count.value)
        return Sequence(None, sequence.kind, join_all(sequence.items) if sequence.items else sequence.rest)

    def _unary(self, node: ast.UnaryOp, environment: Environment) -> Value:
        operand = self.evaluate(node.operand, environment)
        if isinstance(operand, Array | Tree):
            if isinstance(node.op, ast.Not):
                return Number()
            return unary(node.op, as_array(operand)) or UNKNOWN
        if isinstance(operand, Constant):
            functions: dict[type, Any] = {
                ast.USub: operator.neg,
                ast.UAdd: operator.pos,
                ast.Not: operator.not_,
                ast.Invert: operator.invert,
            }
            try:
                return Constant(functions[type(node.op)](operand.value))
            except (TypeError, KeyError):
                return UNKNOWN
        return Number() if isinstance(node.op, ast.Not) or is_number(operand) else UNKNOWN

    def _boolean(self, node: ast.BoolOp, environment: Environment) -> Value:
        for position, operand in enumerate(node.values):
            value = self.evaluate(operand, environment)
            truth = _truth(value)
            if truth is None and position < len(node.values) - 1:
                with self._perhaps():
                    return join_all(
                        [value, *(self.evaluate(other, environment) for other in node.values[position + 1 :])]
                    )
            if truth == isinstance(node.op, ast.Or):
                return value
        return value

    def _compare(self, node: ast.Compare, environment: Environment) -> Value:
        operands = [self.evaluate(operand, environment) for operand in (node.left, *node.comparators)]
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot):
            left, right = operands
            if right == Constant(None) and left != UNKNOWN and not isinstance(left, Tree):  # None is a pytree too
                same = left == Constant(None)
                return Constant(same if isinstance(node.ops[0], ast.Is) else not same)
            return Number()
        if any(isinstance(operand, Array | Tree) for operand in operands):
            if len(operands) == 2 and not isinstance(node.ops[0], ast.In | ast.NotIn):
                return compare(node.ops[0], leaf_of(operands[0]), leaf_of(operands[1])) or UNKNOWN
            return Number()
        match operands, node.ops:
            case [Constant() | Text() as a, Constant() | Text() as b], [op] if type(op) in _COMPARISONS:
                if a.value is not None or not isinstance(a, Text):
                    if not (isinstance(b, Text) and b.value is None):
                        try:
                            return Constant(_COMPARISONS[type(op)](a.value, b.value))
                        except TypeError:
                            return UNKNOWN
        plain = (Constant, Number, Text, Sequence, Dict, Spec)
        return Number() if all(isinstance(operand, plain) for operand in operands) else UNKNOWN

    def _conditional(self, node: ast.IfExp, environment: Environment) -> Value:
        truth = _truth(self.evaluate(node.test, environment))
        if truth is not None:
            return self.evaluate(node.body if truth else node.orelse, environment)
        with self._perhaps():
            return join(self.evaluate(node.body, environment), self.evaluate(node.orelse, environment))

    @contextmanager
    def _perhaps(self) -> Iterator[None]:
        """Inside, expressions are evaluated that the program may not come to, or come to several times."""
        frame = self._frames[-1] if self._frames else None
        if frame is not None:
            frame.open_expressions += 1
        try:
            yield
        finally:
            if frame is not None:
                frame.open_expressions -= 1

    @contextmanager
    def _maybe(self, environment: Environment) -> Iterator[None]:
        """Inside, statements are run that the program may not come to, or come to several times."""
        environment.open_branches += 1
        try:
            yield
        finally:
            environment.open_branches -= 1

    def _lambda(self, node: ast.Lambda, environment: Environment) -> Value:
        return self._function(node, environment)

    def _function(self, node: ast.FunctionDef | ast.Lambda, environment: Environment) -> Function:
        """A function at the moment of its definition."""
        if environment.static:
            return Function(environment.module, node, environment)
        defaults = tuple((name, self.evaluate(default, environment)) for name, default in default_arguments(node.args))
        return Function(environment.module, node, environment, None, defaults)

    def _named(self, node: ast.NamedExpr, environment: Environment) -> Value:
        value = self.evaluate(node.value, environment)
        target = environment
        while isinstance(target.scope.node, COMPREHENSIONS) and target.parent is not None:
            target = target.parent
        target.variables[node.target.id] = value
        return value

    def _formatted(self, node: ast.JoinedStr, environment: Environment) -> Value:
        return Text()

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, environment: Environment) -> Value:
        kind = (
            "list" if isinstance(node, ast.ListComp) else "generator" if isinstance(node, ast.GeneratorExp) else "set"
        )
        inner = Environment(environment.module, environment.module.scopes[node], environment, static=False)
        first = self.evaluate(node.generators[0].iter, environment)
        if (
            len(node.generators) == 1
            and not node.generators[0].ifs
            and isinstance(first, Sequence)
            and first.items is not None
        ):
            if len(first.items) <= MOST_ROUNDS:
                items = []
                for item in first.items:
                    self._bind(node.generators[0].target, item, inner)
                    items.append(self.evaluate(node.elt, inner))
                return Sequence(tuple(items), kind)
        with self._perhaps():
            self._bind(node.generators[0].target, iterated(first), inner)
            for generator in node.generators[1:]:
                self._bind(generator.target, iterated(self.evaluate(generator.iter, inner)), inner)
            return Sequence(None, kind, self.evaluate(node.elt, inner))

    def _dict_comprehension(self, node: ast.DictComp, environment: Environment) -> Value:
        inner = Environment(environment.module, environment.module.scopes[node], environment)
        source = self.evaluate(node.generators[0].iter, environment)
        if len(node.generators) > 1 or node.generators[0].ifs:
            return Dict((), complete=False)
        if not isinstance(source, Sequence) or source.items is None or len(source.items) > MOST_ROUNDS:
            return Dict((), complete=False)
        result: Value = Dict(())
        for item in source.items:
            self._bind(node.generators[0].target, item, inner)
            result = with_item(result, self.evaluate(node.key, inner), self.evaluate(node.value, inner))
        return result

    def _starred(self, node: ast.Starred, environment: Environment) -> Value:
        return UNKNOWN

    # Calls

    def _call_expression(self, node: ast.Call, environment: Environment) -> Value:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            return self._super(node, environment)
        function = self.evaluate(node.func, environment)
        arguments: list[Value] = []
        exact = True
        missing: Value = UNKNOWN
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                spread = self.evaluate(argument.value, environment)
                if isinstance(spread, Sequence) and spread.items is not None and spread.kind != "set":
                    arguments.extend(spread.items)
                elif isinstance(spread, Spec) and spread.entries is not None and ... not in spread.entries:
                    arguments.extend(map(_entry_value, spread.entries))
                else:
                    exact = False
                    if argument is node.args[-1] and isinstance(spread, Sequence):
                        missing = iterated(spread)
                    break
            else:
                arguments.append(self.evaluate(argument, environment))
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, environment)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, Dict) and value.complete:
                keywords.update({key: item for key, item in value.items if isinstance(key, str)})
            else:
                exact, missing = False, UNKNOWN
        if function == UNKNOWN and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            called = self.evaluate(node.func.value, environment) if _is_super(node.func.value) else UNKNOWN
            if isinstance(called, Super):  # a base class that is not followed may set any attribute
                self._change(called.owner, of_its_kind(called.owner), environment)
        return self.call(function, tuple(arguments), keywords, environment, node, exact=exact, missing=missing)

    def _super(self, node: ast.Call, environment: Environment) -> Value:
        """``super()`` in a method whose first parameter is known."""
        module = environment.module
        method_node = module.enclosing(node, ast.FunctionDef, ast.Lambda)
        cls = module.parent(method_node) if isinstance(method_node, ast.FunctionDef) else None
        if (
            not isinstance(cls, ast.ClassDef)
            or not isinstance(method_node, ast.FunctionDef)
            or not method_node.args.args
        ):
            return UNKNOWN
        owner = environment.lookup(method_node.args.args[0].arg, self)
        return Super(Class(module, cls), owner) if isinstance(owner, Instance) else UNKNOWN

    def call(
        self,
        function: Value,
        arguments: tuple[Value, ...],
        keywords: Mapping[str, Value],
        environment: Environment,
        node: ast.expr,
        *,
        exact: bool,
        missing: Value = UNKNOWN,
    ) -> Value:
        """The result of a call; ``exact`` is False where more arguments may be passed, which are then like ``missing``."""
        match function:
            case Function():
                return self._result(function, arguments, keywords, exact=exact, missing=missing)
            case Partial():
                merged = {**dict(function.keywords), **keywords}
                given = function.arguments + arguments
                return self.call(function.function, given, merged, environment, node, exact=exact, missing=missing)
            case Class():
                return self._instantiate(function, arguments, keywords, exact)
            case Instance():
                called = self._class_attribute(function.cls, "__call__", function)
                return (
                    self.call(called, arguments, keywords, environment, node, exact=exact)
                    if called != UNKNOWN
                    else UNKNOWN
                )
            case Mapped():
                return call_mapped(self, function, arguments, environment, node, exact)
            case Transformed():
                return call_transformed(self, function, arguments, keywords, environment, node, exact, missing)
            case JaxObject():
                self._note_operand(node, arguments[0] if arguments else None)
                self._note_evaluation(function.dotted, arguments, keywords, environment, node)
                result = jax_calls.call(self, function.dotted, arguments, keywords, environment, node, exact, missing)
                return self._note(result, node, environment, *arguments)
            case BoundMethod():
                owner = function.owner
                self._note_operand(node, owner)
                self._note_evaluation(f"jax.Array.{function.name}", arguments, keywords, environment, node)
                if function.name.startswith(AT):
                    updated = method(owner, function.name, arguments, keywords, exact_arguments=exact)
                    return self._note(updated or UNKNOWN, node, environment, *arguments)
                change = changed_by_method(owner, function.name, arguments, keywords, exact)
                if change is not None:
                    self._change(owner, change[1], environment)
                    return change[0]
                known = jax_calls.value_method(
                    self, owner, function.name, arguments, keywords, environment, node, exact
                )
                if known is None:
                    plain = [leaf_of(argument) for argument in arguments]
                    options = {name: leaf_of(value) for name, value in keywords.items()}
                    known = method(leaf_of(owner), function.name, plain, options, exact_arguments=exact)
                return self._note(known or UNKNOWN, node, environment, owner, *arguments)
        return UNKNOWN

    def _result(
        self,
        function: Function,
        arguments: tuple[Value, ...],
        keywords: Mapping[str, Value],
        *,
        exact: bool,
        missing: Value = UNKNOWN,
    ) -> Value:
        """The result of a run, which is that of an earlier one where it must be the same."""
        key = run_key(function, (*arguments, missing), keywords, exact, len(arguments), id(self.operands))
        alive = function, arguments, dict(keywords), missing, self.operands
        return self._once(
            key, alive, lambda: self.run(function, arguments, keywords, exact=exact, missing=missing).result
        )

    def _once(self, key: Hashable | None, alive: tuple[object, ...], work: Callable[[], Value]) -> Value:
        """What ``work`` gives, which is what it gave before under the same key (None: it depends on more than can be told)."""
        known = self._repeats.result(key) if key is not None else None
        if known is not None:
            result, cost = known
            self._left -= cost  # so that what is known does not hang on what was asked before
            if self._left < 0:
                raise OutOfBudget
            return result
        reach, self.reach = self.reach, NOWHERE
        left = self._left
        result = work()
        if key is not None and self.reach >= len(self._frames) and is_plain(result):
            self._repeats.remember(key, result, left - self._left, *alive)
        self.reach = min(reach, self.reach)
        return result

    def run(
        self,
        function: Function,
        arguments: tuple[Value, ...],
        keywords: Mapping[str, Value],
        *,
        exact: bool,
        missing: Value = UNKNOWN,
        mapped: bool = False,
    ) -> FunctionRun:
        """Run a function of the project; parameters that no argument is known for are like ``missing`` unless ``exact``."""
        node = function.node
        if not mapped:
            self.trace.called.add(node)
        if node in self._stack or len(self._stack) >= CALL_DEPTH:
            self.reach = OUTSIDE
            return FunctionRun(function, (), UNKNOWN)
        if not isinstance(node, ast.Lambda) and _is_generator(function.module, node):
            return FunctionRun(function, (), UNKNOWN)
        scope = function.module.scopes[node]
        environment = Environment(function.module, scope, function.environment)
        if function.bound_self is not None:
            arguments = (function.bound_self, *arguments)
        self._bind_parameters(node.args, function, arguments, keywords, environment, exact, missing)
        self.trace.entered.add(node)
        self._stack.append(node)
        self._frames.append(environment)
        depth, self._depth = self._depth, 0
        try:
            if isinstance(node, ast.Lambda):
                value = self.evaluate(node.body, environment)
                return FunctionRun(function, (ReturnFact(node.body, value),), value)
            returns: list[ReturnFact] = []
            flow = self._block(node.body, environment, returns)
            values = [fact.value for fact in returns]
            if flow.falls_through:
                values.append(Constant(None))
            result = join_all(values) if values else UNKNOWN
            return FunctionRun(function, tuple(returns), result)
        finally:
            self._stack.pop()
            self._frames.pop()
            self._depth = depth

    def _bind_parameters(
        self,
        parameters: ast.arguments,
        function: Function,
        arguments: tuple[Value, ...],
        keywords: Mapping[str, Value],
        environment: Environment,
        exact: bool,
        missing: Value = UNKNOWN,
    ) -> None:
        positional = [*parameters.posonlyargs, *parameters.args]
        outer = function.environment or static_environment(function.module, function.module.module_scope)
        defaults = dict(default_arguments(parameters))
        evaluated = dict(function.defaults)

        def default(name: str) -> Value:
            value = evaluated[name] if name in evaluated else self.evaluate(defaults[name], outer)
            if not is_changeable(value) or (isinstance(value, Instance) and name not in function.module.mutated_names):
                return value
            return of_its_kind(value)  # one object for all calls, in which it may have been changed

        left = dict(keywords)
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
                value = from_annotation(self, argument.annotation, outer)
            environment.variables[argument.arg] = value
        for argument in parameters.kwonlyargs:
            if argument.arg in left:
                environment.variables[argument.arg] = left.pop(argument.arg)
            elif exact and argument.arg in defaults:
                environment.variables[argument.arg] = default(argument.arg)
            else:
                environment.variables[argument.arg] = from_annotation(self, argument.annotation, outer)
        if parameters.vararg is not None:
            extra = arguments[len(positional) :]
            rest = join_all((*extra, missing))
            environment.variables[parameters.vararg.arg] = Sequence(extra) if exact else Sequence(None, rest=rest)
        if parameters.kwarg is not None:
            environment.variables[parameters.kwarg.arg] = Dict(tuple(left.items()), complete=exact)
        if positional and function.bound_self is None and positional[0].arg == "self" and not arguments:
            cls = function.module.enclosing(function.node, ast.ClassDef)
            if cls is not None and function.node in cls.body:
                environment.variables["self"] = Instance(Class(function.module, cls))

    def _instantiate(
        self, cls: Class, arguments: tuple[Value, ...], keywords: Mapping[str, Value], exact: bool
    ) -> Value:
        if not self._makes_plainly(cls):
            return UNKNOWN
        if not exact:
            return Instance(cls, changed=True)
        if record_fields(cls) is not None and own_method(cls, "__init__") is None:
            instance = Instance(cls, tuple(self._field_values(cls, arguments, keywords).items()))
            after = own_method(cls, "__post_init__")
            return instance if after is None else self._initialised(cls, after, instance, (), {})
        maker, init = self._initialiser(cls)
        if init is None:
            return Instance(cls, changed=bool(arguments or keywords))
        return self._initialised(maker, init, Instance(cls), arguments, keywords)

    def _makes_plainly(self, cls: Class, depth: int = 0) -> bool:
        """Whether a call of the class makes an instance of it, and hands the arguments to ``__init__`` alone."""
        if not is_plain_class(cls) or own_method(cls, "__new__") is not None or depth > 5:
            return False
        bases = (self.evaluate(base, class_surroundings(cls)) for base in cls.node.bases)
        return all(self._makes_plainly(base, depth + 1) for base in bases if isinstance(base, Class))

    def _field_values(
        self, cls: Class, arguments: tuple[Value, ...], keywords: Mapping[str, Value]
    ) -> dict[str, Value]:
        """The fields of a new record."""
        values: dict[str, Value] = {}
        left = list(arguments)
        for field in record_fields(cls) or ():
            if field.positional and left:
                values[field.name] = left.pop(0)
            elif field.name in keywords and field.given:
                values[field.name] = keywords[field.name]
            elif field.default is not None:
                values[field.name] = field_default(self, field.default, class_surroundings(cls))
        return values

    def _initialised(
        self,
        maker: Class,
        init: ast.FunctionDef,
        instance: Instance,
        arguments: tuple[Value, ...],
        keywords: Mapping[str, Value],
    ) -> Value:
        """A new instance after a method of ``maker`` has set it up."""
        if init.decorator_list:
            return replace(instance, changed=True)
        holder = Environment(maker.module, maker.module.module_scope, None, {"": instance})
        self._frames.append(holder)
        try:
            function = Function(maker.module, init, class_surroundings(maker), instance)
            run = self.run(function, arguments, keywords, exact=True)
        finally:
            self._frames.pop()
        made = holder.variables[""]
        return made if run.result == Constant(None) else of_its_kind(made)

    def _initialiser(self, cls: Class) -> tuple[Class, ast.FunctionDef | None]:
        """The class, of this one and its first bases, that has the ``__init__``."""
        for _ in range(5):
            init = own_method(cls, "__init__")
            if init is not None or len(cls.node.bases) != 1:
                return cls, init
            base = self.evaluate(cls.node.bases[0], class_surroundings(cls))
            if not isinstance(base, Class) or record_fields(base) is not None:
                return cls, None
            cls = base
        return cls, None

    # Statements

    def _block(self, statements: Iterable[ast.stmt], environment: Environment, returns: list[ReturnFact]) -> _Flow:
        for statement in statements:
            self._left -= 1
            if self._left < 0:
                raise OutOfBudget
            if not self._statement(statement, environment, returns).falls_through:
                return _Flow(False)
        return _Flow(True)

    def _statement(self, node: ast.stmt, environment: Environment, returns: list[ReturnFact]) -> _Flow:
        match node:
            case ast.Return(value=value):
                returns.append(
                    ReturnFact(value, self.evaluate(value, environment) if value is not None else Constant(None))
                )
                environment.left_early = environment.left_early or environment.open_branches > 0
                return _Flow(False)
            case ast.Raise():
                return _Flow(False)  # the caller is not come back to
            case ast.Break() | ast.Continue():
                if self._exits:
                    self._exits[-1].append(dict(environment.variables))
                return _Flow(False)
            case ast.Expr(value=value):
                self.evaluate(value, environment)
            case ast.Assert(test=test):
                self.evaluate(test, environment)
            case ast.Assign(targets=targets, value=value):
                result = self.evaluate(value, environment)
                for target in targets:
                    self._bind(target, result, environment)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self.evaluate(value, environment), environment)
            case ast.AugAssign():
                self._augment(node, environment)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                environment.variables[node.name] = self._defined(node, environment)
            case ast.ClassDef():
                cls = Class(environment.module, node)
                environment.variables[node.name] = cls if is_plain_class(cls) else UNKNOWN
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    name = alias.asname or (
                        alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name
                    )
                    for binding in environment.scope.bindings.get(name, ()):
                        if binding.node is alias:
                            environment.variables[name] = self._imported(environment.module, binding.dotted or "")
            case ast.If(test=test, body=body, orelse=orelse):
                return self._branch(_truth(self.evaluate(test, environment)), body, orelse, environment, returns)
            case ast.For(target=target, iter=iterable, body=body, orelse=orelse):
                source = self.evaluate(iterable, environment)
                if isinstance(source, Sequence) and source.items is not None and len(source.items) <= MOST_ROUNDS:
                    if source.kind != "set" and not _has_jumps(body):
                        return self._rounds(target, source.items, body, orelse, environment, returns)
                return self._loop(
                    lambda: self._bind(target, iterated(source), environment), body, orelse, environment, returns, node
                )
            case ast.While(test=test, body=body, orelse=orelse):
                return self._loop(
                    lambda: self.evaluate(test, environment) and None, body, orelse, environment, returns, node
                )
            case ast.With(items=items, body=body):
                for item in items:
                    entered = entered_context(self.evaluate(item.context_expr, environment))
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, entered, environment)
                if not any(map(_may_swallow, items)):
                    return self._block(body, environment, returns)
                before = dict(environment.variables)
                with self._maybe(environment):
                    self._block(body, environment, returns)
                environment.variables = _joined(before, environment.variables)
                self._forget_assigned(body, environment)
            case ast.Try() | ast.TryStar():
                return self._try(node, environment, returns)
            case ast.Match(subject=subject, cases=cases):
                self.evaluate(subject, environment)
                return self._match(cases, environment, returns)
            case ast.Delete(targets=targets):
                for target in targets:
                    self._forget(target, environment)
            case ast.AsyncFor() | ast.AsyncWith():
                self._forget_assigned([node], environment)
                returns.append(ReturnFact(None, UNKNOWN))
        return _Flow(True)

    def _bind(self, target: ast.expr, value: Value, environment: Environment) -> None:
        match target:
            case ast.Name(id=name):
                holder = environment
                if name in environment.scope.globals or name in environment.scope.nonlocals:
                    return
                holder.variables[name] = value
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                starred = next((i for i, element in enumerate(elements) if isinstance(element, ast.Starred)), None)
                for position, element in enumerate(elements):
                    if isinstance(element, ast.Starred):
                        self._bind(element.value, Sequence(None, "list"), environment)
                    elif starred is not None and position > starred:
                        self._bind(element, _element(value, position - len(elements)), environment)
                    else:
                        self._bind(element, _element(value, position), environment)
            case ast.Subscript(value=owner, slice=key):
                container = self.evaluate(owner, environment)
                if isinstance(container, Sequence | Dict | Instance):
                    self._change(container, with_item(container, self._index(key, environment), value), environment)
            case ast.Attribute(value=owner, attr=attribute_name):
                instance = self.evaluate(owner, environment)
                if isinstance(instance, Instance):
                    plain = self._sets_plainly(instance.cls, attribute_name)
                    new = with_attribute(instance, attribute_name, value) if plain else of_its_kind(instance)
                    self._change(instance, new, environment)

    def _sets_plainly(self, cls: Class, name: str) -> bool:
        """Whether an assignment to that attribute stores the value, and does no more."""
        for _ in range(5):
            scope = cls.module.scopes.get(cls.node)
            if scope is None or "__setattr__" in scope.bindings:
                return False
            for binding in scope.bindings.get(name, ()):
                if binding.kind == "function" and not binding.node.decorator_list:  # type: ignore[attr-defined]
                    continue
                if isinstance(binding.statement, ast.AnnAssign):
                    continue
                if binding.kind != "assignment" or not isinstance(
                    binding.value, ast.Constant | ast.Tuple | ast.List | ast.Dict
                ):
                    return False  # a property, or another descriptor
            if not cls.node.bases:
                return True
            base = self.evaluate(cls.node.bases[0], class_surroundings(cls))
            if not isinstance(base, Class):
                return isinstance(base, JaxObject) or record_fields(cls) is not None
            cls = base
        return False

    def change(self, old: Value, new: Value, environment: Environment) -> None:
        """As a function of Python's changes a container that it is given."""
        self._change(old, new, environment)

    def _change(self, old: Value, new: Value, environment: Environment) -> None:
        """A container was changed in place: let all that hold it hold what has become of it.

        Those in functions that wait for this one to return hold it for certain only if it runs here on every path; where
        it may not, nothing is known of the container from here on, for it is not followed any further there.
        """
        if held(new, old):  # a container inside itself is followed no further
            new = of_its_kind(old)
        self._changed[id(old)] = old
        certain = True
        memo: dict[int, Value] = {}
        seen: set[int] = set()
        for number in range(len(self._frames) - 1, -1, -1):
            frame = self._frames[number]
            certain = certain and not frame.open_expressions
            found = frame.replace_value(old, new, memo) if certain else frame.blur_value(old)
            if found:
                self.reach = min(self.reach, number)
            seen.add(id(frame))
            certain = certain and frame.is_certain
        for start in (environment, *self._frames):
            around: Environment | None = start
            while around is not None:
                if id(around) not in seen:
                    if around.blur_value(old):
                        self.reach = OUTSIDE
                    seen.add(id(around))
                around = around.parent

    def _augment(self, node: ast.AugAssign, environment: Environment) -> None:
        load = copy(node.target)
        load.ctx = ast.Load()
        old = self.evaluate(load, environment)
        right = self.evaluate(node.value, environment)
        sum_ = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        value = self._operation(node.op, old, right, sum_, environment)
        if isinstance(old, Sequence | Dict) and not (isinstance(old, Sequence) and old.kind == "tuple"):
            if isinstance(old, Sequence) and isinstance(node.op, ast.Add) and value == UNKNOWN:
                value = Sequence(None, old.kind, join_all((*(old.items or (old.rest,)), iterated(right))))
            self._change(old, value, environment)
        self._bind(node.target, value, environment)

    def _forget(self, target: ast.expr, environment: Environment) -> None:
        """A name that may be bound anew, or a container that may be changed, is unknown from here on."""
        match target:
            case ast.Name(id=name):
                environment.variables[name] = UNKNOWN
            case ast.Subscript(value=ast.expr() as owner) | ast.Attribute(value=ast.expr() as owner):
                while isinstance(owner, ast.Subscript | ast.Attribute):
                    owner = owner.value
                if isinstance(owner, ast.Name):
                    known = environment.lookup(owner.id, self)
                    if isinstance(known, Sequence | Dict | Instance):
                        self._change(known, UNKNOWN, environment)
                        environment.variables[owner.id] = UNKNOWN

    def _branch(
        self,
        truth: bool | None,
        body: list[ast.stmt],
        orelse: list[ast.stmt],
        environment: Environment,
        returns: list[ReturnFact],
    ) -> _Flow:
        if truth is True:
            return self._block(body, environment, returns)
        if truth is False:
            return self._block(orelse, environment, returns)
        before = dict(environment.variables)
        with self._maybe(environment):
            first = self._block(body, environment, returns)
            after_body = environment.variables
            environment.variables = dict(before)
            second = self._block(orelse, environment, returns)
        if not second.falls_through:
            environment.variables = after_body
        elif first.falls_through:
            environment.variables = _joined(after_body, environment.variables)
        return _Flow(first.falls_through or second.falls_through)

    def _loop(
        self,
        bind: Any,
        body: list[ast.stmt],
        orelse: list[ast.stmt],
        environment: Environment,
        returns: list[ReturnFact],
        node: ast.stmt,
    ) -> _Flow:
        for _ in range(LOOP_ROUNDS):
            before = dict(environment.variables)
            self._round(bind, body, environment, returns)
            environment.variables = _joined(before, environment.variables)
            if environment.variables == before:
                break
        else:
            self._forget_assigned(body, environment)
            self._round(bind, body, environment, returns)
            self._forget_assigned(body, environment)
        before = environment.variables
        environment.variables = dict(before)
        with self._maybe(environment):
            self._block(orelse, environment, returns)
        if _has_jumps(body):  # after a break it is not run
            environment.variables = _joined(before, environment.variables)
        endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value is True
        return _Flow(not endless or any(isinstance(inner, ast.Break) for inner in ast.walk(node)))

    def _rounds(
        self,
        target: ast.expr,
        items: tuple[Value, ...],
        body: list[ast.stmt],
        orelse: list[ast.stmt],
        environment: Environment,
        returns: list[ReturnFact],
    ) -> _Flow:
        """A loop over known items without break or continue: one round after the other."""
        for item in items:
            self._bind(target, item, environment)
            if not self._block(body, environment, returns).falls_through:
                return _Flow(False)
        return self._block(orelse, environment, returns)

    def _round(self, bind: Any, body: list[ast.stmt], environment: Environment, returns: list[ReturnFact]) -> None:
        """One round of a loop; its end is where the body falls through, or breaks, or continues."""
        bind()
        self._exits.append([])
        try:
            with self._maybe(environment):
                flow = self._block(body, environment, returns)
        finally:
            exits = self._exits.pop()
        ends = [environment.variables, *exits] if flow.falls_through or not exits else exits
        environment.variables = ends[0]
        for end in ends[1:]:
            environment.variables = _joined(environment.variables, end)

    def _try(self, node: ast.Try | ast.TryStar, environment: Environment, returns: list[ReturnFact]) -> _Flow:
        before = dict(environment.variables)
        exits = len(self._exits[-1]) if self._exits else 0
        with self._maybe(environment):
            flow = self._block(node.body, environment, returns)
            if flow.falls_through:
                flow = self._block(node.orelse, environment, returns)
            ends = [environment.variables] if flow.falls_through else []
            changed = [name for name, value in before.items() if environment.variables.get(name) is not value]
            for handler in node.handlers:
                environment.variables = {**before, **{name: of_its_kind(before[name]) for name in changed}}
                self._forget_assigned(node.body, environment)
                if self._block(handler.body, environment, returns).falls_through:
                    ends.append(environment.variables)
        if ends:
            environment.variables = ends[0]
            for end in ends[1:]:
                environment.variables = _joined(environment.variables, end)
        if not node.finalbody:
            return _Flow(bool(ends))
        if self._exits:  # breaks out of the try pass through the final block too
            variables = environment.variables
            for end in self._exits[-1][exits:]:
                environment.variables = end
                self._forget_assigned(node.finalbody, environment)
            environment.variables = variables
        final = self._block(node.finalbody, environment, returns)
        return _Flow(bool(ends) and final.falls_through)

    def _match(self, cases: list[ast.match_case], environment: Environment, returns: list[ReturnFact]) -> _Flow:
        before = dict(environment.variables)
        ends: list[dict[str, Value]] = [before]
        for case in cases:
            environment.variables = dict(before)
            for inner in ast.walk(case.pattern):
                name = getattr(inner, "name", None) or getattr(inner, "rest", None)
                if isinstance(name, str):
                    environment.variables[name] = UNKNOWN
            with self._maybe(environment):
                flow = self._block(case.body, environment, returns)
            if flow.falls_through:
                ends.append(environment.variables)
        whole = (
            bool(cases)
            and isinstance(cases[-1].pattern, ast.MatchAs)
            and cases[-1].pattern.pattern is None
            and cases[-1].guard is None
        )
        if whole:
            ends.pop(0)
        environment.variables = ends[0] if ends else before
        for end in ends[1:]:
            environment.variables = _joined(environment.variables, end)
        return _Flow(bool(ends))

    def _forget_assigned(self, statements: list[ast.stmt], environment: Environment) -> None:
        for statement in statements:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                    environment.variables[node.id] = UNKNOWN
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    environment.variables[node.name] = UNKNOWN
                elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
                    self._forget(node, environment)
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
                    self._forget(node.func, environment)

    # Explanations

    def _note_evaluation(
        self,
        dotted: str,
        arguments: tuple[Value, ...],
        keywords: Mapping[str, Value],
        environment: Environment,
        node: ast.expr,
    ) -> None:
        if isinstance(node, ast.Call) and not SHARDING_KEYWORDS.isdisjoint(keywords):
            seen = Evaluation(environment.module, node, dotted, arguments, tuple(keywords.items()))
            self.trace.calls.setdefault(node, []).append(seen)
            self.reach = OUTSIDE

    def _note_operand(self, node: ast.expr, operand: Value | None) -> None:
        if isinstance(node, ast.Call) and isinstance(operand, Array | Tree):
            known = self.operands.get(node)
            self.operands[node] = operand if known is None else join(known, operand)

    def _note(self, value: Value, node: ast.expr, environment: Environment, *causes: Value) -> Value:
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


_EXPRESSIONS: dict[type, Any] = {
    ast.Constant: Interpreter._constant,
    ast.Name: Interpreter._name,
    ast.Attribute: Interpreter._attribute,
    ast.Subscript: Interpreter._subscript,
    ast.Tuple: Interpreter._sequence,
    ast.List: Interpreter._sequence,
    ast.Set: Interpreter._sequence,
    ast.Dict: Interpreter._dict,
    ast.BinOp: Interpreter._binary,
    ast.UnaryOp: Interpreter._unary,
    ast.BoolOp: Interpreter._boolean,
    ast.Compare: Interpreter._compare,
    ast.IfExp: Interpreter._conditional,
    ast.Lambda: Interpreter._lambda,
    ast.NamedExpr: Interpreter._named,
    ast.JoinedStr: Interpreter._formatted,
    ast.ListComp: Interpreter._comprehension,
    ast.GeneratorExp: Interpreter._comprehension,
    ast.SetComp: Interpreter._comprehension,
    ast.DictComp: Interpreter._dict_comprehension,
    ast.Starred: Interpreter._starred,
    ast.Call: Interpreter._call_expression,
}


_COMPARISONS: dict[type, Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


_TRANSPARENT_DECORATORS = frozenset(
    {
        "functools.wraps()",
        "functools.wraps",
        "typing.no_type_check",
        "typing.overload",
        "typing.final",
        "functools.lru_cache",
        "functools.cache",
    }
)


def value_of(module: Module, node: ast.expr) -> Value:
    """What is known of an expression where it stands, whatever the arguments of the functions around it."""
    known = module.static_values.get(node)
    if known is None:
        known = module.static_values[node] = module.static_interpreter.value_of(module, node)
    return known


def static_environment(module: Module, scope: Scope) -> Environment:
    """The environment of a scope at no particular moment; one for each scope."""
    known = module.static_environments.get(scope)
    if known is not None:
        return known
    parent = static_environment(module, scope.parent) if scope.parent is not None else None
    environment = module.static_environments[scope] = Environment(module, scope, parent, static=True, kept=True)
    node = scope.node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        cls = module.parent(node)
        parameters = [*node.args.posonlyargs, *node.args.args]
        if isinstance(cls, ast.ClassDef) and parameters and not has_decorator(node, "staticmethod", "classmethod"):
            environment.variables[parameters[0].arg] = Instance(Class(module, cls))
        for parameter in (*parameters, *node.args.kwonlyargs):
            if parameter.annotation is not None and parent is not None:
                known_type = from_annotation(module.static_interpreter, parameter.annotation, parent)
                if known_type != UNKNOWN and len(scope.bindings.get(parameter.arg, ())) == 1:
                    environment.variables[parameter.arg] = known_type
    return environment


def _is_generator(module: Module, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return node in module.generators


def _element(value: Value, position: int) -> Value:
    """What unpacking or constant indexing gives."""
    match value:
        case Sequence(items=None):
            return value.rest
        case Sequence(items=tuple() as items):
            return items[position] if -len(items) <= position < len(items) else UNKNOWN
        case Array():
            return index(value, Constant(0)) or Array(varying=value.varying)
        case Tree():
            indexed = as_array(index(value.leaf, Constant(0)) or Array(varying=value.leaf.varying))
            return Tree(as_array(join(indexed, value.leaf)))
        case Instance():
            fields = record_fields(value.cls)
            if fields is not None and -len(fields) <= position < len(fields):
                return value.get(fields[position].name) or UNKNOWN
    return UNKNOWN


def _entry_value(entry: Any) -> Value:
    if entry is None:
        return Constant(None)
    if isinstance(entry, tuple):
        return Sequence(tuple(Text(name) for name in entry))
    return Text(entry)


def _truth(value: Value) -> bool | None:
    match value:
        case Constant(value=known):
            return bool(known)
        case Text(value=str() as known):
            return bool(known)
        case Sequence(items=tuple() as items):
            return bool(items)
        case Function() | Class() | JaxObject() | Partial() | Mapped() | Transformed():
            return True
    return None


def _fold(op: ast.operator, left: Any, right: Any) -> Value:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return UNKNOWN
    function = _OPERATORS.get(type(op))
    if function is None:
        return Number()
    try:
        return Constant(function(left, right))
    except (ArithmeticError, ValueError):
        return Number()


def _is_super(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "super"


def class_surroundings(cls: Class) -> Environment:
    """The scopes around a class, at no particular moment."""
    return static_environment(cls.module, cls.module.scope_of(cls.node))


def default_arguments(parameters: ast.arguments) -> list[tuple[str, ast.expr]]:
    """The parameters that have a default, with it."""
    positional = [*parameters.posonlyargs, *parameters.args]
    with_default = positional[len(positional) - len(parameters.defaults) :]
    pairs = [(argument.arg, default) for argument, default in zip(with_default, parameters.defaults, strict=True)]
    named = zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
    return pairs + [(argument.arg, default) for argument, default in named if default is not None]


def _has_jumps(body: list[ast.stmt]) -> bool:
    """Whether a loop's body may end by a break or continue (of whichever loop)."""
    return any(isinstance(node, ast.Break | ast.Continue) for statement in body for node in ast.walk(statement))


def _may_swallow(item: ast.withitem) -> bool:
    """Whether a context may end its block by an exception that goes no further: ``suppress``, ``pytest.raises`` ..."""
    call = item.context_expr
    name = call.func if isinstance(call, ast.Call) else call
    last = name.attr if isinstance(name, ast.Attribute) else name.id if isinstance(name, ast.Name) else ""
    return last in ("suppress", "raises") or last.startswith("assertRaises")


def _joined(a: dict[str, Value], b: dict[str, Value]) -> dict[str, Value]:
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
                    joined = of_its_kind(joined)  # what is held elsewhere too would no longer be the same object
            joins[key] = joined
        result[name] = joins[key]
    return result
