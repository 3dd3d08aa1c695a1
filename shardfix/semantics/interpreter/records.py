"""Classes of the project as records: dataclass fields, and the attributes that methods set."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from shardfix.semantics.values import Class

PLAIN_DECORATORS = frozenset(
    "register_pytree_node_class register_pytree_with_keys_class register_static final total_ordering runtime_checkable "
    "unique".split()
)
"""Decorators that give a class back as it is."""


def is_dataclass(cls: Class) -> bool:
    """Whether a class is made by ``@dataclass`` (of dataclasses, flax.struct, chex ...)."""
    return any("dataclass" in ast.unparse(decorator) for decorator in cls.node.decorator_list)


class FieldName(str):
    """A part of the path of a leaf that is the name of an attribute: of a named tuple or a dataclass."""

    __slots__ = ()


@dataclass(frozen=True)
class Field:
    """A field of a dataclass or named tuple."""

    name: str
    default: ast.expr | None
    positional: bool = True
    given: bool = True
    """Whether it may be given when the record is made."""


def record_fields(cls: Class) -> list[Field] | None:
    """The fields of a dataclass or NamedTuple, in order; None for other classes and for those that inherit fields."""
    bases = {ast.unparse(base).rpartition(".")[2] for base in cls.node.bases}
    if not is_dataclass(cls) and "NamedTuple" not in bases:
        return None
    if is_dataclass(cls) and cls.node.bases:
        return None
    positional = not any("kw_only=True" in ast.unparse(decorator) for decorator in cls.node.decorator_list)
    fields: list[Field] = []
    for statement in cls.node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        annotation = ast.unparse(statement.annotation)
        if annotation.endswith("KW_ONLY"):
            positional = False
        elif "ClassVar" not in annotation:
            options = {keyword.arg: keyword.value for keyword in getattr(statement.value, "keywords", ())}
            given = not _is_constant(options.get("init"), False)
            alone = positional and given and not _is_constant(options.get("kw_only"), True)
            fields.append(Field(statement.target.id, statement.value, alone, given))
    return fields


def leaf_names(cls: Class) -> tuple[str, ...] | None:
    """The attributes that are the children of an instance as a pytree; None where that is not in view."""
    flatten = own_method(cls, "tree_flatten")
    if flatten is not None:
        return _flattened_names(flatten)
    fields = record_fields(cls)
    if fields is None:
        return None
    names = tuple(field.name for field in fields)
    if not is_dataclass(cls):  # a named tuple
        return names
    for registration in _registrations(cls):
        return _data_fields(registration)
    decorators = list(map(ast.unparse, cls.node.decorator_list))
    if any("struct.dataclass" in text or "chex.dataclass" in text for text in decorators):
        return tuple(field.name for field in fields if "pytree_node=False" not in _options(field))
    if any(text.rpartition(".")[2] == "register_dataclass" for text in decorators):
        return tuple(field.name for field in fields if "static" not in _options(field))
    return None


def _options(field: Field) -> str:
    return "" if field.default is None else ast.unparse(field.default)


def _flattened_names(flatten: ast.FunctionDef) -> tuple[str, ...] | None:
    """The attributes in ``return (self.a, self.b), auxiliary``."""
    match flatten.body[-1]:
        case ast.Return(value=ast.Tuple(elts=[ast.Tuple(elts=children) | ast.List(elts=children), _])):
            attributes = [child for child in children if isinstance(child, ast.Attribute)]
            if len(attributes) == len(children) and all(isinstance(child.value, ast.Name) for child in attributes):
                return tuple(child.attr for child in attributes)
    return None


def _registrations(cls: Class) -> Iterator[ast.Call]:
    """Calls that register a dataclass with its fields listed: a decorator, or one that is given the class."""
    for decorator in cls.node.decorator_list:
        if isinstance(decorator, ast.Call) and "register_dataclass" in ast.unparse(decorator):
            yield decorator
    if "register_" in cls.module.source:
        for call in cls.module.nodes(ast.Call):
            first = call.args[0] if call.args else None
            if isinstance(first, ast.Name) and first.id == cls.node.name and "register_" in ast.unparse(call.func):
                yield call


def _data_fields(registration: ast.Call) -> tuple[str, ...] | None:
    """The ``data_fields`` of a registration."""
    given = next((keyword.value for keyword in registration.keywords if keyword.arg == "data_fields"), None)
    if given is None and len(registration.args) > 1:
        given = registration.args[1]
    if not isinstance(given, ast.List | ast.Tuple):
        return None
    names = [item.value for item in given.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return tuple(names) if len(names) == len(given.elts) else None


def _is_constant(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


@lru_cache(maxsize=1024)
def named_tuple(place: ast.expr, name: str, fields: tuple[str, ...]) -> ast.ClassDef:
    """The class that the call of ``namedtuple`` at ``place`` makes, as a class statement would make it."""
    body = "".join(f"    {field}: object\n" for field in fields) or "    pass\n"
    statement = ast.parse(f"class {name}(NamedTuple):\n{body}").body[0]
    assert isinstance(statement, ast.ClassDef)
    return statement


def is_plain_class(cls: Class) -> bool:
    """Whether a class is what its body says: no metaclass, and no decorator that may make another class of it."""
    if any(keyword.arg == "metaclass" and "ABCMeta" not in ast.unparse(keyword.value) for keyword in cls.node.keywords):
        return False
    return all(
        "dataclass" in text or text.partition("(")[0].rpartition(".")[2] in PLAIN_DECORATORS
        for text in map(ast.unparse, cls.node.decorator_list)
    )


def is_overridden(cls: Class, name: str) -> bool:
    """Whether a subclass in the same module has a member of that name of its own."""
    return any(name in cls.module.scopes[node].bindings or name in _self_assignments(node) for node in _subclasses(cls))


def _subclasses(cls: Class) -> list[ast.ClassDef]:
    """The classes of the same module that are based on this one, directly or not."""
    known, found = {cls.node.name}, []
    for node in cls.module.nodes(ast.ClassDef):
        if any(isinstance(base, ast.Name) and base.id in known for base in node.bases):
            known.add(node.name)
            found.append(node)
    return found


def has_decorator(node: ast.FunctionDef | ast.AsyncFunctionDef, *names: str) -> bool:
    return any(isinstance(decorator, ast.Name) and decorator.id in names for decorator in node.decorator_list)


def own_method(cls: Class, name: str) -> ast.FunctionDef | None:
    return next((node for node in cls.node.body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def all_self_assignments(cls: Class) -> dict[str, list[tuple[ast.FunctionDef, ast.expr]]]:
    """Where ``self.name`` is set in the methods of a class: the method and the value, for plain single assignments.

    Other ways to set it (augmented, unpacked, deleted) count as a second place, so that the attribute is not known.
    """
    return _self_assignments(cls.node)


@lru_cache(maxsize=128)
def _self_assignments(cls: ast.ClassDef) -> dict[str, list[tuple[ast.FunctionDef, ast.expr]]]:
    found: dict[str, list[tuple[ast.FunctionDef, ast.expr]]] = {}
    for function in cls.body:
        if not isinstance(function, ast.FunctionDef) or not function.args.args:
            continue
        own = function.args.args[0].arg
        statements = list(_statements(function))
        for node in statements:
            match node:
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr=attr)], value=value) if (
                    name == own
                ):
                    found.setdefault(attr, []).append((function, value))
                case ast.AnnAssign(
                    target=ast.Attribute(value=ast.Name(id=name), attr=attr), value=ast.expr() as value
                ) if name == own:
                    found.setdefault(attr, []).append((function, value))
        plain = {id(node) for places in found.values() for _, node in places}
        for node in statements:
            if isinstance(node, ast.Assign | ast.AnnAssign) and id(node.value) in plain:
                continue
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For)
                else []
            )
            for target in targets:
                for inner in ast.walk(target):
                    if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == own:
                        found.setdefault(inner.attr, []).append((function, ast.Constant(None)))
                        found[inner.attr].append((function, ast.Constant(None)))
    return found


def _statements(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The statements inside a function, at any depth, those of functions in it too."""
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            stack.extend(getattr(node, block, ()))


def self_assignments(cls: Class, name: str) -> list[tuple[ast.FunctionDef, ast.expr]]:
    return all_self_assignments(cls).get(name, [])
