"""What is known of a value: the domain of the abstract interpreter.

Every class is a frozen dataclass; a value says only what is certain on every path. ``UNKNOWN`` says nothing.
Ranks are numbers of array axes; "varying" is meant as in JAX's varying manual axes (``jax.typeof(x).manual_axis_type``).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardfix.semantics.interpreter import Environment
    from shardfix.semantics.module import Module

__all__ = [
    "ANY_RANK",
    "INVARIANT",
    "OUTER",
    "UNKNOWN",
    "UNKNOWN_VARYING",
    "Array",
    "BoundMethod",
    "Class",
    "Constant",
    "Dict",
    "Function",
    "Instance",
    "JaxObject",
    "Mapped",
    "Mesh",
    "ModuleValue",
    "Number",
    "Origin",
    "Partial",
    "Rank",
    "Sequence",
    "Sharding",
    "Spec",
    "Super",
    "Text",
    "Transformed",
    "Tree",
    "Unknown",
    "Value",
    "Varying",
    "as_array",
    "is_number",
    "join",
    "join_all",
]


@dataclass(frozen=True)
class Rank:
    """The number of axes of an array: at least ``low``, at most ``high`` (None: no bound known)."""

    low: int = 0
    high: int | None = None

    @classmethod
    def exactly(cls, rank: int) -> Rank:
        return cls(rank, rank)

    @property
    def exact(self) -> int | None:
        """The rank where it is known, else None."""
        return self.low if self.low == self.high else None

    def plus(self, count: int) -> Rank:
        """The rank after ``count`` axes more (or fewer)."""
        return Rank(max(0, self.low + count), None if self.high is None else max(0, self.high + count))

    def join(self, other: Rank) -> Rank:
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Rank(min(self.low, other.low), high)

    def meet(self, other: Rank) -> Rank:
        """The rank of which both hold; where they contradict each other, either."""
        highs = [high for high in (self.high, other.high) if high is not None]
        both = Rank(max(self.low, other.low), min(highs, default=None))
        return both if both.high is None or both.low <= both.high else self.join(other)

    def broadcast(self, other: Rank) -> Rank:
        """The rank of the two operands broadcast together."""
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Rank(max(self.low, other.low), high)

    def __str__(self) -> str:
        if self.exact is not None:
            return f"rank {self.low}"
        if self.high is None:
            return f"rank at least {self.low}" if self.low else "unknown rank"
        return f"rank {self.low} to {self.high}"


ANY_RANK = Rank()


@dataclass(frozen=True)
class Varying:
    """The mesh axes that a value varies over: certainly ``at_least`` these, and none but ``at_most`` (None: no bound known).

    In ``at_most`` there may be :data:`OUTER`.
    """

    at_least: frozenset[str] = frozenset()
    at_most: frozenset[str] | None = frozenset()

    @classmethod
    def over(cls, axes: Iterable[str]) -> Varying:
        axes = frozenset(axes)
        return cls(axes, axes)

    @property
    def exact(self) -> frozenset[str] | None:
        return self.at_least if self.at_least == self.at_most else None

    def union(self, other: Varying) -> Varying:
        """What depends on both varies over the axes of either."""
        most = None if self.at_most is None or other.at_most is None else self.at_most | other.at_most
        return Varying(self.at_least | other.at_least, most)

    def without(self, axes: frozenset[str]) -> Varying:
        """After a reduction over ``axes``."""
        return Varying(self.at_least - axes, None if self.at_most is None else self.at_most - axes)

    def join(self, other: Varying) -> Varying:
        """Either of the two, by the path taken."""
        most = None if self.at_most is None or other.at_most is None else self.at_most | other.at_most
        return Varying(self.at_least & other.at_least, most)


OUTER = "*"
"""Stands for all mesh axes of maps around the one that is looked at, of which nothing is known."""
INVARIANT = Varying()
UNKNOWN_VARYING = Varying(frozenset(), None)


@dataclass(frozen=True)
class Origin:
    """Where a fact comes from: ``note`` says it in words, ``cause`` is the fact that it follows from."""

    path: str
    line: int
    note: str
    cause: Origin | None = None


@dataclass(frozen=True)
class Value:
    """Base of all values."""


@dataclass(frozen=True)
class Unknown(Value):
    """Nothing is known."""


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Array(Value):
    """A JAX or numpy array, or a scalar of theirs."""

    rank: Rank = ANY_RANK
    varying: Varying = UNKNOWN_VARYING
    reduced: frozenset[str] = frozenset()
    """Mesh axes over which a collective (psum, pmean, pmax, ...) has made it the same on all devices."""
    origin: Origin | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Tree(Value):
    """An array like ``leaf``, or a pytree of unknown structure all of whose leaves are like it."""

    leaf: Array


@dataclass(frozen=True)
class Constant(Value):
    """A known Python value: number, bool, None, Ellipsis, bytes, slice, dtype. (Strings are :class:`Text`.)"""

    value: Any


@dataclass(frozen=True)
class Number(Value):
    """A Python int, float, complex or bool whose value is not known (``x.shape[0]``, ``len(xs)``)."""


@dataclass(frozen=True)
class Text(Value):
    """A string; ``value`` is None where only the type is known."""

    value: str | None = None


@dataclass(frozen=True)
class Sequence(Value):
    """A tuple or list. ``items`` is None where the length is unknown; then every item is a ``rest``."""

    items: tuple[Value, ...] | None
    kind: str = "tuple"
    rest: Value = UNKNOWN


@dataclass(frozen=True)
class Dict(Value):
    """A dict with constant keys. ``complete`` is False where it may have further entries."""

    items: tuple[tuple[Any, Value], ...]
    complete: bool = True

    def get(self, key: Any) -> Value | None:
        """The value under ``key``; None where it is not known to be there."""
        for name, value in self.items:
            if name == key and type(name) is type(key):
                return value
        return None


@dataclass(frozen=True)
class Spec(Value):
    """A ``PartitionSpec``. An entry is None, an axis name, or a tuple of axis names; ``...`` stands for one unknown entry.

    ``entries`` is None where the length is unknown. ``special`` is True for specs with ``unreduced``/``reduced`` axes.
    """

    entries: tuple[Any, ...] | None
    special: bool = False

    @property
    def axes(self) -> frozenset[str] | None:
        """The mesh axes that the spec names; None where an entry is unknown."""
        if self.entries is None or any(entry is ... for entry in self.entries):
            return None
        names: set[str] = set()
        for entry in self.entries:
            if isinstance(entry, tuple):
                names.update(entry)
            elif entry is not None:
                names.add(entry)
        return frozenset(names)


@dataclass(frozen=True)
class Mesh(Value):
    """A device mesh. ``axes`` are the axis names in order, ``sizes`` their lengths (None entries unknown),
    ``types`` one of "Auto", "Explicit", "Manual" for each; each is None where it is not known.

    ``default_types`` is True where the axis types are make_mesh's default, which JAX 0.9 changed.
    """

    axes: tuple[str, ...] | None = None
    sizes: tuple[int | None, ...] | None = None
    types: tuple[str, ...] | None = None
    default_types: bool = False
    abstract: bool = False


@dataclass(frozen=True)
class Sharding(Value):
    """A ``NamedSharding``."""

    mesh: Value = UNKNOWN
    spec: Value = UNKNOWN


@dataclass(frozen=True)
class Function(Value):
    """A function or lambda of the project, with the environment it closes over."""

    module: Module = field(repr=False)
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda = field(repr=False)
    environment: Environment | None = field(default=None, compare=False, repr=False)
    bound_self: Value | None = None
    defaults: tuple[tuple[str, Value], ...] = field(default=(), compare=False, repr=False)
    """Default arguments as they were when the function was defined, where that moment is known."""

    @property
    def name(self) -> str:
        return "<lambda>" if isinstance(self.node, ast.Lambda) else self.node.name


@dataclass(frozen=True)
class Class(Value):
    """A class of the project."""

    module: Module = field(repr=False)
    node: ast.ClassDef = field(repr=False)
    open: bool = False
    """Whether it may as well be a subclass of that."""


@dataclass(frozen=True)
class Instance(Value):
    """An instance of a class of the project, with the attributes that are known."""

    cls: Class
    attributes: tuple[tuple[str, Value], ...] = ()
    changed: bool = False
    """Whether attributes that are not among these may have been set by code that is not followed."""

    def get(self, name: str) -> Value | None:
        return dict(self.attributes).get(name)


@dataclass(frozen=True)
class Super(Value):
    """``super()`` in a method of ``cls``: the attributes of ``owner`` as its base classes define them."""

    cls: Class
    owner: Instance


@dataclass(frozen=True)
class JaxObject(Value):
    """A function, class or constant of JAX, numpy or the standard library, by its full dotted name."""

    dotted: str


@dataclass(frozen=True)
class ModuleValue(Value):
    """A module of the project, by its path."""

    path: str


@dataclass(frozen=True)
class Partial(Value):
    """``functools.partial(function, *arguments, **keywords)``."""

    function: Value
    arguments: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True)
class BoundMethod(Value):
    """A method of an array or of another known value."""

    owner: Value
    name: str


@dataclass(frozen=True)
class Transformed(Value):
    """The result of a function transform such as ``jax.jit`` or ``jax.vmap`` on ``function``."""

    transform: str
    function: Value
    arguments: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True)
class Mapped(Value):
    """The result of shard_map or smap on ``function``."""

    site: MapSite = field(repr=False)
    function: Value


@dataclass(frozen=True)
class MapSite:
    """One evaluation of a call of shard_map or smap, with what is known of its arguments."""

    module: Module = field(repr=False)
    call: ast.Call = field(repr=False)
    api: str = "jax.shard_map"
    mesh: Value = UNKNOWN
    in_specs: Value = UNKNOWN
    """For smap: ``in_axes`` turned into specs."""
    out_specs: Value = UNKNOWN
    axis_names: frozenset[str] | None = None
    """The manual axes; None where unknown."""
    whole: bool = False
    """Whether certainly all axes of the mesh are manual, so that no other map is around this one."""
    checked: bool | None = None
    """Whether replication is checked (``check_vma``, ``check_rep``); None where unknown."""


SHARD_MAPS = ("jax.shard_map", "jax.experimental.shard_map.shard_map")
"""Both homes of shard_map; what is called as the first is may be called as the second is, too."""


def join(a: Value, b: Value) -> Value:
    """What holds of both: the value where two paths meet."""
    if a == b:
        return a
    match a, b:
        case Array(), Array():
            return Array(a.rank.join(b.rank), a.varying.join(b.varying), a.reduced & b.reduced, a.origin or b.origin)
        case Array(), Constant() | Number() if is_number(b):
            return Array(a.rank.join(Rank.exactly(0)), a.varying.join(INVARIANT), frozenset(), a.origin)
        case Tree() | Array(), Tree() | Array():
            return Tree(as_array(join(as_array(a), as_array(b))))
        case Constant() | Number(), Array() if is_number(a):
            return join(b, a)
        case (Constant() | Number(), Constant() | Number()) if is_number(a) and is_number(b):
            return Number()
        case Text(), Text():
            return Text()
        case Sequence(), Sequence() if a.kind == b.kind:
            if a.items is not None and b.items is not None and len(a.items) == len(b.items):
                return replace(a, items=tuple(map(join, a.items, b.items)))
            return Sequence(None, a.kind, join_all([*_all_items(a), *_all_items(b)]))
        case Dict(), Dict():
            keys = [key for key, _ in a.items if b.get(key) is not None]
            both = tuple((key, join(a.get(key) or UNKNOWN, b.get(key) or UNKNOWN)) for key in keys)
            return Dict(both, a.complete and b.complete and len(keys) == len(a.items) == len(b.items))
        case Spec(), Spec() if a.entries is not None and b.entries is not None and len(a.entries) == len(b.entries):
            entries = tuple(x if x == y else ... for x, y in zip(a.entries, b.entries, strict=True))
            return Spec(entries, a.special or b.special)
        case Spec(), Spec():
            return Spec(None, a.special or b.special)
        case Mesh(), Mesh():
            return Mesh(
                a.axes if a.axes == b.axes else None,
                a.sizes if a.axes == b.axes and a.sizes == b.sizes else None,
                a.types if a.axes == b.axes and a.types == b.types else None,
                a.default_types and b.default_types,
                a.abstract and b.abstract,
            )
        case JaxObject(), JaxObject() if a.dotted in SHARD_MAPS and b.dotted in SHARD_MAPS:
            return JaxObject(SHARD_MAPS[1])
        case Instance(), Instance() if a.cls == b.cls:
            names = dict.fromkeys(name for name, _ in (*a.attributes, *b.attributes))
            attributes = ((name, join(a.get(name) or UNKNOWN, b.get(name) or UNKNOWN)) for name in names)
            return Instance(a.cls, tuple(attributes), a.changed or b.changed)
    return UNKNOWN


def join_all(values: Iterable[Value]) -> Value:
    """The join of all; UNKNOWN for none."""
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return UNKNOWN if result is None else result


def as_array(value: Value) -> Array:
    """The array that a value is when it is used as one: a number has rank 0, what is unknown has any rank."""
    match value:
        case Array():
            return value
        case Tree():
            return value.leaf
        case _ if is_number(value):
            return Array(Rank.exactly(0), INVARIANT)
    return Array()


def is_number(value: Value) -> bool:
    """Whether a value is a Python number."""
    return isinstance(value, Number) or (
        isinstance(value, Constant) and isinstance(value.value, int | float | complex) and value.value is not None
    )


def _all_items(sequence: Sequence) -> tuple[Value, ...]:
    return sequence.items if sequence.items is not None else (sequence.rest,)


def map_leaves(function: Callable[[Value], Value], value: Value) -> Value:
    """``value`` with ``function`` applied to each leaf of its pytree."""
    match value:
        case Sequence(items=None):
            return replace(value, rest=map_leaves(function, value.rest))
        case Sequence(items=tuple() as items):
            return replace(value, items=tuple(map_leaves(function, item) for item in items))
        case Dict():
            return replace(value, items=tuple((key, map_leaves(function, item)) for key, item in value.items))
        case Constant(value=None):
            return value
        case Instance():
            attributes = tuple((name, map_leaves(function, item)) for name, item in value.attributes)
            return replace(value, attributes=attributes)
    return function(value)
