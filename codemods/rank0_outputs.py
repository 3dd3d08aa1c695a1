"""Outputs of ``jax.shard_map`` and ``jax.smap`` that have fewer axes than their spec.

What JAX says
    ValueError: shard_map applied to the function 'total' was given an out_specs entry which is too long to be
    compatible with the corresponding output value from the function: ... which has rank 0 (and 0 < 1)

    Under ``grad`` and ``vmap`` JAX 0.11 and newer say only ``Too few leaves for PyTreeDef``.

Why
    An output is put together from the blocks of all devices along the axes that its spec names, so it needs at least
    as many axes as its spec has entries. A full reduction has none.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    @jax.shard_map(mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    def total(block):
        return jnp.dot(block, block)

    total(jnp.arange(16.0))

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))

    @jax.shard_map(mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    def total(block):
        return jnp.dot(block, block)[None]

    total(jnp.arange(16.0))

When it does not fix
    An output of rank 1 or more that is too small: where the new axis goes is the author's choice. A scalar that still
    varies over a mesh axis its spec does not name: lifting it would only uncover the replication error, so the
    choices are a ``psum`` over that axis or a longer spec. A function with other users is left as it is, and wrapped
    where it is mapped.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Edit, InsertStatement, Replace, SetArgument, Wrap, named
from shardfix.semantics.mapping import calls_in_view, is_named_at_map, other_users
from shardfix.semantics.outputs import (
    Output,
    Path,
    locate,
    map_call,
    outputs,
    path_text,
    specs_node,
    varying_beyond_spec,
)
from shardfix.semantics.values import OUTER, Array, Rank, Spec, as_array, is_number
from shardfix.semantics.wording import EXPECTED, axes_text, origin_text, spec_text
from shardfix.settings import Rank0Style

if TYPE_CHECKING:
    from shardfix.semantics.interpreter import MapRun
    from shardfix.semantics.module import Module

KEEPS_DIMENSIONS = frozenset(
    "sum mean max min prod std var any all argmax argmin amax amin median nansum nanmean nanmax nanmin nanprod nanstd nanvar "
    "nanmedian count_nonzero ptp average quantile percentile nanquantile nanpercentile logsumexp norm".split()
)
"""Reductions of jax.numpy, jax.nn and jax.scipy.special that take ``keepdims=True``."""
LIFT_SCALARS = f"{named('jax.tree.map')}({named('jax.numpy.atleast_1d')}, "
METHODS_THAT_KEEP_DIMENSIONS = frozenset("sum mean max min prod std var any all argmax argmin ptp".split())


_Key = tuple[ast.AST, ast.AST | None, ast.AST | None, Path]
"""An output: the map, its function, the returned expression, and where in that it stands."""


@dataclass(frozen=True)
class _Fault:
    """One output that is too small, with every run that shows it."""

    outputs: tuple[Output, ...]
    always: bool
    """Whether it is too small whatever the arguments; otherwise only in the calls that are in view."""
    may_be_number: bool = False
    """Whether only its rank is known, from JAX: it may be a Python number, which cannot be indexed."""

    @property
    def output(self) -> Output:
        return self.outputs[0]

    @property
    def missing_axes(self) -> int:
        entries = self.output.spec.entries
        assert entries is not None
        return len(entries)

    @property
    def rank(self) -> Rank:
        ranks = [as_array(output.value).rank for output in self.outputs]
        result = ranks[0]
        for rank in ranks[1:]:
            result = result.join(rank)
        return result


class Rank0Outputs(Codemod):
    triggers: ClassVar = (rb"\b(?:shard_map|smap)\b",)
    evidence: ClassVar[frozenset[str]] = frozenset({"output-rank"})
    replacement_since = "0.4.3"

    def findings(self, module: Module) -> Iterator[Finding]:
        found = [self._expected(module, fault) for fault in _faults(module, module.trace.provoked)]
        found += [self._finding(module, fault) for fault in _faults(module, module.trace.maps)]
        seen: set[tuple[Range, str]] = set()
        for finding in found:
            if finding is None or (finding.fix is None and (finding.range, finding.message) in seen):
                continue  # the same function, mapped again
            seen.add((finding.range, finding.message))
            yield finding

    def _expected(self, module: Module, fault: _Fault) -> Finding | None:
        """A fault that a test expects."""
        place = _place(module, fault.output)
        if place is None:
            return None
        return self.finding(place, _message(fault), reason=EXPECTED)

    def _finding(self, module: Module, fault: _Fault) -> Finding | None:
        output = fault.output
        place = _place(module, output)
        if place is None or module.is_compatibility_code(place):
            return None
        message = _message(fault)
        if fault.rank.high != 0:
            return self.finding(place, message, reason=_axis_choices(fault), choices=_longer(module, fault))
        uncovered = _still_varying(fault)
        if uncovered:
            named_axes = axes_text(uncovered)
            return self.finding(
                place,
                message,
                reason=f"it also varies over mesh axis {named_axes}, which its spec does not name: with an axis of its own JAX "
                f"would reject it for want of replication. Reduce it over {named_axes} (jax.lax.psum, pmean), or let the spec "
                f"name that axis too",
                choices=_covered(module, fault, uncovered),
            )
        fix = self._spec_fix(module, fault) or self._lift(module, fault)
        if fix is None:
            return self.finding(
                place, message, reason="the output is not written out where shardfix could give it an axis"
            )
        if not fault.always and not calls_in_view(output.site):
            fix = Fix(fix.edits, Safety.UNSAFE, fix.title)
        return self.finding(
            place, message, fix=fix, reason="" if fix.safety is Safety.SAFE else "other callers may pass larger arrays"
        )

    # The repairs

    def _spec_fix(self, module: Module, fault: _Fault) -> Fix | None:
        """The value is the same on every device: the spec is wrong, not the rank."""
        output = fault.output
        if output.site.module is not module or not _is_replicated(fault):
            return None
        node = _spec_node(output)
        if node is None or not _is_whole_spec(fault, node):
            return None
        code = "None" if output.site.api == "jax.smap" else f"{named('jax.sharding.PartitionSpec')}()"
        title = f"the value is the same on all devices: give it the spec {'None' if code == 'None' else 'P()'}"
        return Fix((Replace(Range.of(node), code),), title=title)

    def _lift(self, module: Module, fault: _Fault) -> Fix | None:
        output = fault.output
        function = output.function
        if (
            output.node is not None
            and function is not None
            and function.module is module
            and not other_users(function, output.site)
        ):
            if not output.stands_for_tree:
                edit = self._lift_expression(module, fault, output.node)
                return Fix((edit,), title=_title(edit)) if edit is not None else None
            return _lift_scalars(output.node) if fault.missing_axes == 1 else None
        if fault.missing_axes == 1 and (returned := _own_return(module, fault)) is not None:
            return _lift_scalars(returned)
        return self._wrap_at_map(module, fault)

    def _lift_expression(self, module: Module, fault: _Fault, node: ast.expr) -> Edit | None:
        count = fault.missing_axes
        if all(is_number(output.value) for output in fault.outputs):
            return Replace(Range.of(node), f"{named('jax.numpy.array')}({'[' * count}{module.text(node)}{']' * count})")
        if fault.may_be_number or any(is_number(output.value) for output in fault.outputs):
            return Replace(Range.of(node), f"{named('jax.numpy.reshape')}({module.text(node)}, {(1,) * count})")
        reduction = self._reduction(module, fault, node)
        if reduction is not None:
            return SetArgument(Range.of(reduction), "keepdims", "True")
        return Wrap(Range.of(node), "", f"[{', '.join(['None'] * count)}]")

    def _reduction(self, module: Module, fault: _Fault, node: ast.expr) -> ast.Call | None:
        """The full reduction that gives the output, if ``keepdims=True`` on it gives exactly the spec's length."""
        style = self.settings.rank0_style
        if style is Rank0Style.INDEX:
            return None
        call = node
        if isinstance(node, ast.Name) and style is Rank0Style.KEEPDIMS:
            bound = locate(module, node, ())
            known = module.scope_of(node).lookup(node.id)
            if (
                known is not None
                and len(known[1]) == 1
                and len([r for r in module.nodes(ast.Name) if r.id == node.id]) == 2
            ):
                bound = known[1][0].value
            call = bound if bound is not None else node
        if not isinstance(call, ast.Call) or not _takes_keepdims(module, call):
            return None
        operands = [output.run.operands.get(call) for output in fault.outputs if output.run.arguments is not None]
        operands = operands or [output.run.operands.get(call) for output in fault.outputs]
        ranks = {as_array(operand).rank.exact if operand is not None else None for operand in operands}
        return call if ranks == {fault.missing_axes} else None

    def _wrap_at_map(self, module: Module, fault: _Fault) -> Fix | None:
        """The function has other users, or is not in this file: give the output its axis where the function is mapped."""
        output = fault.output
        call, function = map_call(output.site), output.function
        if output.site.module is not module or call is None:
            return None
        if function is not None and not is_named_at_map(function, output.site):
            return None
        argument = call.argument("f", 0)
        if argument is None or not argument.direct:
            return None
        if output.stands_for_tree and fault.missing_axes != 1:
            return None
        lifted = _lifted_code(fault)
        callee = module.text(argument.value)
        if isinstance(argument.value, ast.Lambda):
            callee = f"({callee})"
        if not output.path:
            code = f"lambda *args: {lifted(f'{callee}(*args)')}"
            return Fix(
                (Replace(Range.of(argument.value), code),), title="give the output an axis where the function is mapped"
            )
        if not isinstance(argument.value, ast.Name | ast.Attribute):
            return None
        body = _wrapper_body(fault, callee, lifted)
        own_name = argument.value.id if isinstance(argument.value, ast.Name) else argument.value.attr
        name = f"{own_name.lstrip('_')}_with_axes"
        if body is None or module.scope_of(output.site.call).lookup(name) is not None:
            return None
        statement = module.statement(output.site.call)
        code = f"def {name}(*args):\n{body}\n\n"
        edits = (InsertStatement(Range.of(statement), code), Replace(Range.of(argument.value), name))
        return Fix(edits, title="wrap the function where it is mapped")


def _lift_scalars(node: ast.expr) -> Fix:
    """All scalars among the leaves of a pytree as arrays of one axis."""
    return Fix((Wrap(Range.of(node), LIFT_SCALARS, ")"),), title="give every scalar output an axis", needs_jax="0.4.25")


def _faults(module: Module, runs: Iterable[MapRun]) -> list[_Fault]:
    """The outputs of these runs that are certainly smaller than their spec, in source order."""
    shown: dict[_Key, list[Output]] = {}
    fine: set[tuple[ast.AST | None, ast.AST | None, Path]] = set()
    always: set[_Key] = set()
    unsure: set[_Key] = set()
    reached: dict[ast.AST, set[ast.AST | None]] = {}
    """For each map, the returned expressions that its calls in view come to."""
    for run in runs:
        for output in outputs(run):
            function = output.function
            if output.site.module is not module and (function is None or function.module is not module):
                continue
            node = function.node if function is not None else None
            key = (output.site.call, node, output.returned, output.path)
            if run.arguments is not None:
                reached.setdefault(output.site.call, set()).add(output.returned)
            reported = _as_reported(module, output)
            if reported is not None and not isinstance(output.value, Array):
                unsure.add(key)
            if reported is not None or _is_too_small(output):
                shown.setdefault(key, []).append(reported or output)
                if reported is not None or run.arguments is None:
                    always.add(key)
            elif run.arguments is not None:
                fine.add(key[1:])
    trees = [key for key, found in shown.items() if found[0].stands_for_tree]
    for part in [key for key in shown if any(_is_part(key, tree) for tree in trees)]:
        del shown[part]  # seen leaf by leaf in another run
    return [
        _Fault(tuple(found), key in always, key in unsure)
        for key, found in shown.items()
        if (key in always or key[1:] not in fine) and _is_come_to(found[0], reached.get(key[0]))
    ]


def _is_come_to(output: Output, reached: set[ast.AST | None] | None) -> bool:
    """Whether a call may come to the return that gives an output; ``reached`` are those that the calls in view come to."""
    return reached is None or output.returned in reached or not calls_in_view(output.site)


def _is_part(key: _Key, whole: _Key) -> bool:
    """Whether an output is a part of another, of which no structure is known."""
    path = whole[-1]
    return key[:-1] == whole[:-1] and len(key[-1]) > len(path) and key[-1][: len(path)] == path


def _is_too_small(output: Output) -> bool:
    if output.spec.entries is None or output.spec.special:
        return False
    if not isinstance(output.value, Array) and not is_number(output.value):
        return False
    highest = as_array(output.value).rank.high
    return highest is not None and highest < len(output.spec.entries)


def _as_reported(module: Module, output: Output) -> Output | None:
    """An output of unknown rank of which JAX has said that it is too small, with the rank that JAX saw."""
    function = output.function
    if output.spec.entries is None or function is None or is_number(output.value):
        return None
    known = as_array(output.value)
    for evidence in module.evidence:
        if (
            evidence.kind == "output-rank"
            and evidence.function == function.name
            and (evidence.key_path or "") == path_text(output.path)
            and evidence.rank is not None
            and known.rank.exact is None
            and evidence.rank < len(output.spec.entries)
        ):
            return replace(output, value=replace(known, rank=Rank.exactly(evidence.rank)))
    return None


def _own_return(module: Module, fault: _Fault) -> ast.expr | None:
    """The returned expression, where it alone gives the output, and may turn every scalar into an array of one axis."""
    output, function = fault.output, fault.output.function
    if (
        output.node is not None
        or function is None
        or function.module is not module
        or other_users(function, output.site)
    ):
        return None
    for leaf in outputs(output.run):
        entries = leaf.spec.entries
        if (
            leaf.returned is output.returned
            and as_array(leaf.value).rank.low == 0
            and (entries is None or len(entries) != 1)
        ):
            return None
    return output.returned


def _own_place(module: Module, fault: _Fault) -> ast.expr | None:
    """Where the output is written, if it may be changed there."""
    output, function = fault.output, fault.output.function
    if function is None or function.module is not module or other_users(function, output.site):
        return None
    return output.node if not output.stands_for_tree else None


def _longer(module: Module, fault: _Fault) -> Iterator[Fix]:
    """Ways to make an output of some axes fit: more axes, or a shorter spec."""
    node, rank, entries = _own_place(module, fault), fault.rank.exact, fault.output.spec.entries
    if node is None or rank is None or entries is None:
        return
    missing = ", ".join(["None"] * (len(entries) - rank))
    yield Fix((Wrap(Range.of(node), "", f"[..., {missing}]"),), Safety.UNSAFE, "add the missing axis at the end")
    yield Fix((Wrap(Range.of(node), "", f"[{missing}]"),), Safety.UNSAFE, "add the missing axis in front")
    spec = _spec_node(fault.output) if fault.output.site.module is module else None
    varying = sorted(_still_varying(fault) | (_axes_of(entries) - _axes_of(entries[:rank])))
    if spec is not None and _is_whole_spec(fault, spec) and fault.output.site.api != "jax.smap":
        code = f"{named('jax.sharding.PartitionSpec')}({', '.join(map(repr, entries[:rank]))})"
        edits: list[Edit] = [Replace(Range.of(spec), code)]
        if varying:
            edits.append(_reduced(node, "psum", varying, ""))
        title = f"sum over {axes_text(varying)}, and shorten the spec" if varying else "shorten the spec"
        yield Fix(tuple(edits), Safety.UNSAFE, title)


def _covered(module: Module, fault: _Fault, uncovered: frozenset[str]) -> Iterator[Fix]:
    """Ways to give a scalar its axis that leave nothing varying over an axis that its spec does not name."""
    node, entries = _own_place(module, fault), fault.output.spec.entries
    if node is None or not entries:
        return
    lift = f"[{', '.join(['None'] * len(entries))}]"
    for name in ("psum", "pmean"):
        edit = _reduced(node, name, sorted(uncovered), lift)
        yield Fix(
            (edit,), Safety.UNSAFE, f"reduce it with {name} over {axes_text(uncovered)}, and add the missing axis"
        )
    spec = _spec_node(fault.output) if fault.output.site.module is module else None
    if spec is not None and _is_whole_spec(fault, spec) and isinstance(entries[0], str):
        first = (entries[0], *sorted(uncovered))
        code = f"{named('jax.sharding.PartitionSpec')}({', '.join(map(repr, (first, *entries[1:])))})"
        edits = (Replace(Range.of(spec), code), Wrap(Range.of(node), "", lift))
        yield Fix(edits, Safety.UNSAFE, f"keep each device's value: let the spec name {axes_text(uncovered)} too")


def _reduced(node: ast.expr, name: str, axes: list[str], lift: str) -> Edit:
    code = repr(axes[0]) if len(axes) == 1 else repr(tuple(axes))
    return Wrap(Range.of(node), f"{named(f'jax.lax.{name}')}(", f", {code}){lift}")


def _axes_of(entries: tuple[Any, ...]) -> frozenset[str]:
    return Spec(entries).axes or frozenset()


def _still_varying(fault: _Fault) -> frozenset[str]:
    """Mesh axes that the value certainly varies over and that its spec leaves out."""
    return frozenset[str]().union(*map(varying_beyond_spec, fault.outputs))


def _is_replicated(fault: _Fault) -> bool:
    axes = fault.output.spec.axes
    if axes is None:
        return False
    for output in fault.outputs:
        if is_number(output.value):
            return False
        array = as_array(output.value)
        if array.varying.at_most is None or array.varying.at_most - {OUTER} or not axes <= array.reduced:
            return False
    return True


def _spec_node(output: Output) -> ast.expr | None:
    """Where the output's spec is written, if nothing else reads it there."""
    specs = specs_node(output.site, "out_specs")
    if specs is None:
        return None
    node = locate(output.site.module, specs, output.spec_path)
    if node is None or (
        node is not specs and isinstance(specs, ast.Name) and len(_reads(output.site.module, specs)) > 1
    ):
        return None
    return node


def _reads(module: Module, name: ast.Name) -> list[ast.Name]:
    return [node for node in module.nodes(ast.Name) if node.id == name.id and isinstance(node.ctx, ast.Load)]


def _is_whole_spec(fault: _Fault, node: ast.expr) -> bool:
    """Whether the spec that would change serves no output but this one."""
    output = fault.output
    return all(
        other.path == output.path
        for run_output in fault.outputs
        for other in outputs(run_output.run)
        if other.spec_path == output.spec_path
    )


def _takes_keepdims(module: Module, call: ast.Call) -> bool:
    if any(keyword.arg in ("keepdims", "axis", None) for keyword in call.keywords):
        return False
    names = module.resolve(call.func)
    if names:
        inside = all(name.startswith(("jax.numpy.", "jax.nn.", "jax.scipy.special.")) for name in names)
        return inside and len(call.args) == 1 and all(name.rpartition(".")[2] in KEEPS_DIMENSIONS for name in names)
    return isinstance(call.func, ast.Attribute) and not call.args and call.func.attr in METHODS_THAT_KEEP_DIMENSIONS


def _lifted_code(fault: _Fault) -> Callable[[str], str]:
    """How code that gives the output is written so that it gives the missing axes too."""
    count = fault.missing_axes
    if fault.output.stands_for_tree:
        return lambda code: f"{LIFT_SCALARS}{code})"
    if fault.may_be_number or any(is_number(output.value) for output in fault.outputs):
        return lambda code: f"{named('jax.numpy.reshape')}({code}, {(1,) * count})"
    return lambda code: f"{code}[{', '.join(['None'] * count)}]"


def _wrapper_body(fault: _Fault, function: str, lifted: Callable[[str], str]) -> str | None:
    """The body of a function that calls ``function`` and gives one of its outputs the axes it lacks."""
    from shardfix.semantics.values import Dict, Sequence

    output = fault.output
    key, result = output.path[0], output.run.result
    if len(output.path) != 1:
        return None
    if isinstance(result, Sequence) and result.items is not None and isinstance(key, int):
        names = [f"output{position}" for position in range(len(result.items))]
        changed = [lifted(name) if position == key else name for position, name in enumerate(names)]
        return f"    {', '.join(names)} = {function}(*args)\n    return {', '.join(changed)}"
    if isinstance(result, Dict):
        return f"    outputs = {function}(*args)\n    return {{**outputs, {key!r}: {lifted(f'outputs[{key!r}]')}}}"
    return None


def _place(module: Module, output: Output) -> ast.expr | None:
    """Where to report: the returned expression if it is in this file, else the map."""
    function = output.function
    if function is not None and function.module is module:
        return output.node or output.returned or (output.site.call if output.site.module is module else None)
    return output.site.call if output.site.module is module else None


def _message(fault: _Fault) -> str:
    output = fault.output
    assert output.spec.entries is not None
    name = output.function.name if output.function is not None else "the mapped function"
    which = f"output {path_text(output.path)} of {name}" if output.path else f"the output of {name}"
    if output.stands_for_tree:
        which = f"every leaf of {which}"
    length = len(output.spec.entries)
    entries = "entry" if length == 1 else "entries"
    text = f"{which} has {fault.rank}, but its spec {spec_text(output.spec)} has {length} {entries}"
    value = output.value
    if is_number(value):
        return f"{text}: it is a Python number"
    return text + origin_text(value, output.site.module)


def _axis_choices(fault: _Fault) -> str:
    length = fault.missing_axes
    return (
        f"where the missing axis goes is the author's choice: index with None (x[:, None]) for an output of {length} axes, keep the axis "
        f"in the reduction (keepdims=True), or shorten the spec"
    )


def _title(edit: Edit) -> str:
    match edit:
        case SetArgument():
            return "keep the reduced axis with keepdims=True"
        case Replace():
            return "make the value an array with the missing axis"
    return "add the missing axis"
