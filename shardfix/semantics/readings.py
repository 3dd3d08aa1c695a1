"""What is written where JAX wants a sharding: a string, a tuple, a list, or something that is right.

A reading follows names, attributes, dict entries, conditional expressions, dataclass fields and constants of sibling
modules to the places where the values are written. It keeps the difference that :mod:`shardfix.semantics.values` does
not need: between a value that is certainly wrong and one that only may be.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from shardfix.semantics.definitions import (
    FunctionNode,
    argument_for,
    class_attributes,
    constructor_calls,
    default_of,
    direct_calls,
    enclosing_functions,
    exported_value,
    follow,
    imported_value,
    returns,
)
from shardfix.semantics.values import Dict, JaxObject, Mesh, Sequence, Sharding, Spec, Text

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

__all__ = ["Kind", "Leaf", "Reading", "joined", "leaf_nodes", "leaves", "read", "substituted"]

Entry = str | None | tuple[str, ...] | EllipsisType
MAX_DEPTH = 10
SPECS = frozenset(
    {"jax.sharding.PartitionSpec", "jax.P", "jax.experimental.PartitionSpec", "jax.interpreters.pxla.PartitionSpec"}
)
SHARDINGS = frozenset(
    {
        "jax.sharding.NamedSharding",
        "jax.NamedSharding",
        "jax.sharding.SingleDeviceSharding",
        "jax.sharding.PositionalSharding",
        "jax.sharding.make_single_device_sharding",
        "jax.experimental.layout.Format",
    }
)


class Kind(enum.StrEnum):
    """What an expression gives, where that is certain."""

    TEXT = "string"
    TUPLE = "tuple"
    LIST = "list"
    MAPPING = "dict"
    MIXED = "string or tuple"
    """One or the other, by the path taken."""
    NONE = "None"
    RIGHT = "right"
    """A PartitionSpec, a sharding, a device, or anything else that is neither string nor container."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Reading:
    """What is known of an expression that stands where JAX wants a sharding."""

    kind: Kind
    entries: tuple[Entry, ...] | None = None
    """For strings and sequences: the entries of the spec they stand for; ``...`` for one that is not known."""
    optional: bool = False
    """Whether the value may also be None."""
    holds_leaves: bool = False
    """For sequences: whether an element is itself a spec, a sharding or a container of them (it is a pytree)."""

    @property
    def is_sequence(self) -> bool:
        return self.kind in (Kind.TUPLE, Kind.LIST)

    @property
    def is_wrong(self) -> bool:
        """Whether JAX takes it for neither a sharding nor a spec."""
        return self.kind in (Kind.TEXT, Kind.MIXED) or self.is_sequence

    @property
    def axes(self) -> frozenset[str] | None:
        """The mesh axes that the spec would name; None where one is not known."""
        if self.entries is None or ... in self.entries:
            return None
        names: set[str] = set()
        for entry in self.entries:
            names.update(entry if isinstance(entry, tuple) else [entry] if isinstance(entry, str) else [])
        return frozenset(names)


UNKNOWN = Reading(Kind.UNKNOWN)
RIGHT = Reading(Kind.RIGHT)
NONE = Reading(Kind.NONE)
MIXED = Reading(Kind.MIXED)


_READINGS: WeakKeyDictionary[Module, dict[ast.expr, Reading]] = WeakKeyDictionary()


def read(module: Module, expression: ast.expr, depth: int = 0) -> Reading:
    """What ``expression`` gives where it stands."""
    known = _READINGS.setdefault(module, {})
    if expression not in known:
        reading = _read(module, expression, depth)
        if depth:
            return reading  # it may have been cut short
        known[expression] = reading
    return known[expression]


def _read(module: Module, expression: ast.expr, depth: int) -> Reading:
    match expression:
        case ast.Constant(value=str() as text):
            return Reading(Kind.TEXT, (text,))
        case ast.Constant(value=None):
            return NONE
        case ast.Constant():
            return RIGHT
        case ast.JoinedStr():
            return Reading(Kind.TEXT, (...,))
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return _read_display(module, expression, elements, depth)
        case ast.Dict() | ast.DictComp():
            return Reading(Kind.MAPPING)
        case ast.ListComp():
            return Reading(Kind.LIST, None, holds_leaves=_may_hold_leaves(module, expression.elt, depth))
        case ast.IfExp(body=body, orelse=orelse):
            return joined([read(module, body, depth + 1), read(module, orelse, depth + 1)])
        case ast.NamedExpr(value=value):
            return read(module, value, depth + 1)
        case ast.BinOp():
            return _read_operation(module, expression, depth)
        case ast.Call():
            return _read_call(module, expression, depth)
        case ast.Name() if _is_star_parameter(module, expression):
            return Reading(Kind.TUPLE)
        case ast.Name() | ast.Attribute() | ast.Subscript() if depth < MAX_DEPTH:
            behind = values_behind(module, expression, depth)
            if behind:
                return joined([read(where, value, depth + 1) for where, value in behind])
    return _read_value(module, expression)


def _is_star_parameter(module: Module, name: ast.Name) -> bool:
    """Whether a name is the ``*`` parameter of a function: a tuple, always."""
    bindings = module.reaching(name) or []
    return bool(bindings) and all(
        binding.kind == "parameter"
        and isinstance(binding.statement, FunctionNode)
        and binding.node is binding.statement.args.vararg
        for binding in bindings
    )


def _read_display(module: Module, node: ast.expr, elements: list[ast.expr], depth: int) -> Reading:
    kind = Kind.TUPLE if isinstance(node, ast.Tuple) else Kind.LIST
    entries: list[Entry] | None = []
    leaves_inside = False
    for element in elements:
        if isinstance(element, ast.Starred):
            entries = None
            continue
        inner = read(module, element, depth + 1)
        entry: Entry = ...
        match inner:
            case Reading(kind=Kind.TEXT, entries=(name,), optional=False):
                entry = name
            case Reading(kind=Kind.NONE):
                entry = None
            case Reading(kind=Kind.TUPLE | Kind.LIST, entries=tuple() as parts, optional=False) if (
                not inner.holds_leaves
            ):
                if all(isinstance(part, str) for part in parts):
                    entry = tuple(part for part in parts if isinstance(part, str))
                elif any(part is None or isinstance(part, tuple) for part in parts):
                    leaves_inside = True  # ("x", None) inside a tuple is no entry: it is a spec of its own
            case Reading(kind=Kind.RIGHT | Kind.MAPPING):
                leaves_inside = True
        if entries is not None:
            entries.append(entry)
    return Reading(kind, None if entries is None else tuple(entries), holds_leaves=leaves_inside)


def _may_hold_leaves(module: Module, element: ast.expr, depth: int) -> bool:
    return read(module, element, depth + 1).kind not in (Kind.TEXT, Kind.NONE)


def _read_operation(module: Module, node: ast.BinOp, depth: int) -> Reading:
    left, right = read(module, node.left, depth + 1), read(module, node.right, depth + 1)
    match node.op:
        case ast.Add() if left.kind == right.kind and left.is_sequence and not left.optional and not right.optional:
            entries = left.entries + right.entries if left.entries is not None and right.entries is not None else None
            return Reading(left.kind, entries, holds_leaves=left.holds_leaves or right.holds_leaves)
        case ast.Add() | ast.Mod() if left.kind is Kind.TEXT and not left.optional:
            return Reading(Kind.TEXT, (...,))
        case ast.Mult() if left.is_sequence and not left.optional:
            count = node.right.value if isinstance(node.right, ast.Constant) else None
            known = isinstance(count, int) and left.entries is not None and count <= 16
            return replace(left, entries=left.entries * count if known and left.entries is not None else None)  # type: ignore[operator]
    return _read_value(module, node)


def _read_call(module: Module, node: ast.Call, depth: int) -> Reading:
    names = module.resolve(node.func)
    if names & (SPECS | SHARDINGS):
        return RIGHT
    if names == {"builtins.tuple"} or names == {"builtins.list"}:
        kind = Kind.TUPLE if names == {"builtins.tuple"} else Kind.LIST
        if len(node.args) != 1:
            return Reading(kind, ())
        inner = read(module, node.args[0], depth + 1)
        if inner.is_sequence:
            return Reading(kind, inner.entries, holds_leaves=inner.holds_leaves)
        element = node.args[0].elt if isinstance(node.args[0], ast.GeneratorExp) else None
        return Reading(kind, None, holds_leaves=element is not None and _may_hold_leaves(module, element, depth))
    if names == {"builtins.str"}:
        return Reading(Kind.TEXT, (...,))
    definition = module.definition(node.func)
    function = definition[1] if definition is not None else None
    if definition is not None and isinstance(function, ast.FunctionDef) and depth < MAX_DEPTH:
        other = definition[0]
        if not function.decorator_list and not any(
            isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(function)
        ):
            results = [statement.value for statement in returns(function)]
            if results and all(result is not None for result in results) and not _falls_through(function):
                return joined([read(other, result, depth + 1) for result in results if result is not None])
        return UNKNOWN
    return _read_value(module, node)


def _falls_through(function: ast.FunctionDef) -> bool:
    last = function.body[-1]
    return not isinstance(last, ast.Return | ast.Raise) and not (
        isinstance(last, ast.If)
        and last.orelse
        and all(isinstance(block[-1], ast.Return | ast.Raise) for block in (last.body, last.orelse))
    )


def _read_value(module: Module, expression: ast.expr) -> Reading:
    """What the interpreter knows."""
    match module.value_of(expression):
        case Text(value=text):
            return Reading(Kind.TEXT, (text if text is not None else ...,))
        case Sequence(items=None, kind="tuple" | "list" as kind, rest=rest):
            return Reading(Kind(kind), None, holds_leaves=not isinstance(rest, Text))
        case Sequence(items=tuple() as items, kind="tuple" | "list" as kind):
            entries: list[Entry] = []
            inside = False
            for item in items:
                match item:
                    case Text(value=str() as name):
                        entries.append(name)
                    case Sequence(items=tuple() as parts) if all(
                        isinstance(part, Text) and part.value for part in parts
                    ):
                        entries.append(tuple(part.value or "" for part in parts if isinstance(part, Text)))
                    case Spec() | Sharding() | Dict() | Sequence():
                        inside = True
                        entries.append(...)
                    case value:
                        entries.append(
                            None if getattr(value, "value", ...) is None and not isinstance(value, Text) else ...
                        )
            return Reading(Kind(kind), tuple(entries), holds_leaves=inside)
        case Dict():
            return Reading(Kind.MAPPING)
        case Spec() | Sharding() | Mesh() | JaxObject():
            return RIGHT
    return UNKNOWN


def joined(readings: list[Reading]) -> Reading:
    """What holds of all; None beside one other kind makes it optional."""
    if any(reading.kind is Kind.UNKNOWN for reading in readings):
        return UNKNOWN
    optional = any(reading.kind is Kind.NONE or reading.optional for reading in readings)
    rest = [reading for reading in readings if reading.kind is not Kind.NONE]
    if not rest:
        return NONE
    if any(reading.kind is not rest[0].kind for reading in rest):
        return MIXED if all(reading.is_wrong for reading in rest) else UNKNOWN
    entries = rest[0].entries if all(reading.entries == rest[0].entries for reading in rest) else None
    if rest[0].kind is Kind.TEXT and entries is None:
        entries = (...,)
    return Reading(rest[0].kind, entries, optional, any(reading.holds_leaves for reading in rest))


# Where a value is written


def values_behind(module: Module, expression: ast.expr, depth: int = 0) -> list[tuple[Module, ast.expr]] | None:
    """All expressions whose values a name, an attribute or a subscript may give; None where one may be out of view."""
    if depth > MAX_DEPTH:
        return None
    match expression:
        case ast.Name():
            return _behind_name(module, expression)
        case ast.Attribute():
            return _behind_attribute(module, expression, depth)
        case ast.Subscript(value=owner, slice=key):
            return _behind_item(module, owner, key, depth)
    return None


def _behind_name(module: Module, name: ast.Name) -> list[tuple[Module, ast.expr]] | None:
    bindings = module.reaching(name)
    if not bindings or name.id in module.mutated_names:
        return None
    found: list[tuple[Module, ast.expr]] = []
    for binding in bindings:
        if binding.kind == "assignment" and binding.value is not None:
            value = follow(binding.value, binding.path)
            if value is None:
                return None
            found.append((module, value))
        elif binding.kind == "import":
            imported = imported_value(module, binding)
            if imported is None:
                return None
            found.append(imported)
        elif binding.kind == "other":
            elements = _behind_loop(module, binding.node)
            if elements is None:
                return None
            found += elements
        else:
            return None
    return found


def _behind_loop(module: Module, target: ast.AST) -> list[tuple[Module, ast.expr]] | None:
    """What the variable of a loop or a comprehension runs through, where that is written out."""
    path: tuple[int, ...] = ()
    parent = module.parent(target)
    while isinstance(parent, ast.Tuple | ast.List):
        path = (parent.elts.index(target), *path)  # type: ignore[arg-type]
        target, parent = parent, module.parent(parent)
    if not isinstance(parent, ast.For | ast.comprehension) or parent.target is not target:
        return None
    return _elements(module, parent.iter, path)


def _elements(module: Module, iterated: ast.expr, path: tuple[int, ...]) -> list[tuple[Module, ast.expr]] | None:
    """The parts at ``path`` of the elements that an iterable gives."""
    match iterated:
        case ast.Call(func=ast.Attribute(value=owner, attr="items" | "values" as method), args=[]):
            if method == "items" and path[:1] != (1,):
                return None
            rest = path[1:] if method == "items" else path
            found: list[tuple[Module, ast.expr]] = []
            for where, container in values_behind(module, owner) or [(module, owner)]:
                if not isinstance(container, ast.Dict):
                    return None
                found += [(where, value) for value in container.values]
        case ast.Call(func=ast.Name(id="enumerate"), args=[inner]) if path[:1] == (1,):
            return _elements(module, inner, path[1:])
        case ast.Call(func=ast.Name(id="zip"), args=arguments) if path and path[0] < len(arguments):
            return _elements(module, arguments[path[0]], path[1:])
        case _:
            rest, found = path, []
            for where, container in values_behind(module, iterated) or [(module, iterated)]:
                if not isinstance(container, ast.Tuple | ast.List) or _has_star(container):
                    return None
                found += [(where, element) for element in container.elts]
    parts = [(where, follow(value, rest)) for where, value in found]
    return [(where, part) for where, part in parts if part is not None] if all(part for _, part in parts) else None


def _has_star(node: ast.Tuple | ast.List) -> bool:
    return any(isinstance(element, ast.Starred) for element in node.elts)


def _behind_attribute(module: Module, node: ast.Attribute, depth: int) -> list[tuple[Module, ast.expr]] | None:
    owners = module.resolve(node.value)
    if len(owners) == 1:
        other = module.project.module(next(iter(owners)), module.path)
        if other is not None and other is not module:
            value = exported_value(other, node.attr)
            return [value] if value is not None else None
        return None
    found: list[tuple[Module, ast.expr]] = []
    namespace = _namespace(module, node.value)
    if namespace is not None:
        given = [keyword.value for keyword in namespace.keywords if keyword.arg == node.attr]
        return [(module, given[0])] if given and not _is_set_elsewhere(module, node.attr) else None
    instances = list(_instances(module, node.value, depth))
    for instance in instances:
        if instance is None:
            return None
        where, cls, creation = instance
        values = _attribute_values(where, cls, node.attr, creation)
        if values is None:
            return None
        found += values
    if not instances or _is_set_elsewhere(module, node.attr):
        return None
    return found


def _namespace(module: Module, owner: ast.expr) -> ast.Call | None:
    """The ``SimpleNamespace(...)`` that a name is bound to."""
    bindings = module.reaching(owner) if isinstance(owner, ast.Name) else None
    if bindings and len(bindings) == 1 and isinstance(bindings[0].value, ast.Call) and not bindings[0].path:
        if module.resolve(bindings[0].value.func) == {"types.SimpleNamespace"}:
            return bindings[0].value
    return None


Creation = tuple["Module", ast.Call] | None


def _instances(module: Module, owner: ast.expr, depth: int) -> Iterator[tuple[Module, ast.ClassDef, Creation] | None]:
    """The classes that ``owner`` may be an instance of (or be itself), with the call that made it where that is in view."""
    if depth > MAX_DEPTH:
        yield None
        return
    definition = module.definition(owner)
    if definition is not None and isinstance(definition[1], ast.ClassDef):
        yield definition[0], definition[1], None
        return
    match owner:
        case ast.Call(func=function):
            made = module.definition(function)
            yield (
                (made[0], made[1], (module, owner)) if made is not None and isinstance(made[1], ast.ClassDef) else None
            )
        case ast.Name():
            bindings = module.reaching(owner)
            if not bindings:
                yield None
                return
            for binding in bindings:
                if binding.kind == "assignment" and binding.value is not None and not binding.path:
                    yield from _instances(module, binding.value, depth + 1)
                elif binding.kind == "parameter":
                    yield from _instances_of_parameter(module, binding.node, binding.statement, depth)
                else:
                    yield None
        case ast.Attribute():
            behind = _behind_attribute(module, owner, depth + 1)
            if behind is None:
                yield None
            for where, value in behind or ():
                yield from _instances(where, value, depth + 1)
        case _:
            yield None


def _instances_of_parameter(
    module: Module, argument: ast.AST, function: ast.AST, depth: int
) -> Iterator[tuple[Module, ast.ClassDef, Creation] | None]:
    assert isinstance(argument, ast.arg)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        yield None
        return
    cls = module.parent(function)
    positional = [*function.args.posonlyargs, *function.args.args]
    if isinstance(cls, ast.ClassDef) and positional and positional[0] is argument:
        creations = constructor_calls(module, cls)
        if creations:
            for call in creations:
                yield module, cls, (module, call)
        else:
            yield module, cls, None
        return
    calls = direct_calls(module, function) if not isinstance(cls, ast.ClassDef) else []
    if calls:
        for call in calls:
            given = argument_for(function, call, argument.arg)
            if given is None:
                yield None
            else:
                yield from _instances(module, given, depth + 1)
        return
    if argument.annotation is not None:
        annotation = argument.annotation
        if (
            isinstance(annotation, ast.Constant)
            and isinstance(annotation.value, str)
            and annotation.value.isidentifier()
        ):
            annotated = module.exported_definition(annotation.value)
        else:
            annotated = module.definition(annotation)
        if annotated is not None and isinstance(annotated[1], ast.ClassDef):
            yield annotated[0], annotated[1], None
            return
    default = default_of(function, argument)
    if default is not None and isinstance(default, ast.Call):
        yield from _instances(module, default, depth + 1)
        return
    yield None


def _attribute_values(
    module: Module, cls: ast.ClassDef, name: str, creation: Creation
) -> list[tuple[Module, ast.expr]] | None:
    """What the attribute of an instance may be: the argument of the call that made it, or what the class assigns."""
    assigned = class_attributes(cls).get(name)
    if assigned is None:
        for base in cls.bases:
            parent = module.definition(base)
            if parent is not None and isinstance(parent[1], ast.ClassDef):
                found = _attribute_values(parent[0], parent[1], name, creation)
                if found is not None:
                    return found
        return None
    is_field = any(annotation is not None for _, annotation, place in assigned if place in cls.body)
    init = next((node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), None)
    found = []
    for value, annotation, place in assigned:
        if place in cls.body and annotation is not None and init is None and is_field:
            given = _field_argument(cls, name, creation)
            if given is not None:
                return [given]
        if value is None:
            if annotation is not None and place in cls.body and len(assigned) > 1:
                continue
            return None
        if isinstance(value, ast.Call) and _called_name(value) == "field":
            default = next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None)
            factory = next((keyword.value for keyword in value.keywords if keyword.arg == "default_factory"), None)
            if default is None and isinstance(factory, ast.Lambda):
                default = factory.body
            if default is None:
                return None
            value = default
        if init is not None and isinstance(value, ast.Name) and init in module.ancestors(value):
            bindings = module.reaching(value)
            if bindings and len(bindings) == 1 and bindings[0].kind == "parameter":
                if creation is not None:
                    given_value = argument_for(init, creation[1], value.id, bound=True)
                    where = creation[0] if given_value is not None and given_value not in _defaults(init) else module
                else:
                    given_value, where = default_of(init, bindings[0].node), module  # type: ignore[arg-type]
                if given_value is None:
                    return None
                found.append((where, given_value))
                continue
        found.append((module, value))
    return found


def _defaults(function: ast.FunctionDef) -> list[ast.expr]:
    return [*function.args.defaults, *(default for default in function.args.kw_defaults if default is not None)]


def _field_argument(cls: ast.ClassDef, name: str, creation: Creation) -> tuple[Module, ast.expr] | None:
    """What a call gives for the field of a dataclass; None where it gives nothing (or hides what it gives)."""
    if creation is None:
        return None
    module, call = creation
    for keyword in call.keywords:
        if keyword.arg == name:
            return module, keyword.value
    fields = [
        node.target.id for node in cls.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    index = fields.index(name) if name in fields else len(call.args)
    if index < len(call.args) and not any(isinstance(value, ast.Starred) for value in call.args):
        return module, call.args[index]
    return None


def _called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_set_elsewhere(module: Module, name: str) -> bool:
    """Whether an attribute of this name is assigned on anything but ``self``, or changed in place."""
    for node in module.nodes(ast.Attribute):
        if node.attr == name and not isinstance(node.ctx, ast.Load):
            function = next(enclosing_functions(module, node), None)
            arguments = [*function.args.posonlyargs, *function.args.args] if function is not None else []
            if not arguments or not isinstance(node.value, ast.Name) or node.value.id != arguments[0].arg:
                return True
    return False


def _behind_item(module: Module, owner: ast.expr, key: ast.expr, depth: int) -> list[tuple[Module, ast.expr]] | None:
    """The entries of a dict, tuple or list that a subscript may give."""
    containers = (
        [(module, owner)]
        if isinstance(owner, ast.Dict | ast.Tuple | ast.List)
        else values_behind(module, owner, depth + 1)
    )
    if containers is None:
        return None
    found: list[tuple[Module, ast.expr]] = []
    for where, container in containers:
        match container:
            case ast.Dict(keys=keys, values=values):
                if any(name is None for name in keys):
                    return None
                if isinstance(key, ast.Constant):
                    exact = [
                        value
                        for name, value in zip(keys, values, strict=True)
                        if isinstance(name, ast.Constant) and name.value == key.value
                    ]
                    if len(exact) == 1:
                        found.append((where, exact[0]))
                        continue
                    return None
                found += [(where, value) for value in values]
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                if any(isinstance(element, ast.Starred) for element in elements):
                    return None
                if (
                    isinstance(key, ast.Constant)
                    and isinstance(key.value, int)
                    and -len(elements) <= key.value < len(elements)
                ):
                    found.append((where, elements[key.value]))
                else:
                    return None
            case _:
                return None
    return found or None


# Parts of an expression that can be rewritten where they stand


@dataclass(frozen=True, eq=False)
class Leaf:
    """A part of an expression that gives its value on some path."""

    node: ast.expr
    reading: Reading


def leaves(module: Module, expression: ast.expr) -> list[Leaf]:
    """The parts of conditional expressions and of ``and``/``or`` that may be the value of ``expression``."""
    return [Leaf(node, read(module, node)) for node in leaf_nodes(expression)]


def leaf_nodes(expression: ast.expr) -> list[ast.expr]:
    """The expressions of :func:`leaves`."""
    match expression:
        case ast.IfExp(body=body, orelse=orelse):
            return leaf_nodes(body) + leaf_nodes(orelse)
        case ast.BoolOp(op=ast.Or(), values=values):
            return [node for value in values for node in leaf_nodes(value)]
        case ast.BoolOp(op=ast.And(), values=values):
            return leaf_nodes(values[-1])
        case ast.NamedExpr():
            return []
    return [expression]


def substituted(module: Module, expression: ast.expr, replacements: dict[ast.expr, str]) -> str:
    """The text of ``expression`` with the text of some of its parts replaced."""
    start, end = module.span(expression)
    pieces: list[str] = []
    position = start
    for node, code in sorted(replacements.items(), key=lambda item: module.span(item[0])):
        first, last = module.span(node)
        pieces += [module.source[position:first], code]
        position = last
    pieces.append(module.source[position:end])
    return "".join(pieces)
