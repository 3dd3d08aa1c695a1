"""Results whose division JAX cannot tell from the operands: products over divided axes, gathers from divided arrays."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.semantics.gates import is_provoked
from shardfix.semantics.operand_shardings import placement
from shardfix.semantics.sharding_arguments import is_array

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

__all__ = ["AmbiguousResult", "ambiguous_results", "as_owner"]

CONTRACTIONS = frozenset({"jax.numpy.matmul", "jax.numpy.dot", "jax.lax.dot"})
"""Functions that contract the last axis of the one with the last but one of the other operand."""


@dataclass(frozen=True)
class AmbiguousResult:
    """An operation that JAX raises on, since it does not say how its result is to be divided."""

    node: ast.expr
    message: str
    remedy: str


def ambiguous_results(module: Module, target_jax: str | None) -> Iterator[AmbiguousResult]:
    """The products and gathers of a module whose operands leave open how the result is divided, where JAX then raises."""
    for product in module.nodes(ast.BinOp):
        if isinstance(product.op, ast.MatMult):
            yield from _product(module, product, product.left, product.right, target_jax)
    for call in module.calls_to(*CONTRACTIONS):
        node = call.node
        if len(node.args) >= 2 and not _has(node, "out_sharding") and not call.is_partial:
            yield from _product(module, node, node.args[0], node.args[1], target_jax)
    for call in module.calls_to("jax.numpy.einsum"):
        if not _has(call.node, "out_sharding") and not call.is_partial and len(call.node.args) == 3:
            yield from _einsum(module, call.node, target_jax)
    for subscript in module.nodes(ast.Subscript):
        if isinstance(subscript.ctx, ast.Load) and not isinstance(module.parent(subscript), ast.AnnAssign):
            yield from _gather(module, subscript, target_jax)


def _product(
    module: Module, node: ast.expr, left: ast.expr, right: ast.expr, target_jax: str | None
) -> Iterator[AmbiguousResult]:
    one = placement(module, left, target_jax)
    other = placement(module, right, target_jax) if one is not None else None
    if one is None or other is None or not one.rank or not other.rank or one.is_off or other.is_off:
        return
    first = one.dimension(one.rank - 1)
    second = other.dimension(max(other.rank - 2, 0))
    if first is None or second is None or is_provoked(module, node, caught=True):
        return
    yield _contraction(module, node, left, right, [first, second])


def _einsum(module: Module, node: ast.Call, target_jax: str | None) -> Iterator[AmbiguousResult]:
    subscripts = node.args[0]
    if not isinstance(subscripts, ast.Constant) or not isinstance(subscripts.value, str):
        return
    inputs, arrow, output = subscripts.value.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not arrow or len(terms) != 2 or "." in subscripts.value:
        return
    placed = [placement(module, operand, target_jax) for operand in node.args[1:]]
    if placed[0] is None or placed[1] is None:
        return
    for letter in sorted(set(terms[0]) & set(terms[1]) - set(output)):
        first, second = (
            where.dimension(term.index(letter)) for where, term in zip(placed, terms, strict=True) if where
        )
        if first is not None and second is not None and not is_provoked(module, node, caught=True):
            yield _contraction(module, node, node.args[1], node.args[2], [first, second])
            return


def _contraction(
    module: Module, node: ast.expr, left: ast.expr, right: ast.expr, axes: list[object]
) -> AmbiguousResult:
    by = " and ".join(f"`{axis}`" for axis in dict.fromkeys(axes))
    operands = f"`{module.text(left)}` and `{module.text(right)}`"
    message = f"how the product is divided is ambiguous: the axes of {operands} that are contracted both are, by {by}"
    how = "say it with out_sharding=P(...)"
    if isinstance(node, ast.BinOp):
        how = "say it with jnp.matmul(..., out_sharding=P(...)): the operator has no such argument"
    return AmbiguousResult(node, message, how)


def _gather(module: Module, node: ast.Subscript, target_jax: str | None) -> Iterator[AmbiguousResult]:
    table = placement(module, node.value, target_jax)
    if table is None or table.is_off:
        return
    index = node.slice
    ids = placement(module, index, target_jax)
    if isinstance(index, ast.Constant) and type(index.value) is int:
        if not is_array(module, node.value):
            return  # it may take an item of a tuple that lies there
    elif ids is None and not is_array(module, index):
        return
    divided = table.dimension(0)
    if (divided is None and not (ids is not None and ids.is_divided)) or is_provoked(module, node, caught=True):
        return
    text = module.text(node.value)
    what = (
        f"the axis of `{text}` that is indexed is divided, by `{divided}`"
        if divided is not None
        else (f"the indices of `{text}` are divided")
    )
    shown = module.text(index)
    reason = f"`{as_owner(text, node.value)}.at[{shown}].get(out_sharding=P(...))` says it"
    yield AmbiguousResult(node, f"how the result of the gather is divided is ambiguous: {what}", reason)


def _has(call: ast.Call, name: str) -> bool:
    return any(keyword.arg == name or keyword.arg is None for keyword in call.keywords)


def as_owner(text: str, node: ast.expr) -> str:
    """The text of an expression as it stands before a dot."""
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return text if simple else f"({text})"
