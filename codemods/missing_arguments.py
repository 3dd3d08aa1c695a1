"""Calls of JAX's sharding functions that lack an argument. (Found from a traceback.)

What JAX says
    TypeError: shard_map() missing 1 required keyword-only argument: 'out_specs'

    TypeError: pcast() missing 1 required keyword-only argument: 'to'

    TypeError: in_axes was not specified when axis_name={'i'} was of type AxisType.Auto

Why
    What an output means, which axis is mapped, how an argument is cut up: these have no default.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    def body(x):
        start = jax.lax.pcast(jnp.zeros(()), "i")
        return x + start

    print(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(jnp.arange(16.0)))

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    def body(x):
        start = jax.lax.pcast(jnp.zeros(()), "i", to="varying")
        return x + start

    print(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(jnp.arange(16.0)))

When it does not fix
    Specs are the author's choice: the likely ones are offered. ``pcast`` had only ``to="varying"`` to give to a value
    that is the same everywhere, which is why that is filled in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import SetArgument, named
from shardfix.semantics.meshes import mesh_view
from shardfix.semantics.reported import MAPS, jax_call, reported

if TYPE_CHECKING:
    from shardfix.semantics.calls import Call
    from shardfix.semantics.module import Module

SPEC = named("jax.sharding.PartitionSpec")


class MissingArguments(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = ()
    evidence: ClassVar[frozenset[str]] = frozenset({"missing-argument", "missing-in-specs"})

    def findings(self, module: Module) -> Iterator[Finding]:
        for evidence, frame in reported(module, *self.evidence):
            argument = evidence.argument or ""
            message = f"the argument {argument!r} is missing"
            if evidence.api == "pcast" and argument == "to":
                call = jax_call(module, frame, "pcast")
                if call is not None:
                    edit = SetArgument(Range.of(call), "to", '"varying"')
                    yield self.finding(call, message, fix=Fix((edit,), title='say to="varying"', needs_jax="0.8.2"))
                continue
            for map_call in module.calls_to(*MAPS):
                if self._is_meant(map_call, argument) and (choices := list(_likely(module, map_call, argument))):
                    yield self.finding(map_call.node, message, choices=choices)

    def _is_meant(self, call: Call, argument: str) -> bool:
        """Whether a call lacks the argument, on a kind of map that has it."""
        smap = call.dotted.endswith("smap")
        return smap == (argument in ("axis_name", "in_axes", "out_axes")) and call.argument(argument) is None


def _likely(module: Module, call: Call, argument: str) -> Iterator[Fix]:
    """The values that the argument most likely has."""
    for code, title in _values(module, call, argument):
        yield Fix((SetArgument(Range.of(call.node), argument, code),), Safety.UNSAFE, title)


def _values(module: Module, call: Call, argument: str) -> Iterator[tuple[str, str]]:
    match argument:
        case "axis_name":
            for axis in _mesh_axes(module, call.node):
                yield f'"{axis}"', f"map over {axis!r}"
        case "in_axes":
            yield "0", "split every argument along its first axis"
        case "in_specs" | "out_specs":
            other = call.argument("out_specs" if argument == "in_specs" else "in_specs")
            if other is not None and other.direct and _is_one_spec(other.value):
                which = "inputs" if argument == "in_specs" else "outputs"
                yield module.text(other.value), f"the {which} are split as the others are"
            if argument == "in_specs":
                yield f"{SPEC}()", "every device has the whole value"


def _is_one_spec(node: ast.expr) -> bool:
    return not isinstance(node, ast.Tuple | ast.List | ast.Dict)


def _mesh_axes(module: Module, node: ast.AST) -> list[str]:
    """The axes of the meshes that may be set around a place, and of those in view."""
    view = mesh_view(module)
    found = [view.mesh_of(mesh) for where, mesh in view.context(node).meshes if where is module]
    found += [mesh.mesh for mesh in view.meshes(node)]
    return list(dict.fromkeys(axis for mesh in found if mesh is not None for axis in mesh.axes or ()))
