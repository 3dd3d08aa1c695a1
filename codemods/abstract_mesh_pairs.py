"""`AbstractMesh` from pairs of name and size, as it was made before JAX 0.5.3.

What JAX says
    TypeError: AbstractMesh.__new__() missing 1 required positional argument: 'axis_names'

Why
    `AbstractMesh((("x", 4), ("y", 2)))` took one tuple of pairs. Since JAX 0.5.3 sizes and names are two arguments, in this
    order. Axes were Auto then; since 0.11.1 they are Explicit unless `axis_types` says otherwise, so that the repair says it.

Before
    from jax.sharding import AbstractMesh

    print(AbstractMesh((("x", 4), ("y", 2))))

After
    from jax.sharding import AbstractMesh, AxisType

    print(AbstractMesh((4, 2), axis_names=("x", "y"), axis_types=(AxisType.Auto,) * 2))

When it does not fix
    Where the pairs come out of a call that would have to be made twice, and where axis types are given in a dict that is not
    literal, the finding is only reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range
from shardfix.edits import Edit, RenameArgument, Replace, SetArgument, named
from shardfix.semantics.values import Sequence

if TYPE_CHECKING:
    from shardfix.semantics.calls import Argument, Call
    from shardfix.semantics.module import Module

OLD_TYPES = {"Hidden": "Auto", "Visible": "Explicit", "User": "Explicit", "Collective": "Manual"}
"""What the members of AxisTypes were called before JAX 0.5.1."""


@dataclass(frozen=True)
class _Axes:
    """The axes of a mesh, as code."""

    sizes: str
    names: str
    count: str
    literal_names: tuple[str, ...] | None = None


class AbstractMeshPairs(Codemod):
    """Gives sizes and names apart."""

    triggers: ClassVar[tuple[bytes, ...]] = (rb"AbstractMesh\b",)
    evidence: ClassVar[frozenset[str]] = frozenset({"missing-argument"})
    removed = "0.5.3"
    replacement_since = "0.5.3"

    def findings(self, module: Module) -> Iterator[Finding]:
        for call in module.calls_to("jax.sharding.AbstractMesh"):
            pairs = call.argument("shape_tuple", 0)
            if pairs is None or call.argument("axis_names", 1) is not None or call.is_partial:
                continue
            if call.has_hidden_arguments or module.is_compatibility_code(call.node):
                continue
            if module.resolve(call.function) != {call.dotted}:
                continue  # one of several functions, by the JAX that there is
            message = f"pairs of name and size make no AbstractMesh since JAX {self.removed}: sizes and names are two arguments"
            edits = _edits(module, call, pairs)
            if edits is None:
                reason = "the pairs are not in view; write AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * n)"
                yield self.finding(call.node, message, reason=reason)
            else:
                fix = Fix(edits, title="give sizes and names apart", needs_jax=self.replacement_since)
                yield self.finding(call.node, message, fix=fix)


def _edits(module: Module, call: Call, pairs: Argument) -> tuple[Edit, ...] | None:
    if not pairs.direct:
        return None
    axes = _axes(module, pairs.value)
    if axes is None:
        return None
    place = Range.of(call.node)
    edits: list[Edit] = [Replace(Range.of(pairs.value), axes.sizes), SetArgument(place, "axis_names", axes.names)]
    if pairs.name is not None:
        edits.append(RenameArgument(place, pairs.name, "axis_sizes"))
    types = call.argument("axis_types")
    axis_type = named("jax.sharding.AxisType")
    if types is None or (isinstance(types.value, ast.Constant) and types.value.value is None):
        edits.append(SetArgument(place, "axis_types", f"({axis_type}.Auto,) * {axes.count}"))
    elif isinstance(types.value, ast.Dict):
        kinds = _types_by_axis(types.value)
        if axes.literal_names is None or kinds is None or not set(axes.literal_names) <= kinds.keys():
            return None
        code = ", ".join(f"{axis_type}.{kinds[name]}" for name in axes.literal_names)
        edits.append(SetArgument(place, "axis_types", f"({code},)" if len(axes.literal_names) == 1 else f"({code})"))
    elif not isinstance(types.value, ast.Tuple | ast.BinOp):
        return None
    return tuple(edits)


def _axes(module: Module, pairs: ast.expr) -> _Axes | None:
    """Sizes and names out of the pairs; None where that cannot be written without running something twice."""
    match pairs:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            names, sizes = [], []
            for pair in elements:
                if not isinstance(pair, ast.Tuple | ast.List) or len(pair.elts) != 2:
                    return None
                names.append(pair.elts[0])
                sizes.append(pair.elts[1])
            literal = tuple(
                name.value for name in names if isinstance(name, ast.Constant) and isinstance(name.value, str)
            )
            return _Axes(
                _tuple([module.text(size) for size in sizes]),
                _tuple([module.text(name) for name in names]),
                str(len(elements)),
                literal if len(literal) == len(names) else None,
            )
        case ast.Attribute(attr="shape_tuple", value=mesh) if _is_plain(mesh):
            text = module.text(mesh)
            return _Axes(f"{text}.axis_sizes", f"{text}.axis_names", f"len({text}.axis_names)")
        case ast.Call(func=ast.Name(id="tuple"), args=[ast.Call() as items]):
            return _axes(module, items)
        case ast.Call(func=ast.Name(id="zip"), args=[names, sizes]) if _is_readable(names) and _is_readable(sizes):
            count = str(len(names.elts)) if isinstance(names, ast.Tuple | ast.List) else f"len({module.text(names)})"
            return _Axes(_as_tuple(module, sizes), _as_tuple(module, names), count)
        case ast.Call(func=ast.Attribute(attr="items", value=mapping), args=[]) if _is_plain(mapping):
            text = module.text(mapping)
            return _Axes(f"tuple({text}.values())", f"tuple({text})", f"len({text})")
        case _ if _is_plain(pairs):
            text = module.text(pairs)
            return _Axes(f"tuple(size for _, size in {text})", f"tuple(name for name, _ in {text})", f"len({text})")
    return None


def _is_readable(node: ast.expr) -> bool:
    return _is_plain(node) or (isinstance(node, ast.Tuple | ast.List) and not any(map(_is_starred, node.elts)))


def _is_starred(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred)


def _as_tuple(module: Module, node: ast.expr) -> str:
    if isinstance(node, ast.Tuple | ast.List):
        return _tuple([module.text(element) for element in node.elts])
    value = module.value_of(node)
    text = module.text(node)
    return text if isinstance(value, Sequence) and value.kind == "tuple" else f"tuple({text})"


def _is_plain(node: ast.expr) -> bool:
    """Whether reading it twice is the same as once: a name or an attribute chain."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _types_by_axis(types: ast.Dict) -> dict[str, str] | None:
    """The type of each axis from ``{AxisTypes.Auto: ("x", "y")}``; None where it is not literal."""
    found: dict[str, str] = {}
    for key, value in zip(types.keys, types.values, strict=True):
        if not isinstance(key, ast.Attribute):
            return None
        names = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
        for name in names:
            if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                return None
            found[name.value] = OLD_TYPES.get(key.attr, key.attr)
    return found


def _tuple(items: list[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
