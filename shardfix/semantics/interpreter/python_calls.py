"""Calls of builtins and of the standard library."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shardfix.semantics import rank_rules
from shardfix.semantics.interpreter.aliases import of_its_kind
from shardfix.semantics.interpreter.attributes import attribute_of
from shardfix.semantics.interpreter.invocation import Invocation
from shardfix.semantics.interpreter.mutation import with_attribute, with_item
from shardfix.semantics.interpreter.records import named_tuple
from shardfix.semantics.interpreter.trees import iterated, leaf_of
from shardfix.semantics.values import (
    UNKNOWN,
    Array,
    Class,
    Constant,
    Dict,
    Instance,
    JaxObject,
    Number,
    Partial,
    Sequence,
    Spec,
    Text,
    Tree,
    Value,
    as_array,
    is_number,
    join,
)


def _partial(call: Invocation) -> Value:
    if not call.arguments or not call.exact:
        return UNKNOWN
    return Partial(call.arguments[0], call.arguments[1:], tuple(call.keywords.items()))


def _len(call: Invocation) -> Value:
    match call.arguments[:1]:
        case (Sequence(items=tuple() as items),):
            return Constant(len(items))
        case (Dict(complete=True) as known,):
            return Constant(len(known.items))
        case (Spec(entries=tuple() as entries),):
            return Constant(len(entries))
    return Number()


def _tuple_or_list(call: Invocation) -> Value:
    kind = call.name.rpartition(".")[2]
    if not call.arguments:
        return Sequence((), kind)
    match call.arguments[0]:
        case Sequence() as known if known.kind == "set" or kind in ("set", "frozenset"):
            items = known.items
            one = items is not None and len(items) <= 1
            return Sequence(items if one or (kind != "tuple" and kind != "list") else None, kind, iterated(known))
        case Sequence() as known:
            return replace(known, kind=kind)
        case Spec(entries=tuple() as entries) if ... not in entries:
            return Sequence(tuple(_from_entry(entry) for entry in entries), kind)
        case Dict(complete=True) as known if kind in ("tuple", "list"):
            return Sequence(tuple(Text(key) if isinstance(key, str) else Constant(key) for key, _ in known.items), kind)
        case Array() | Tree() | Dict() as known:
            return Sequence(None, kind, iterated(known))
    return Sequence(None, kind)


def _sorted(call: Invocation) -> Value:
    source = call.arguments[0] if call.arguments else UNKNOWN
    if isinstance(source, Sequence) and source.items is not None and not call.keywords:
        names = [item.value for item in source.items if isinstance(item, Text) and item.value is not None]
        if len(names) == len(source.items):
            return Sequence(tuple(map(Text, sorted(names))), "list")
    return Sequence(None, "list", iterated(source))


def _reversed(call: Invocation) -> Value:
    source = call.arguments[0] if call.arguments else UNKNOWN
    if isinstance(source, Sequence) and source.items is not None:
        return Sequence(source.items[::-1], "list")
    return Sequence(None, "list", iterated(source))


def _reduce(call: Invocation) -> Value:
    """``functools.reduce`` over a known sequence."""
    if len(call.arguments) not in (2, 3) or not call.exact:
        return UNKNOWN
    function, source, *initial = call.arguments
    if not isinstance(source, Sequence) or source.items is None or not 0 < len(source.items) + len(initial) <= 32:
        return UNKNOWN
    first, *rest = (*initial, *source.items)
    for item in rest:
        first = call.apply(function, first, item)
    return first


def _set_attribute(call: Invocation) -> Value:
    """``setattr``, ``object.__setattr__`` and ``delattr``."""
    match call.arguments:
        case (Instance() as owner, Text(value=str() as name), value) if "object" in call.name:
            call.interpreter.change(owner, with_attribute(owner, name, value), call.environment)
        case (Instance() as owner, *_):
            call.interpreter.change(owner, of_its_kind(owner), call.environment)
    return Constant(None)


def _get_attribute(call: Invocation) -> Value:
    match call.arguments:
        case (owner, Text(value=str() as name)):
            return attribute_of(call.interpreter, owner, name, call.environment)
        case (owner, Text(value=str() as name), default):
            return join(attribute_of(call.interpreter, owner, name, call.environment), default)
    return UNKNOWN


def _variables(call: Invocation) -> Value:
    """``vars``: what is changed in it is changed in the object."""
    _set_attribute(call)
    return UNKNOWN


def _slice(call: Invocation) -> Value:
    return Constant(slice(None)) if call.arguments else UNKNOWN


def _wraps(call: Invocation) -> Value:
    return JaxObject("functools.wraps()")


def _first_argument(call: Invocation) -> Value:
    return call.arguments[0] if call.arguments else UNKNOWN


def _from_entry(entry: Any) -> Value:
    if isinstance(entry, tuple):
        return Sequence(tuple(map(Text, entry)))
    return Constant(None) if entry is None else Text(entry)


def _dict(call: Invocation) -> Value:
    items: dict[Any, Value] = {}
    complete = call.exact
    if call.arguments:
        known = call.arguments[0]
        if isinstance(known, Dict):
            items.update(known.items)
            complete = complete and known.complete
        elif isinstance(known, Sequence) and known.items is not None and all(map(_is_pair, known.items)):
            result: Value = Dict(())
            for pair in known.items:
                assert isinstance(pair, Sequence) and pair.items is not None
                result = with_item(result, *pair.items)
            assert isinstance(result, Dict)
            items, complete = dict(result.items), complete and result.complete
        else:
            complete = False
    items.update(call.keywords)
    return Dict(tuple(items.items()), complete)


def _is_pair(value: Value) -> bool:
    return isinstance(value, Sequence) and value.items is not None and len(value.items) == 2 and value.kind != "set"


def _range(call: Invocation) -> Value:
    bounds = [argument.value for argument in call.arguments if isinstance(argument, Constant)]
    if len(bounds) == len(call.arguments) and all(isinstance(bound, int) for bound in bounds) and 1 <= len(bounds) <= 3:
        try:
            numbers = range(*bounds)
        except ValueError:
            return UNKNOWN
        if len(numbers) <= 16:
            return Sequence(tuple(map(Constant, numbers)), "range")
    return Sequence(None, "range", Number())


def _zip(call: Invocation) -> Value:
    known = [argument.items if isinstance(argument, Sequence) else None for argument in call.arguments]
    lists = [items for items in known if items is not None]
    if lists and len(lists) == len(known) and len({len(items) for items in lists}) == 1:
        return Sequence(tuple(Sequence(tuple(row)) for row in zip(*lists, strict=True)), "list")
    return Sequence(None, "list", Sequence(tuple(map(iterated, call.arguments))))


def _enumerate(call: Invocation) -> Value:
    if not call.arguments:
        return UNKNOWN
    match call.arguments[0]:
        case Sequence(items=tuple() as items) if len(call.arguments) == 1:
            return Sequence(tuple(Sequence((Constant(i), item)) for i, item in enumerate(items)), "list")
    return Sequence(None, "list", Sequence((Number(), iterated(call.arguments[0]))))


def _builtin_map(call: Invocation) -> Value:
    if len(call.arguments) != 2:
        return Sequence(None, "list")
    function, source = call.arguments
    if isinstance(source, Sequence) and source.items is not None and len(source.items) <= 16:
        return Sequence(tuple(call.apply(function, item) for item in source.items), "list")
    return Sequence(None, "list", call.apply(function, iterated(source)))


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "bool": bool, "abs": abs}


def _number(call: Invocation) -> Value:
    name = call.name.rpartition(".")[2]
    match call.arguments:
        case (Constant(value=int() | float() | bool() as known),) if len(call.arguments) == 1 and not call.keywords:
            try:
                return Constant(_CONVERSIONS[name](known))
            except (KeyError, ValueError, OverflowError):
                return Number()
    if name == "abs" and not (call.arguments and is_number(call.arguments[0])):
        return as_array(call.arguments[0]) if call.arguments else UNKNOWN
    return Number()


def _sum(call: Invocation) -> Value:
    if not call.arguments:
        return UNKNOWN
    source = call.arguments[0]
    start = call.get("start", 1) or Constant(0)
    if isinstance(source, Sequence) and source.items is not None and len(source.items) <= 32:
        total = start
        for item in source.items:
            total = rank_rules.binary(ast.Add(), leaf_of(total), leaf_of(item)) or (
                Number() if is_number(total) and is_number(item) else UNKNOWN
            )
        return total
    item = iterated(source)
    if is_number(item) and is_number(start):
        return Number()
    if isinstance(item, Array) and isinstance(source, Array):
        return item if item.rank.low > 0 or item.rank.exact == 0 else UNKNOWN
    if isinstance(item, Array) and isinstance(
        source, Sequence
    ):  # of unknown length: perhaps none, then the start alone
        return join(rank_rules.binary(ast.Add(), leaf_of(start), item) or UNKNOWN, start)
    return UNKNOWN


def _extreme(call: Invocation) -> Value:
    return Number() if call.arguments and all(map(is_number, call.arguments)) else UNKNOWN


def _isinstance(call: Invocation) -> Value:
    return Number()


def _text(call: Invocation) -> Value:
    return Text()


def _nothing(call: Invocation) -> Value:
    return Constant(None)


def _count(call: Invocation) -> Value:
    return Number()


def _devices(call: Invocation) -> Value:
    return Sequence(None, "list")


def _replace(call: Invocation) -> Value:
    if call.arguments and isinstance(call.arguments[0], Instance):
        known = dict(call.arguments[0].attributes) | dict(call.keywords)
        return replace(call.arguments[0], attributes=tuple(known.items()))
    return UNKNOWN


def _named_tuple(call: Invocation) -> Value:
    """``collections.namedtuple`` and ``typing.NamedTuple`` as functions."""
    match call.arguments:
        case (Text(value=str() as name), Sequence(items=tuple() as fields)) if not call.keywords:
            texts = [field.items[0] if isinstance(field, Sequence) and field.items else field for field in fields]
            names = tuple(text.value for text in texts if isinstance(text, Text) and text.value is not None)
        case (Text(value=str() as name), Text(value=str() as listed)) if not call.keywords:
            names = fields = tuple(listed.replace(",", " ").split())
        case _:
            return UNKNOWN
    if len(names) != len(fields) or not all(map(str.isidentifier, (name, *names))):
        return UNKNOWN
    return Class(call.environment.module, named_tuple(call.node, name, names))


def _limits(call: Invocation) -> Value:
    """``finfo`` and ``iinfo``."""
    return JaxObject(f"{call.name}()")


HANDLERS: dict[str, Callable[[Invocation], Value]] = {
    "jax.device_count": _count,
    "jax.local_device_count": _count,
    "jax.process_index": _count,
    "jax.process_count": _count,
    "jax.devices": _devices,
    "jax.local_devices": _devices,
    "jax.debug.print": _nothing,
    "jax.numpy.finfo": _limits,
    "jax.numpy.iinfo": _limits,
    "numpy.finfo": _limits,
    "numpy.iinfo": _limits,
    "collections.namedtuple": _named_tuple,
    "typing.NamedTuple": _named_tuple,
    "functools.partial": _partial,
    "functools.reduce": _reduce,
    "functools.wraps": _wraps,
    "functools.wraps()": _first_argument,
    "functools.update_wrapper": _first_argument,
    "dataclasses.replace": _replace,
    "builtins.len": _len,
    "builtins.tuple": _tuple_or_list,
    "builtins.list": _tuple_or_list,
    "builtins.sorted": _sorted,
    "builtins.reversed": _reversed,
    "builtins.set": _tuple_or_list,
    "builtins.frozenset": _tuple_or_list,
    "builtins.dict": _dict,
    "builtins.range": _range,
    "builtins.zip": _zip,
    "builtins.enumerate": _enumerate,
    "builtins.map": _builtin_map,
    "builtins.int": _number,
    "builtins.float": _number,
    "builtins.bool": _number,
    "builtins.abs": _number,
    "builtins.sum": _sum,
    "builtins.max": _extreme,
    "builtins.min": _extreme,
    "builtins.isinstance": _isinstance,
    "builtins.setattr": _set_attribute,
    "builtins.object.__setattr__": _set_attribute,
    "builtins.delattr": _set_attribute,
    "builtins.getattr": _get_attribute,
    "builtins.vars": _variables,
    "builtins.slice": _slice,
    "builtins.hasattr": _isinstance,
    "builtins.callable": _isinstance,
    "builtins.str": _text,
    "builtins.repr": _text,
    "builtins.print": _nothing,
}
"""What gives the result of a call, by the callee's name."""
