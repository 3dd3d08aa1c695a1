"""Partition specs that do not fit: the mesh, the manual axes, the argument's rank, or the number of arguments or outputs.

What JAX says
    ValueError: shard_map in_specs argument must refer to an axis marked as manual (frozenset({'i'})), but: ...
    ValueError: Resource axis: modle of P('modle',) is not found in mesh: ('data', 'model').
    ValueError: shard_map applied to the function 'f' was given an in_specs entry which is too long to be compatible with
    the corresponding input value from the function
    ValueError: pytree structure error: different lengths of tuple at key path
    TypeError: `axis_names` argument of shard_map should be of type `frozenset` or `set`.

Why
    A spec names axes of one mesh, at most one entry for each axis of the array, and there is one for each argument
    and output.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("rows",))
    scale = jax.shard_map(lambda block, factor: block * factor, mesh=mesh, in_specs=(P("rows"), P(None)), out_specs=P("rows"))
    scale(jnp.ones(8), 3.0)

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("rows",))
    scale = jax.shard_map(lambda block, factor: block * factor, mesh=mesh, in_specs=(P("rows"), P()), out_specs=P("rows"))
    scale(jnp.ones(8), 3.0)

When it does not fix
    An axis name is corrected only if exactly one axis of the mesh is written almost alike. Specs that are too long for
    an array of rank 1 or more, axes that are not manual, and wrong numbers of specs are reported with the choices.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Replace, named
from shardfix.semantics.gates import is_provoked
from shardfix.semantics.mapping import calls_in_view
from shardfix.semantics.outputs import Path, locate, map_call, match_specs, path_text, specs_node
from shardfix.semantics.values import (
    Array,
    Constant,
    Dict,
    Mesh,
    Sequence,
    Sharding,
    Spec,
    Text,
    Tree,
    Value,
    as_array,
    is_number,
)
from shardfix.semantics.wording import EXPECTED, axes_text, entries_text, spec_text

if TYPE_CHECKING:
    from shardfix.semantics.interpreter import MapRun
    from shardfix.semantics.module import Module

SPECS = (
    "jax.sharding.PartitionSpec",
    "jax.P",
    "jax.experimental.PartitionSpec",
    "jax.interpreters.pxla.PartitionSpec",
    "jax.experimental.pjit.PartitionSpec",
)
COLLECTIVES = {
    f"jax.lax.{name}": 1
    for name in "psum pmean pmax pmin all_gather all_to_all ppermute psum_scatter pcast pshuffle pswapaxes pbroadcast".split()
} | {"jax.lax.axis_index": 0, "jax.lax.axis_size": 0}
"""Collectives, with the position of their axis name."""


PLACING = {
    "jax.device_put": "device",
    "jax.lax.with_sharding_constraint": "shardings",
    "jax.reshard": "out_shardings",
    "jax.sharding.reshard": "out_shardings",
}
"""Functions that give an array a sharding, with the name of that argument."""


class _Words(NamedTuple):
    """How what the specs belong to is spoken of."""

    verb: str
    many: str
    noun: str


RETURNED = _Words("the function returns", "outputs", "the returned dict")
ARGUMENT = _Words("the argument is", "parts", "the argument")


class SpecMismatches(Codemod):
    triggers: ClassVar = (rb"\b(?:shard_map|smap|NamedSharding|out_sharding)\b",)
    evidence: ClassVar[frozenset[str]] = frozenset(
        {"axis-names-type", "input-rank", "spec-structure", "unbound-axis", "unknown-axis"}
    )

    def findings(self, module: Module) -> Iterator[Finding]:
        seen: set[tuple[Range, str]] = set()
        for finding in self._all(module):
            key = (finding.range, finding.message)
            if key not in seen:
                seen.add(key)
                yield finding

    def _all(self, module: Module) -> Iterator[Finding]:
        yield from self._named_shardings(module)
        yield from self._results(module)
        yield from self._placed(module)
        for run in module.trace.maps:
            if run.site.module is module and not module.is_compatibility_code(run.site.call):
                yield from self._map_axes(module, run)
                yield from self._axis_names(module, run)
                yield from self._arguments(module, run)
                yield from self._arity(module, run)
        for run in module.trace.provoked:
            if run.site.module is module:
                for finding in self._arguments(module, run):
                    yield replace(finding, fix=None, reason=EXPECTED)

    def _results(self, module: Module) -> Iterator[Finding]:
        """Calls whose ``out_sharding`` has more entries than the result has axes."""
        for node, evaluations in module.trace.calls.items():
            for seen in evaluations:
                spec = seen.argument("out_sharding")
                spec = spec.spec if isinstance(spec, Sharding) else spec
                if seen.module is not module or not isinstance(spec, Spec) or spec.entries is None:
                    continue
                highest = seen.result.rank.high if isinstance(seen.result, Array) else None
                if highest is not None and highest < len(spec.entries) and not module.is_compatibility_code(node):
                    entries = entries_text(len(spec.entries))
                    yield self.finding(
                        next((given.value for given in node.keywords if given.arg == "out_sharding"), node),
                        f"out_sharding {spec_text(spec)} has {entries}, but the result has rank {highest}",
                        reason=f"shorten the spec to the {highest} axes of the result, or give the result another axis",
                    )

    def _placed(self, module: Module) -> Iterator[Finding]:
        """Arrays that are given a sharding whose spec has more entries than they have axes."""
        for call in module.calls_to(*PLACING):
            operand, given = call.value("x", 0), call.value(PLACING[call.dotted], 1)
            if operand is None or given is None or is_provoked(module, call.node):
                continue
            sharding = module.value_of(given)
            spec = sharding.spec if isinstance(sharding, Sharding) else sharding
            if not isinstance(spec, Spec) or spec.entries is None or module.is_compatibility_code(call.node):
                continue
            known = module.value_of(operand)
            highest = known.rank.high if isinstance(known, Array) else None
            if highest is not None and highest < len(spec.entries):
                entries = entries_text(len(spec.entries))
                yield self.finding(
                    given,
                    f"the spec {spec_text(spec)} has {entries}, but the array has rank {highest}",
                    reason=f"shorten the spec to the {highest} axes of the array, or give the array another axis",
                )

    # Axis names

    def _named_shardings(self, module: Module) -> Iterator[Finding]:
        for call in module.calls_to("jax.sharding.NamedSharding", "jax.NamedSharding"):
            mesh, spec = call.value("mesh", 0), call.value("spec", 1)
            if (
                mesh is None
                or spec is None
                or module.is_compatibility_code(call.node)
                or is_provoked(module, call.node)
            ):
                continue
            known = module.value_of(mesh)
            if isinstance(known, Mesh) and known.axes is not None:
                yield from self._unknown_axes(module, spec, known.axes, "the mesh")

    def _map_axes(self, module: Module, run: MapRun) -> Iterator[Finding]:
        mesh = run.site.mesh
        axes = mesh.axes if isinstance(mesh, Mesh) else None
        manual = run.site.axis_names
        if run.site.api == "jax.smap" or manual is None:
            return
        for which in ("in_specs", "out_specs"):
            node = specs_node(run.site, which)
            if node is None:
                continue
            if axes is not None:
                yield from self._unknown_axes(module, node, axes, "the mesh")
            if axes is None or manual != frozenset(axes):
                yield from self._not_manual(module, node, manual, axes)

    def _unknown_axes(self, module: Module, node: ast.expr, axes: tuple[str, ...], where: str) -> Iterator[Finding]:
        for spec in _spec_calls(module, node):
            texts = _axis_texts(spec)
            for text in texts:
                if text.value not in axes:
                    yield self._wrong_axis(text, axes, where, texts)
            again = next((text for position, text in enumerate(texts) if text.value in _names(texts[:position])), None)
            if again is not None:
                reason = "one mesh axis splits at most one axis of an array: name another, or None"
                yield self.finding(again, f"the spec names mesh axis {again.value!r} twice", reason=reason)

    def _wrong_axis(self, text: ast.Constant, axes: tuple[str, ...], where: str, beside: list[ast.Constant]) -> Finding:
        message = f"{where} has no axis {text.value!r}: it has {axes_text(axes)}"
        near = difflib.get_close_matches(str(text.value), axes, n=2, cutoff=0.75)
        used = {other.value for other in beside if other is not text}
        if len(near) == 1 and near[0] not in used and len(near[0]) > 2:
            fix = Fix((Replace(Range.of(text), repr_like(text, near[0])),), title=f"write {near[0]!r}")
            return self.finding(text, message, fix=fix)
        return self.finding(
            text, message, reason=f"name one of {axes_text(axes)}, or None for an axis that is not split"
        )

    def _not_manual(
        self, module: Module, node: ast.expr, manual: frozenset[str], axes: tuple[str, ...] | None
    ) -> Iterator[Finding]:
        for spec in _spec_calls(module, node):
            for text in _axis_texts(spec):
                if text.value not in manual and (axes is None or text.value in axes):
                    yield self.finding(
                        text,
                        f"mesh axis {text.value!r} is not manual in this map: axis_names is {axes_text(manual)}",
                        reason=f"leave {text.value!r} out of the spec (JAX splits that axis by itself), or add it to axis_names",
                    )

    def _axis_names(self, module: Module, run: MapRun) -> Iterator[Finding]:
        call = map_call(run.site)
        argument = call.argument("axis_names") if call is not None else None
        if argument is None or not argument.direct or run.site.api != "jax.shard_map":
            return
        node = argument.value
        value = module.value_of(node)
        if isinstance(value, Text) and isinstance(node, ast.Constant):
            fix = Fix((Replace(Range.of(node), "{" + module.text(node) + "}"),), title="make it a set")
            yield self.finding(node, "axis_names is a string: JAX takes a set", fix=fix)
        elif (
            isinstance(value, Sequence)
            and value.kind in ("list", "tuple")
            and isinstance(node, ast.List | ast.Tuple)
            and node.elts
        ):
            inner = ", ".join(module.text(element) for element in node.elts)
            fix = Fix((Replace(Range.of(node), "{" + inner + "}"),), title="make it a set")
            yield self.finding(node, f"axis_names is a {value.kind}: JAX takes a set", fix=fix)
        mesh = run.site.mesh
        if isinstance(mesh, Mesh) and mesh.axes is not None and isinstance(node, ast.Set | ast.List | ast.Tuple):
            for text in node.elts:
                if isinstance(text, ast.Constant) and isinstance(text.value, str) and text.value not in mesh.axes:
                    texts = [element for element in node.elts if isinstance(element, ast.Constant)]
                    yield self._wrong_axis(text, mesh.axes, "the mesh", texts)

    # Ranks of arguments

    def _arguments(self, module: Module, run: MapRun) -> Iterator[Finding]:
        if run.arguments is None:
            return
        specs = run.site.in_specs
        if isinstance(specs, Sequence) and specs.items is not None and len(specs.items) != len(run.arguments):
            return
        node = specs_node(run.site, "in_specs")
        for path, spec, spec_path, value in match_specs(specs, Sequence(run.arguments)):
            if spec.entries is None or spec.special:
                continue
            if not isinstance(value, Array | Tree) and not is_number(value):
                continue
            highest = as_array(value).rank.high
            if highest is None or highest >= len(spec.entries):
                continue
            yield self._short_argument(module, run, node, path, spec, spec_path, highest)

    def _short_argument(
        self, module: Module, run: MapRun, node: ast.expr | None, path: Path, spec: Spec, spec_path: Path, rank: int
    ) -> Finding:
        assert spec.entries is not None
        which = f"argument {path[0]}{path_text(path[1:])}"
        message = f"{which} has rank {rank}, but its spec {spec_text(spec)} has {entries_text(len(spec.entries))}"
        place = (locate(module, node, spec_path) if node is not None else None) or run.site.call
        if rank > 0 or node is None or place is run.site.call:
            return self.finding(
                place, message, reason=f"shorten the spec to {rank} entries, or give the array another axis"
            )
        if run.site.api == "jax.smap":
            return self.finding(place, message, reason="a scalar is not split: its in_axes entry is None")
        sole = all(other == spec_path or other_path == path for other_path, _, other, _ in _all_arguments(run))
        alone = [other_path for other_path, _, other, _ in _all_arguments(run) if other == spec_path] == [path]
        fix = None
        if sole and alone and spec_path and not (isinstance(node, ast.Name)):
            harmless = not spec.axes or calls_in_view(run.site)
            safety = Safety.SAFE if harmless else Safety.UNSAFE
            code = f"{named('jax.sharding.PartitionSpec')}()"
            fix = Fix((Replace(Range.of(place), code),), safety, "a scalar goes whole to every device: P()")
        return self.finding(
            place, message, fix=fix, reason="" if fix and fix.safety is Safety.SAFE else "a scalar's spec is P()"
        )

    # Numbers of specs

    def _arity(self, module: Module, run: MapRun) -> Iterator[Finding]:
        specs = run.site.in_specs
        if run.arguments is not None and isinstance(specs, Sequence) and specs.items is not None:
            given, wanted = len(run.arguments), len(specs.items)
            node = specs_node(run.site, "in_specs")
            if given != wanted and node is not None and run.call is not None:
                yield self.finding(
                    node,
                    f"in_specs has {wanted} specs, but the mapped function is called with {given} argument{'s' if given != 1 else ''} "
                    f"(line {run.call.lineno})",
                    reason="in_specs is a tuple with one spec for each argument; one spec alone stands for all",
                )
            wrong_inputs = [
                wrong
                for position, (spec, argument) in enumerate(zip(specs.items, run.arguments, strict=False))
                for wrong in _wrong_structures(spec, argument, "in_specs", ARGUMENT, (position,))
            ]
            if given == wanted and node is not None:
                for wrong in wrong_inputs:
                    reason = "in_specs has the structure of the arguments; one spec alone stands for all of one"
                    yield self.finding(node, wrong, reason=reason)
        outer = run.site.out_specs
        node = specs_node(run.site, "out_specs")
        if node is None:
            return
        for wrong in _wrong_structures(outer, run.result, "out_specs", RETURNED):
            reason = "out_specs has the structure of what the function returns; one spec alone stands for all of it"
            yield self.finding(node, wrong, reason=reason)


def _all_arguments(run: MapRun) -> list[tuple[Path, Spec, Path, Value]]:
    return list(match_specs(run.site.in_specs, Sequence(run.arguments or ())))


def _wrong_structures(specs: Value, value: Value, name: str, words: _Words, path: Path = ()) -> Iterator[str]:
    """In words, where the tree of specs is not a prefix of the tree of arrays."""
    at = f"{name} at {path_text(path)}" if path else name
    match specs, value:
        case Sequence(items=tuple() as inner), Sequence(items=tuple() as items):
            if len(inner) != len(items):
                yield f"{at} has {len(inner)} specs, but {words.verb} {len(items)} {words.many}"
            elif specs.kind != value.kind and {specs.kind, value.kind} <= {"tuple", "list"}:
                yield f"{at} is a {specs.kind}, but {words.verb} a {value.kind}"
            else:
                for position, (spec, item) in enumerate(zip(inner, items, strict=True)):
                    yield from _wrong_structures(spec, item, name, words, (*path, position))
        case Sequence(items=tuple() as inner), _ if any(isinstance(spec, Text) for spec in inner):
            return  # string-shardings speaks of what is no spec
        case Sequence(items=tuple() as inner), (Array() | Dict()):
            what = "one array" if isinstance(value, Array) else "a dict"
            yield f"{at} has {len(inner)} specs, but {words.verb} {what}"
        case Sequence(items=tuple() as inner), _ if is_number(value) and not isinstance(value, Tree):
            if not (isinstance(value, Constant) and value.value is None):
                yield f"{at} has {len(inner)} specs, but {words.verb} one number"
        case Dict(complete=True), Dict(complete=True):
            wanted, given = {key for key, _ in specs.items}, {key for key, _ in value.items}
            if wanted != given:
                difference = ", ".join(sorted(map(repr, wanted ^ given)))
                yield f"{at} and {words.noun} differ in {difference}"


def _spec_calls(module: Module, node: ast.expr) -> list[ast.Call]:
    """The ``P(...)`` calls written in an expression, or in the displays behind its names."""
    nodes: list[ast.AST] = [node]
    if isinstance(node, ast.Name):
        known = module.scope_of(node).lookup(node.id)
        if known is not None and len(known[1]) == 1 and known[1][0].value is not None and not known[1][0].path:
            nodes = [known[1][0].value]
    found = []
    for start in nodes:
        stack = [start]
        while stack:
            current = stack.pop()
            if isinstance(current, ast.Call):
                if module.resolve(current.func) & set(SPECS):
                    found.append(current)
                continue
            if isinstance(current, ast.Tuple | ast.List | ast.Dict):
                stack.extend(ast.iter_child_nodes(current))
    return found


def _axis_texts(spec: ast.Call) -> list[ast.Constant]:
    """The axis names written in a ``P(...)``."""
    found = []
    for argument in spec.args:
        elements = argument.elts if isinstance(argument, ast.Tuple | ast.List) else [argument]
        found += [
            element for element in elements if isinstance(element, ast.Constant) and isinstance(element.value, str)
        ]
    return found


def _names(texts: list[ast.Constant]) -> set[object]:
    return {text.value for text in texts}


def repr_like(text: ast.Constant, value: str) -> str:
    """The string as code. (Double quotes, as nearly all code that is formatted has them.)"""
    return f'"{value}"'
