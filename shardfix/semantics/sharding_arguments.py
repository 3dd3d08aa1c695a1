"""Every argument of a module that JAX reads as a sharding, a device or a PartitionSpec.

Calls of JAX's functions are found by name; methods of arrays (``x.reshape(..., out_sharding=)``, ``x.at[i].get(...)``)
and the functions that ``jax.nn.initializers`` make have no name that says whose they are, and are found by what they
are called on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfix.semantics.contexts import Context
from shardfix.semantics.definitions import argument_for, attributes_named, direct_calls
from shardfix.semantics.jax_api import Parameter, Takes, out_sharding_parameter, sharding_callables, sharding_parameters
from shardfix.semantics.meshes import mesh_view
from shardfix.semantics.values import UNKNOWN, Array, Tree

if TYPE_CHECKING:
    from shardfix.semantics.calls import Call
    from shardfix.semantics.module import Module
    from shardfix.semantics.readings import Reading

__all__ = ["ShardingArgument", "is_array", "sharding_arguments"]

AT_METHODS = frozenset("add apply divide get max min mul multiply power set subtract".split())
ARRAY_METHODS = frozenset("flatten ravel repeat reshape".split())
TOP_LEVEL_ALL_GATHER = "jax._src.shard_map.top_level_all_gather"
PRIVATE = {TOP_LEVEL_ALL_GATHER: Parameter("out_sharding", Takes.SHARDING, 1, "0.9.2")}
NOT_ARRAYS = frozenset(
    {"jax.numpy.shape", "jax.numpy.ndim", "jax.numpy.dtype", "jax.numpy.iinfo", "jax.numpy.finfo", "jax.devices"}
)
ARRAY_MODULES = ("jax.numpy.", "jax.lax.", "jax.random.", "jax.nn.", "jax.scipy.", "jax.ops.")
PLACING = frozenset({"jax.device_put", "jax.reshard", "jax.sharding.reshard", "jax.lax.with_sharding_constraint"})
"""Give back what they are given: an array, or a pytree."""
NOT_JITTED = frozenset({"jit"})


@dataclass(frozen=True, eq=False)
class ShardingArgument:
    """An argument that JAX reads as a sharding, a device or a spec."""

    api: str
    """The callable's dotted name, as in ``jax_api.toml``."""
    parameter: Parameter
    node: ast.Call
    """The call it belongs to (the ``partial(...)``, where it is given to one)."""
    function: ast.expr
    """The expression that names the callee."""
    value: ast.expr
    index: int | None
    """Its position among the arguments written in ``node``; None for a keyword."""
    in_call: bool = True
    """Whether it is written in ``node`` itself, and not in a dict that ``**`` spreads there."""
    is_partial: bool = False
    certain: bool = True
    """Whether the callee is certainly JAX's; False for a method of an object that is not in view."""
    call: Call | None = None
    readings: Mapping[ast.expr, Reading] = field(default_factory=dict)
    """What is known of parts of the value beyond what :func:`shardfix.semantics.readings.read` sees."""

    def context(self, module: Module) -> Context:
        """The mesh contexts in which JAX gets the argument."""
        view = mesh_view(module)
        return view.contexts.context_of_calls(self.node) if self.is_partial else view.context(self.node)

    @property
    def name(self) -> str:
        """The callee as users write it: ``jnp.zeros``."""
        return self.api.replace("jax.numpy.", "jnp.").removeprefix("jax.Array.").removeprefix("jax._src.shard_map.")


def sharding_arguments(module: Module) -> Iterator[ShardingArgument]:
    """All of them, in no particular order. ``device=`` and ``backend=`` of jit are left out: they take no sharding."""
    for api in sorted(module.called_names & (sharding_callables() | PRIVATE.keys())):
        for call in module.calls_to(api):
            for parameter in sharding_parameters(api) or (PRIVATE[api],):
                if parameter.takes is Takes.MESH or (parameter.name == "device" and api.endswith("jit")):
                    continue
                yield from _given(module, call, parameter)
    yield from _method_arguments(module)
    yield from _initializer_arguments(module)


def _given(module: Module, call: Call, parameter: Parameter) -> Iterator[ShardingArgument]:
    argument = call.argument(parameter.name, parameter.position)
    if argument is None or (
        isinstance(argument.owner, ast.Call) and argument.owner is not call.node and argument.name is None
    ):
        return
    if not argument.direct and call.earlier is not None:
        own = call.earlier.argument(parameter.name, parameter.position)
        if own is not None and own.value is argument.value:
            return  # the partial is a call of its own
    index = None
    if argument.name is None and argument.direct:
        index = call.node.args.index(argument.value)
    yield ShardingArgument(
        call.dotted,
        parameter,
        call.node,
        call.function,
        argument.value,
        index,
        argument.direct,
        call.is_partial,
        True,
        call,
    )


def _method_arguments(module: Module) -> Iterator[ShardingArgument]:
    """``x.at[i].get(out_sharding=...)``, and the methods of arrays that take ``out_sharding``."""
    for node in module.nodes(ast.Call):
        match node.func:
            case ast.Attribute(attr=method, value=ast.Subscript(value=ast.Attribute(attr="at"))) if (
                method in AT_METHODS
            ):
                api, certain = f"jax.Array.at[...].{method}", True
            case ast.Attribute(attr=method, value=owner) if method in ARRAY_METHODS and not module.resolve(node.func):
                api = f"jax.Array.{method}"
                known = (
                    is_array(module, owner)
                    if any(keyword.arg == "out_sharding" for keyword in node.keywords)
                    else False
                )
                if known is False:
                    continue
                certain = bool(known) or _is_traced(module, owner)
            case _:
                continue
        value = next((keyword.value for keyword in node.keywords if keyword.arg == "out_sharding"), None)
        parameter = out_sharding_parameter(api)
        if value is not None and parameter is not None:
            yield ShardingArgument(api, parameter, node, node.func, value, None, certain=certain)


def _initializer_arguments(module: Module) -> Iterator[ShardingArgument]:
    """The sharding given to what ``jax.nn.initializers.normal()`` and kin return."""
    if not any(name.startswith("jax.nn.initializers.") for name in module.called_names):
        return
    for node in module.nodes(ast.Call):
        for factory in _made_by(module, node.func):
            parameter = out_sharding_parameter(f"{factory}()")
            if parameter is None or parameter.position is None:
                continue
            value = next((keyword.value for keyword in node.keywords if keyword.arg == "out_sharding"), None)
            index = None
            if value is None and len(node.args) > parameter.position:
                if not any(isinstance(argument, ast.Starred) for argument in node.args):
                    index = parameter.position
                    value = node.args[index]
            if value is not None:
                yield ShardingArgument(f"{factory}()", parameter, node, node.func, value, index)


def _made_by(module: Module, function: ast.expr, depth: int = 0) -> frozenset[str]:
    """The callables whose result a called expression is."""
    if isinstance(function, ast.Call):
        return frozenset(name for name in module.resolve(function.func) if name.startswith("jax.nn.initializers."))
    if isinstance(function, ast.Name) and depth < 4:
        bindings = module.reaching(function)
        if bindings and len(bindings) == 1 and bindings[0].value is not None and not bindings[0].path:
            return _made_by(module, bindings[0].value, depth + 1)
    return frozenset()


def is_array(module: Module, expression: ast.expr, depth: int = 0) -> bool | None:
    """Whether an expression gives a JAX array: True or False where that is certain, None where it is not."""
    if depth > 12:
        return None
    match expression:
        case ast.Call(func=function):
            names = module.resolve(function)
            if names:
                if names <= NOT_ARRAYS:
                    return False
                if names <= PLACING:
                    return is_array(module, expression.args[0], depth + 1) if expression.args else None
                return True if all(name.startswith(ARRAY_MODULES) for name in names) else None
            if isinstance(function, ast.Attribute) and is_array(module, function.value, depth + 1):
                return True
        case ast.BinOp(left=left, right=right):
            if is_array(module, left, depth + 1) or is_array(module, right, depth + 1):
                return True
        case ast.UnaryOp(operand=operand) if not isinstance(expression.op, ast.Not):
            return is_array(module, operand, depth + 1)
        case ast.Subscript(value=owner):
            if is_array(module, owner, depth + 1):
                return True
        case ast.Attribute(value=owner, attr="T" | "mT" | "at" | "real" | "imag"):
            return is_array(module, owner, depth + 1)
        case ast.IfExp(body=body, orelse=orelse):
            return True if is_array(module, body, depth + 1) and is_array(module, orelse, depth + 1) else None
        case ast.Constant() | ast.Tuple() | ast.List() | ast.Dict() | ast.JoinedStr() | ast.Lambda():
            return False
        case ast.Name():
            return _name_is_array(module, expression, depth)
        case ast.Attribute() if isinstance(module.value_of(expression), Array | Tree):
            return True
    value = module.value_of(expression)
    if isinstance(value, Array):
        return True
    return None if isinstance(value, Tree) or value == UNKNOWN else False


def _name_is_array(module: Module, name: ast.Name, depth: int) -> bool | None:
    bindings = module.reaching(name)
    if not bindings:
        return None
    found: list[bool | None] = []
    for binding in bindings:
        if binding.kind == "assignment" and binding.value is not None and not binding.path:
            found.append(is_array(module, binding.value, depth + 1))
        elif binding.kind == "parameter" and isinstance(binding.node, ast.arg):
            found.append(_parameter_is_array(module, binding.node, binding.statement))
        else:
            found.append(None)
    return True if all(found) else None


def _parameter_is_array(module: Module, argument: ast.arg, function: ast.AST) -> bool | None:
    """Whether a parameter is used as an array: annotated as one, or handed to JAX's functions of arrays."""
    if argument.annotation is not None:
        text = ast.unparse(argument.annotation)
        return True if text.rpartition(".")[2].strip("'\"") in ("Array", "ndarray", "ArrayLike") else None
    owner = module.parent(function)
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and isinstance(owner, ast.ClassDef):
        positional = [*function.args.posonlyargs, *function.args.args]
        if positional and positional[0] is argument:
            return None
    for node in ast.walk(function):
        match node:
            case ast.Call(args=arguments, func=called) if any(
                isinstance(given, ast.Name) and given.id == argument.arg for given in arguments
            ):
                if any(name.startswith(ARRAY_MODULES) and name not in PLACING for name in module.resolve(called)):
                    return True
            case ast.Attribute(value=ast.Name(id=name), attr="at") if name == argument.arg:
                return True
            case ast.BinOp(op=ast.MatMult(), left=left, right=right):
                if any(isinstance(side, ast.Name) and side.id == argument.arg for side in (left, right)):
                    return True
    return _is_given_arrays(module, argument, function)


def _is_given_arrays(module: Module, argument: ast.arg, function: ast.AST) -> bool | None:
    """Whether every call in view passes an array for a parameter."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    if isinstance(module.parent(function), ast.ClassDef):
        uses = attributes_named(module, function.name)
        calls = [call for use in uses if isinstance(call := module.parent(use), ast.Call) and call.func is use]
        given = [argument_for(function, call, argument.arg, bound=True) for call in calls]
        if len(calls) != len(uses):
            return None
    else:
        given = [argument_for(function, call, argument.arg) for call in direct_calls(module, function)]
    return True if given and all(value is not None and is_array(module, value, 6) for value in given) else None


def _is_traced(module: Module, owner: ast.expr) -> bool:
    """Whether a name is a parameter of a function that JAX traces: what has array methods there is an array."""
    bindings = module.reaching(owner) if isinstance(owner, ast.Name) else None
    if not bindings or any(binding.kind != "parameter" for binding in bindings):
        return False
    function = bindings[0].statement
    body = function.body if isinstance(function, ast.Lambda) else getattr(function, "body", [None])[0]
    return body is not None and bool(mesh_view(module).context(body).traced)
