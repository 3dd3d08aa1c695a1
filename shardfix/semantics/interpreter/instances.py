"""Instances of the project's classes, as a call of the class makes them."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from shardfix.semantics.interpreter.aliases import of_its_kind
from shardfix.semantics.interpreter.bindings import class_surroundings
from shardfix.semantics.interpreter.invocation import Arguments
from shardfix.semantics.interpreter.records import is_plain_class, own_method, record_fields
from shardfix.semantics.interpreter.shardings import field_default
from shardfix.semantics.interpreter.trace import Environment
from shardfix.semantics.values import UNKNOWN, Class, Constant, Function, Instance, Value

if TYPE_CHECKING:
    from shardfix.semantics.interpreter.core import Interpreter


def instantiate(interpreter: Interpreter, cls: Class, given: Arguments) -> Value:
    """A call of a class."""
    if not _makes_plainly(interpreter, cls):
        interpreter.let_go(given, class_surroundings(cls))
        return UNKNOWN
    if not given.exact:
        interpreter.let_go(given, class_surroundings(cls))
        return Instance(cls, changed=True)
    if record_fields(cls) is not None and own_method(cls, "__init__") is None:
        instance = Instance(cls, tuple(_field_values(interpreter, cls, given).items()))
        after = own_method(cls, "__post_init__")
        return instance if after is None else _initialised(interpreter, cls, after, instance, Arguments())
    maker, init = _initialiser(interpreter, cls)
    if init is None:
        interpreter.let_go(given, class_surroundings(cls))
        return Instance(cls, changed=bool(given.positional or given.keywords))
    return _initialised(interpreter, maker, init, Instance(cls), given)


def _makes_plainly(interpreter: Interpreter, cls: Class, depth: int = 0) -> bool:
    """Whether a call of the class makes an instance of it, and hands the arguments to ``__init__`` alone."""
    if not is_plain_class(cls) or own_method(cls, "__new__") is not None or depth > 5:
        return False
    bases = (interpreter.evaluate(base, class_surroundings(cls)) for base in cls.node.bases)
    return all(_makes_plainly(interpreter, base, depth + 1) for base in bases if isinstance(base, Class))


def _field_values(interpreter: Interpreter, cls: Class, given: Arguments) -> dict[str, Value]:
    """The fields of a new record."""
    values: dict[str, Value] = {}
    left = list(given.positional)
    for field in record_fields(cls) or ():
        if field.positional and left:
            values[field.name] = left.pop(0)
        elif field.name in given.keywords and field.given:
            values[field.name] = given.keywords[field.name]
        elif field.default is not None:
            values[field.name] = field_default(interpreter, field.default, class_surroundings(cls))
    return values


def _initialised(
    interpreter: Interpreter, maker: Class, init: ast.FunctionDef, instance: Instance, given: Arguments
) -> Value:
    """A new instance after a method of ``maker`` has set it up."""
    if init.decorator_list:
        interpreter.let_go(given, class_surroundings(maker))
        return replace(instance, changed=True)
    holder = Environment(maker.module, maker.module.module_scope, None, {"": instance})
    interpreter.frames.append(holder)
    try:
        function = Function(maker.module, init, class_surroundings(maker), instance)
        run = interpreter.run(function, given)
    finally:
        interpreter.frames.pop()
    made = holder.variables[""]
    return made if run.result == Constant(None) else of_its_kind(made)


def _initialiser(interpreter: Interpreter, cls: Class) -> tuple[Class, ast.FunctionDef | None]:
    """The class, of this one and its first bases, that has the ``__init__``."""
    for _ in range(5):
        init = own_method(cls, "__init__")
        if init is not None or len(cls.node.bases) != 1:
            return cls, init
        base = interpreter.evaluate(cls.node.bases[0], class_surroundings(cls))
        if not isinstance(base, Class) or record_fields(base) is not None:
            return cls, None
        cls = base
    return cls, None
