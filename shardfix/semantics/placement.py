"""Arrays that are certainly not placed on a mesh, and the calls that hand them to mapped functions.

On a mesh with Explicit axes the sharding is part of an array's type, and ``in_specs`` of shard_map are an assertion about
it. What is made without a sharding (``jnp.ones(8)``, a numpy array) has none, and fails an ``in_specs`` that names an axis.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardfix.semantics.definitions import argument_for, bound_value, direct_calls, name_uses
from shardfix.semantics.flow import importers, readers, settled_bindings
from shardfix.semantics.values import Sequence, Spec, Value

if TYPE_CHECKING:
    from shardfix.semantics.calls import Call
    from shardfix.semantics.module import Module

__all__ = ["all_calls_of_result", "calls_of_function", "calls_of_result", "is_unplaced", "unplaced_argument"]

JITS = frozenset({"jax.jit", "jax.experimental.pjit.pjit", "jax.checkpoint", "jax.remat"})
PLACING = frozenset({"device", "out_sharding"})
ARRAY_METHODS = frozenset(
    "reshape astype sum mean min max prod squeeze ravel flatten transpose copy round clip cumsum".split()
)
MAX_DEPTH = 12


def unplaced_argument(module: Module, call: Call) -> ast.expr | None:
    """An argument, in some call in view of what a shard_map ``call`` gives, that fails the assertion of ``in_specs``."""
    in_specs = call.value("in_specs", 2)
    if in_specs is None:
        return None
    specs = module.value_of(in_specs)
    for site in calls_of_result(module, call.node):
        if any(isinstance(value, ast.Starred) for value in site.args):
            continue
        for index, argument in enumerate(site.args):
            spec = _spec_of(specs, index)
            if isinstance(spec, Spec) and spec.axes and is_unplaced(module, argument):
                return argument
    return None


def _spec_of(specs: Value, index: int) -> Value | None:
    if isinstance(specs, Sequence):
        return specs.items[index] if specs.items is not None and index < len(specs.items) else None
    return specs


def calls_of_result(module: Module, node: ast.expr) -> Iterator[ast.Call]:
    """The calls in view of the function that ``node`` gives: called at once, decorating, through a name or through jit."""
    for call in _sites(module, node, 0):
        if call is not None:
            yield call


def all_calls_of_result(module: Module, node: ast.expr) -> list[ast.Call] | None:
    """The calls of the function that ``node`` gives; None where some may be out of view."""
    found = list(_sites(module, node, 0))
    return None if None in found else [call for call in found if call is not None]


def calls_of_function(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Call | None]:
    """The calls of a function of the module; None for each use that is out of view."""
    for use in name_uses(module, function.name, function):
        parent = module.parent(use)
        yield parent if isinstance(parent, ast.Call) and parent.func is use else None
    if module.scope_of(function) is module.module_scope:
        yield from (None for _ in importers(module, {function.name}))
    if isinstance(module.parent(function), ast.ClassDef):
        yield None


def _sites(module: Module, node: ast.expr, depth: int) -> Iterator[ast.Call | None]:
    if depth > MAX_DEPTH:
        yield None
        return
    parent = module.parent(node)
    match parent:
        case ast.Call() if parent.func is node:
            if any(call.node is parent and call.earlier is not None for call in module.calls_at(parent)):
                yield from _sites(module, parent, depth + 1)  # it completes a partial
            else:
                yield parent
        case ast.Call() if parent.args and parent.args[0] is node and module.resolve(parent.func) & JITS:
            yield from _sites(module, parent, depth + 1)
        case ast.FunctionDef() | ast.AsyncFunctionDef() if node in parent.decorator_list:
            yield from calls_of_function(module, parent)
        case ast.Assign(targets=[ast.Name() as target]):
            for use, sure in readers(module, target, target.id):
                if sure:
                    yield from _sites(module, use, depth + 1)
                else:
                    yield None
            if module.scope_of(target) is module.module_scope:
                yield from (None for _ in importers(module, {target.id}))
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(), attr=name)]):
            for attribute in module.nodes(ast.Attribute):
                if attribute.attr == name and isinstance(attribute.ctx, ast.Load):
                    yield from _sites(module, attribute, depth + 1)
            own = os.path.abspath(module.path)
            if any(os.path.abspath(path) != own for path in module.project.mentioning(f".{name}")):
                yield None
        case ast.Return():
            function = module.enclosing(parent, ast.FunctionDef, ast.AsyncFunctionDef)
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function.decorator_list:
                yield None
                return
            for call in calls_of_function(module, function):
                if call is None:
                    yield None
                else:
                    yield from _sites(module, call, depth + 1)
        case ast.Attribute(attr="lower" | "eval_shape" | "trace"):
            yield from _sites(module, parent, depth + 1)
        case _:
            yield None


def is_unplaced(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression certainly gives, in some call in view, an array that is placed on no mesh."""
    if depth > MAX_DEPTH:
        return False
    match node:
        case ast.Constant(value=int() | float() | complex()):
            return depth > 0
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return depth > 0 and all(is_unplaced(module, element, depth + 1) for element in elements)
        case ast.BinOp(left=left, right=right):
            return is_unplaced(module, left, depth + 1) and is_unplaced(module, right, depth + 1)
        case ast.UnaryOp(operand=operand):
            return is_unplaced(module, operand, depth + 1)
        case ast.Call():
            return _makes_unplaced(module, node, depth)
        case ast.Name():
            return _is_bound_unplaced(module, node, depth)
    return False


def _makes_unplaced(module: Module, call: ast.Call, depth: int) -> bool:
    names = module.resolve(call.func)
    if any(keyword.arg is None or keyword.arg in PLACING for keyword in call.keywords):
        return False
    if not names:
        return (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in ARRAY_METHODS
            and is_unplaced(module, call.func.value, depth + 1)
        )
    if all(name.startswith(("numpy.", "jax.random.")) for name in names):
        return True
    if not all(name.startswith("jax.numpy.") for name in names):
        return False
    operands = [value for value in call.args if not _is_static(module, value)]
    return all(is_unplaced(module, value, depth + 1) for value in operands)


def _is_static(module: Module, node: ast.expr) -> bool:
    """Whether an argument is a shape, a dtype, a string or the like: no array that could be placed."""
    match node:
        case ast.Constant():
            return True
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return all(_is_static(module, element) for element in elements)
        case ast.Attribute():
            return any(name.startswith(("jax.numpy.", "numpy.")) for name in module.resolve(node)) or node.attr in (
                "shape",
                "dtype",
            )
        case ast.Call():
            return module.resolve(node.func) <= {"builtins.len", "builtins.int", "jax.device_count"} != frozenset()
        case ast.BinOp(left=left, right=right):
            return _is_static(module, left) and _is_static(module, right)
    return False


def _is_bound_unplaced(module: Module, name: ast.Name, depth: int) -> bool:
    bindings = settled_bindings(module, name)
    if not bindings:
        return False
    found = []
    for binding in bindings:
        value = bound_value(binding)
        if value is not None:
            found.append(is_unplaced(module, value, depth + 1))
        elif binding.kind == "parameter" and isinstance(binding.statement, ast.FunctionDef):
            function = binding.statement
            bound = isinstance(module.parent(function), ast.ClassDef)
            arguments = [argument_for(function, call, name.id, bound=bound) for call in direct_calls(module, function)]
            found.append(
                any(argument is not None and is_unplaced(module, argument, depth + 1) for argument in arguments)
            )
        else:
            found.append(False)
    return all(found)
