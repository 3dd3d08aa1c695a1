"""Operations whose result JAX does not know how to shard. (Found from a traceback.)

What JAX says
    ShardingTypeError: Contracting dimensions are sharded and it is ambiguous how the output should be sharded.

    ShardingTypeError: Use `.at[...].get(out_sharding=)` to provide output PartitionSpec for the gather indexing

    ShardingTypeError: add got incompatible shardings for broadcasting: ('x', None), ('y', None).

Why
    On a mesh with Explicit axes every operation derives the sharding of its result from its operands, and where several
    results are possible, or one that needs communication, JAX asks instead of choosing.

Before
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType, PartitionSpec as P

    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        a = jax.reshard(jnp.ones((8, 8)), P(None, "x"))
        b = jax.reshard(jnp.ones((8, 8)), P("x", None))
        print(a @ b)

After
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType, PartitionSpec as P

    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        a = jax.reshard(jnp.ones((8, 8)), P(None, "x"))
        b = jax.reshard(jnp.ones((8, 8)), P("x", None))
        print(jnp.matmul(a, b, out_sharding=P()))

When it does not fix
    It never does unasked: ``P()``, the result whole on every device, is always possible and seldom the best. Where it is
    in view how the operands of a product lie, the result split as they are is offered first.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Edit, Replace, SetArgument, Wrap, named
from shardfix.semantics.jax_api import out_sharding_parameter
from shardfix.semantics.meshes import mesh_view
from shardfix.semantics.operand_shardings import placement
from shardfix.semantics.reported import calls_at, mesh_code, reported, spec_code

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.tracebacks import Evidence, Frame

Entry = str | tuple[str, ...] | None
WHOLE = f"{named('jax.sharding.PartitionSpec')}()"
METHODS = frozenset("dot reshape ravel flatten get set add multiply mul min max divide power subtract".split())
"""Methods of arrays, and of ``x.at[...]``, that take ``out_sharding``."""


class AmbiguousOperations(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = ()
    evidence: ClassVar[frozenset[str]] = frozenset({"ambiguous-operation", "mesh-mismatch"})

    def findings(self, module: Module) -> Iterator[Finding]:
        for _, frame in reported(module, "mesh-mismatch"):
            for operation in _at(module, frame, ast.BinOp)[:1]:
                fixes = _moved(
                    module, operation, "jax.device_put", "{}.sharding", "put the {} operand where the {} one is"
                )
                yield self.finding(operation, "the operands lie on different meshes", choices=fixes)
        for evidence, frame in reported(module, "ambiguous-operation"):
            for node, choices in _choices(module, evidence, frame, self.settings.target_jax):
                yield self.finding(node, "JAX cannot tell how the result is to be sharded", choices=choices)
                break


def _choices(
    module: Module, evidence: Evidence, frame: Frame, target_jax: str | None
) -> Iterator[tuple[ast.expr, list[Fix]]]:
    """The ways to say how, for the expressions that may have failed; the nearest to the failing place first."""
    if evidence.api in ("dot_general", "gather", "reshape", "scatter", "broadcast_to", None) or evidence.known.get(
        "method"
    ):
        for item in _at(module, frame, ast.Subscript) if evidence.api == "gather" else ():
            if isinstance(item.ctx, ast.Load) and not isinstance(item.value, ast.Call):
                code = f"{module.text(item.value)}.at[{module.text(item.slice)}].get(out_sharding={{}})"
                yield item, _results(module, item, None, partial(_replace, item, code))
        for call in calls_at(module, frame):
            names = module.resolve(call.func)
            takes = any(out_sharding_parameter(name) for name in names) if names else _is_method(call)
            if takes and not any(keyword.arg == "out_sharding" for keyword in call.keywords):
                kept = _product(module, call, target_jax)
                yield call, _results(module, call, kept, partial(_argument, call))
        for product in _at(module, frame, ast.BinOp):
            if isinstance(product.op, ast.MatMult):
                left, right = module.text(product.left), module.text(product.right)
                code = f"{named('jax.numpy.matmul')}({left}, {right}, out_sharding={{}})"
                kept = _contracted("ij,jk->ik", [product.left, product.right], module, target_jax)
                yield (
                    product,
                    _results(module, product, kept, partial(_replace, product, code)),
                )
    for operation in _at(module, frame, ast.BinOp):
        like = f"{named('jax.typeof')}({{}}).sharding"
        yield (
            operation,
            _moved(module, operation, "jax.sharding.reshard", like, "reshard the {} operand as the {} one is"),
        )


def _moved(module: Module, operation: ast.BinOp, function: str, sharding: str, title: str) -> list[Fix]:
    """One operand brought to where the other is."""
    sides = ((operation.right, operation.left, "right", "left"), (operation.left, operation.right, "left", "right"))
    return [
        Fix(
            (Wrap(Range.of(moved), f"{named(function)}(", f", {sharding.format(module.text(other))})"),),
            Safety.UNSAFE,
            title.format(which, like),
        )
        for moved, other, which, like in sides
    ]


def _replace(node: ast.expr, code: str, spec: str) -> Edit:
    return Replace(Range.of(node), code.replace("{}", spec))


def _argument(call: ast.Call, spec: str) -> Edit:
    return SetArgument(Range.of(call), "out_sharding", spec)


def _results(module: Module, node: ast.expr, kept: str | None, edit: Callable[[str], Edit]) -> list[Fix]:
    """The result split as the operands are, where that is known, and the result whole.

    Where no mesh is set, only a NamedSharding says on which mesh.
    """
    context = mesh_view(module).context(node)
    mesh = mesh_code(module, node) if context.may_lack_mesh and not _sets_mesh(module) else None

    def sharding(spec: str) -> str:
        return f"{named('jax.sharding.NamedSharding')}({mesh}, {spec})" if mesh else spec

    fixes = []
    if kept:
        title = "the result is split as the operands are"
        fixes.append(Fix((edit(sharding(kept)),), Safety.UNSAFE, title))
    whole = "the result is whole on every device"
    return [*fixes, Fix((edit(sharding(WHOLE)),), Safety.UNSAFE, whole)]


def _sets_mesh(module: Module) -> bool:
    return any(True for _ in module.calls_to("jax.set_mesh", "jax.sharding.set_mesh", "jax.sharding.use_mesh"))


PRODUCTS = {f"jax.numpy.{name}" for name in ("dot", "matmul")}


def _product(module: Module, call: ast.Call, target_jax: str | None) -> str | None:
    """The spec of a product's result that splits the axes it keeps as the operands do; None where that cannot be said."""
    names = module.resolve(call.func)
    if names <= PRODUCTS and names and len(call.args) == 2:
        return _contracted("ij,jk->ik", call.args, module, target_jax)
    match call.args:
        case [ast.Constant(value=str() as written), *operands] if names == {"jax.numpy.einsum"} and operands:
            subscripts = written.replace(" ", "")
            return _contracted(subscripts, operands, module, target_jax) or _as_typed(subscripts, operands, module)
    return None


def _as_typed(subscripts: str, operands: Sequence[ast.expr], module: Module) -> str | None:
    """The same where only the run knows how the operands lie: they are asked."""
    inputs, arrow, output = subscripts.partition("->")
    letters = inputs.split(",")
    simple = all(isinstance(operand, ast.Name | ast.Attribute) for operand in operands)
    if not arrow or not output.isalpha() or len(letters) != len(operands) or not simple:
        return None
    entries = []
    for letter in output:
        term, operand = next(((t, o) for t, o in zip(letters, operands, strict=True) if letter in t), ("", None))
        if operand is None:
            return None
        entries.append(f"{named('jax.typeof')}({module.text(operand)}).sharding.spec[{term.index(letter)}]")
    return f"{named('jax.sharding.PartitionSpec')}({', '.join(entries)})"


def _contracted(subscripts: str, operands: Sequence[ast.expr], module: Module, target_jax: str | None) -> str | None:
    inputs, arrow, output = subscripts.partition("->")
    letters = inputs.split(",")
    if not arrow or not output.isalpha() or len(letters) != len(operands):
        return None
    places = [placement(module, operand, target_jax) for operand in operands]
    if any(place is None or place.rank not in (None, len(term)) for place, term in zip(places, letters, strict=True)):
        return None
    entries: dict[str, Entry] = {}
    for place, term in zip(places, letters, strict=True):
        for index, letter in enumerate(term):
            if place is not None and not place.is_off and letter in output:
                entries[letter] = entries.get(letter) or place.dimension(index)
    kept = tuple(entries.get(letter) for letter in output)
    used = [axis for entry in kept if entry for axis in (entry if isinstance(entry, tuple) else (entry,))]
    return spec_code(kept) if any(kept) and len(set(used)) == len(used) else None


def _is_method(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in METHODS


def _at(module: Module, frame: Frame, kind: type[ast.expr]) -> list:  # type: ignore[type-arg]
    """The expressions of a kind at a line: the one that carets mark, or all that begin there, outermost first."""
    nodes = [node for node in module.nodes(kind) if node.lineno == frame.line]
    marked = [node for node in nodes if frame.marked and module.text(node) == frame.marked]
    return marked or nodes
