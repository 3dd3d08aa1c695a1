"""Functions with specs for their positional arguments that are called with keywords. (Found from a traceback.)

What JAX says
    TypeError: _shard_map.<locals>.wrapped() got an unexpected keyword argument 'w'

    ValueError: pjit does not support kwargs when in_shardings is specified.

Why
    ``in_specs`` and ``in_shardings`` belong to positional arguments, in their order, so such a function takes no others.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    def scale(x, w):
        return x * w

    scaled = jax.shard_map(scale, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"))
    print(scaled(jnp.arange(16.0), w=2.0))

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    def scale(x, w):
        return x * w

    scaled = jax.shard_map(scale, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"))
    print(scaled(jnp.arange(16.0), 2.0))

When it does not fix
    The parameters of the function must be in view, and the keywords must be the next of them without a gap.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range
from shardfix.edits import Replace
from shardfix.semantics.reported import calls_at, reported

if TYPE_CHECKING:
    from shardfix.semantics.module import Module


class KeywordCalls(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = ()
    evidence: ClassVar[frozenset[str]] = frozenset({"jit-keyword-arguments", "keyword-call"})

    def findings(self, module: Module) -> Iterator[Finding]:
        for evidence, frame in reported(module, *self.evidence):
            for call in calls_at(module, frame):
                name = evidence.argument
                if call.keywords and (name is None or name in (keyword.arg for keyword in call.keywords)):
                    message = "a function that has specs for its positional arguments is called with keywords"
                    fix = _by_position(module, call)
                    reason = "" if fix else "pass it by position, in the order of the function's parameters"
                    yield self.finding(call, message, fix=fix, reason=reason)
                    break


def _by_position(module: Module, call: ast.Call) -> Fix | None:
    names = _parameters(module, call)
    values = {keyword.arg: module.text(keyword.value) for keyword in call.keywords}
    wanted = names[len(call.args) : len(call.args) + len(values)]
    if set(wanted) != set(values) or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    arguments = [*map(module.text, call.args), *(values[name] for name in wanted)]
    code = f"{module.text(call.func)}({', '.join(arguments)})"
    return Fix((Replace(Range.of(call), code),), title="pass the arguments by position")


def _parameters(module: Module, call: ast.Call) -> list[str]:
    """The names of the mapped function's positional parameters; empty where they are not in view."""
    found = {
        tuple(argument.arg for argument in (*function.node.args.posonlyargs, *function.node.args.args))
        for run in module.trace.maps
        if (function := run.run.function if run.run is not None else None) is not None
        and (run.call is call or _calls_the_map(module, run.site.call, call))
    }
    return list(found.pop()) if len(found) == 1 else _jitted_parameters(module, call)


def _jitted_parameters(module: Module, call: ast.Call) -> list[str]:
    """The names of the positional parameters of the function that jit was given, where its result is called."""
    for jit in module.calls_to("jax.jit"):
        function = jit.own_arguments[0] if jit.own_arguments else None
        if function is None or not _calls_the_map(module, jit.node, call):
            continue
        found = module.definition(function)
        node = function if isinstance(function, ast.Lambda) else found[1] if found is not None else None
        if isinstance(node, ast.Lambda | ast.FunctionDef):
            return [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    return []


def _calls_the_map(module: Module, map_call: ast.Call, call: ast.Call) -> bool:
    """Whether ``call`` calls the name that the map, perhaps under jit, is bound to."""
    statement = module.statement(map_call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(ast.dump(target).replace("Store", "Load") == ast.dump(call.func) for target in targets)
