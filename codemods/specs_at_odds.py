"""Specs that do not fit the mesh or the values that they are for, where JAX says which. (Found from a traceback.)

What JAX says
    ValueError: shard_map in_specs argument must refer to an axis marked as manual (frozenset({'i'})), but: in_specs refers to 'j'

    ValueError: ... in_specs is P('i',) which has length 1, but the passed args[1] has shape float32[], which has rank 0

    ValueError: pytree structure error: different types at key path shard_map out_specs

    TypeError: shard_map in_specs argument must be a pytree of `jax.sharding.PartitionSpec` instances, but: in_specs is NamedSharding(...)

Why
    A spec names axes of the mesh, has at most one entry for each axis of its array, and stands in the same tuples, lists
    and dicts as the arrays do. What the arrays are, only the run can tell for certain.

Before
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))
    scale = jax.shard_map(lambda x, factor: x * factor, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    print(scale(jnp.arange(16.0), 2.0))

After
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))
    scale = jax.shard_map(lambda x, factor: x * factor, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"))
    print(scale(jnp.arange(16.0), 2.0))

When it does not fix
    A scalar has no spec but ``P()``, and a tuple where JAX wants a list is turned into one. Which axis a wrong name stands
    for, and which of several specs is one too many, is offered and not decided.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Replace, Wrap, named
from shardfix.semantics.outputs import locate
from shardfix.semantics.reported import MAPS, applied_call, calls_at, likeliest, reported, spec_code
from shardfix.semantics.values import Array, Sharding, Spec

if TYPE_CHECKING:
    from shardfix.semantics.calls import Call
    from shardfix.semantics.module import Module
    from shardfix.tracebacks import Evidence, Frame

Path = tuple[str | int, ...]
MAX_CHOICES = 4


class SpecsAtOdds(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = ()
    evidence: ClassVar[frozenset[str]] = frozenset(
        {
            "axis-names-type",
            "divisibility",
            "duplicate-axis",
            "input-rank",
            "sharding-rank",
            "spec-structure",
            "spec-type",
            "unknown-axis",
        }
    )

    def findings(self, module: Module) -> Iterator[Finding]:
        by_kind: dict[str, list[tuple[Evidence, Frame]]] = {}
        for evidence, frame in reported(module, *self.evidence):
            by_kind.setdefault(evidence.kind, []).append((evidence, frame))
        for kind, found in by_kind.items():
            match kind:
                case "unknown-axis":
                    for evidence, frame in found:
                        yield from self._unknown_axis(module, evidence, frame)
                case "duplicate-axis":
                    for evidence, frame in found:
                        yield from self._duplicate_axis(module, evidence, frame)
                case "spec-type":
                    for evidence, _ in found:
                        yield from self._sharding_as_spec(module, evidence)
                case "spec-structure":
                    for evidence, _ in found:
                        yield from self._structure(module, evidence)
                case "input-rank":
                    yield from self._ranks(module, [evidence for evidence, _ in found], found[0][1])
                case "divisibility":
                    yield from self._uneven(module, [evidence for evidence, _ in found])
                case "sharding-rank":
                    for evidence, _ in found:
                        yield from self._too_long(module, evidence)
                case "axis-names-type":
                    yield from self._no_set(module, found[0][0])

    # Axes

    def _unknown_axis(self, module: Module, evidence: Evidence, frame: Frame) -> Iterator[Finding]:
        axis = evidence.axis
        if axis is None:
            return
        for text, siblings in _axis_texts(module, evidence, frame):
            choices = []
            if evidence.argument == "axis_names":
                if len(siblings) > 1:
                    left = ", ".join(module.text(node) for node in siblings if node is not text)
                    around = module.parent(text)
                    assert isinstance(around, ast.expr)
                    choices.append(_choice(around, f"{{{left}}}", f"leave {axis!r} out"))
            used = {node.value for node in siblings if isinstance(node, ast.Constant)}
            for name in likeliest(axis, evidence.axes)[:MAX_CHOICES]:
                if name not in used:
                    choices.append(_choice(text, f'"{name}"', f"name {name!r}"))
            if evidence.argument != "axis_names":
                choices.append(_choice(text, "None", "leave that array axis whole"))
            yield self.finding(text, f"{axis!r} is not an axis that can be named here", choices=choices)

    def _duplicate_axis(self, module: Module, evidence: Evidence, frame: Frame) -> Iterator[Finding]:
        texts = [text for text, _ in _axis_texts(module, evidence, frame)]
        if len(texts) == 2:
            choices = [
                _choice(text, "None", f"leave out the {which}")
                for text, which in zip(texts, ("first", "second"), strict=True)
            ]
            yield self.finding(texts[1], f"the spec names {evidence.axis!r} twice", choices=choices)

    # What is no spec

    def _sharding_as_spec(self, module: Module, evidence: Evidence) -> Iterator[Finding]:
        """JAX names those of one argument; those of the other would fail next."""
        if evidence.value_type != "NamedSharding" or evidence.argument is None:
            return
        for call in module.calls_to(*MAPS):
            specs = _argument(call, evidence.argument)
            node = locate(module, specs, _path(evidence.spec_path)) if specs is not None else None
            if node is None:
                continue
            wrong = [node]
            for name in ("in_specs", "out_specs"):
                argument = _argument(call, name)
                entries = getattr(argument, "elts", [argument] if argument is not None else [])
                wrong += [one for one in entries if one is not node and isinstance(module.value_of(one), Sharding)]
            edits = tuple(Replace(Range.of(one), _spec_of(module, one)) for one in wrong)
            fix = Fix(edits, title="give the spec alone: the map has its mesh")
            yield self.finding(node, "shard_map takes a PartitionSpec here, not a NamedSharding", fix=fix)

    # Structure

    def _structure(self, module: Module, evidence: Evidence) -> Iterator[Finding]:
        for call in module.calls_to(*(("jax.jit",) if evidence.api in ("jit", "pjit") else MAPS)):
            specs = _argument(call, evidence.argument or "")
            node = locate(module, specs, _path(evidence.spec_path)) if specs is not None else None
            if node is None:
                continue
            known = evidence.known
            message = f"{evidence.argument} does not have the structure of the values"
            if "expected" in known and isinstance(node, ast.Tuple | ast.List):
                choices = list(_other_lengths(module, node, int(known["actual"])))
                yield self.finding(node, message, choices=choices)
            elif {known.get("expected_type"), known.get("actual_type")} == {"tuple", "list"}:
                if isinstance(node, ast.Tuple | ast.List):
                    inner = ", ".join(map(module.text, node.elts))
                    comma = "," if len(node.elts) == 1 else ""
                    code = f"[{inner}]" if known["actual_type"] == "list" else f"({inner}{comma})"
                    fix = Fix((Replace(Range.of(node), code),), title=f"write a {known['actual_type']}")
                    yield self.finding(node, message, fix=fix)
            elif "expected_type" in known:
                yield self.finding(node, message, choices=list(_single(module, call, node)))
            elif isinstance(node, ast.Dict) and (choices := list(_other_keys(module, evidence, node))):
                yield self.finding(node, message, choices=choices)

    # Ranks

    def _ranks(self, module: Module, found: Sequence[Evidence], frame: Frame) -> Iterator[Finding]:
        call = applied_call(module, frame)
        for map_call in module.calls_to(*MAPS):
            if map_call.dotted.endswith("smap"):
                yield from self._smap_axis(module, map_call, found)
                continue
            specs = _argument(map_call, "in_specs")
            if specs is None:
                continue
            for spec_path, group in _grouped(found).items():
                node = locate(module, specs, spec_path)
                wanted = {_path(one.key_path)[len(spec_path) :]: _shortened(one) for one in group}
                code = _spread(module, node, call, spec_path, wanted) if node is not None else None
                if node is None or code is None:
                    continue
                message = "; ".join(
                    f"args{one.key_path} has rank {one.rank}, but its spec has {len(one.spec_entries or ())} entries"
                    for one in group
                ).replace("1 entries", "1 entry")
                scalars = all(one.rank == 0 for one in group)
                title = (
                    "a scalar goes whole to every device: P()" if scalars else "leave out the entries that are too many"
                )
                fix = Fix((Replace(Range.of(node), code),), Safety.SAFE if scalars else Safety.UNSAFE, title)
                yield self.finding(node, message, fix=fix)

    def _smap_axis(self, module: Module, call: Call, found: Sequence[Evidence]) -> Iterator[Finding]:
        axes = _argument(call, "in_axes")
        for one in found:
            path = _path(one.key_path)
            node = locate(module, axes, path) if isinstance(axes, ast.Tuple) else axes
            if node is None or one.rank is None:
                continue
            values = ["None"] if one.rank == 0 else [str(axis) for axis in range(one.rank)]
            choices = [
                _choice(
                    node,
                    value,
                    "every device has the whole value" if value == "None" else f"split it along axis {value}",
                )
                for value in values[:MAX_CHOICES]
            ]
            yield self.finding(node, f"the argument has rank {one.rank}, and no such axis", choices=choices)

    def _too_long(self, module: Module, evidence: Evidence) -> Iterator[Finding]:
        """The spec that JAX printed, where it is written."""
        code = _shortened(evidence)
        for spec in _written(module, evidence) if code is not None else ():
            choices = [_choice(spec, code or "", "leave out the entries that are too many")]
            yield self.finding(
                spec, f"the spec has more entries than the array's {evidence.rank} axes", choices=choices
            )

    def _no_set(self, module: Module, evidence: Evidence) -> Iterator[Finding]:
        for call in module.calls_to(*MAPS):
            names = _argument(call, "axis_names")
            if isinstance(names, ast.Name | ast.Attribute):
                before, after = ("{", "}") if evidence.value_type == "str" else ("set(", ")")
                fix = Fix((Wrap(Range.of(names), before, after),), title="make it a set")
                yield self.finding(names, f"axis_names is a {evidence.value_type}: JAX takes a set", fix=fix)

    # Sizes

    def _uneven(self, module: Module, found: Sequence[Evidence]) -> Iterator[Finding]:
        """Offer to leave the axes whole that do not divide."""
        axes = {axis for one in found for axis in one.axes}
        for one in found:
            split = axes or _split(one)
            for spec in _written(module, one) if one.argument is None and split else ():
                code = f"{module.text(spec.func)}({', '.join(_without(module, entry, split) for entry in spec.args)})"
                choices = [_choice(spec, code, "leave the axis whole: every device has all of it")]
                yield self.finding(spec, "an array does not divide among the devices", choices=choices)
        for call in module.calls_to(*MAPS):
            edits = []
            for name in ("in_specs", "out_specs"):
                specs = _argument(call, name)
                for spec in _specs_in(module, specs) if specs is not None else ():
                    entries = [_without(module, argument, axes) for argument in spec.args]
                    if entries != [module.text(argument) for argument in spec.args]:
                        code = f"{module.text(spec.func)}({', '.join(entries)})"
                        edits.append(Replace(Range.of(spec), code))
            if edits:
                fix = Fix(tuple(edits), Safety.UNSAFE, "leave the array whole: every device does all of the work")
                yield self.finding(call.node, "an array does not divide among the devices", choices=[fix])


def _spec_of(module: Module, node: ast.expr) -> str:
    """The spec of a NamedSharding, as code."""
    if isinstance(node, ast.Call) and module.resolve(node.func) & {"jax.sharding.NamedSharding", "jax.NamedSharding"}:
        if len(node.args) == 2:
            return module.text(node.args[1])
    return f"{module.text(node)}.spec"


def _choice(node: ast.expr, code: str, title: str) -> Fix:
    return Fix((Replace(Range.of(node), code),), Safety.UNSAFE, title)


def _argument(call: Call, name: str) -> ast.expr | None:
    positions = {"mesh": 1, "in_specs": 2, "out_specs": 3} if "experimental" in call.dotted else {}
    return call.value(name, positions.get(name))


_KEYS = re.compile(r"'([^']*)'")
_KEY = re.compile(r"\[(?:(\d+)|'([^']*)'|\"([^\"]*)\")\]")


def _path(text: str | None) -> Path:
    """``[1]['loss']`` as a path."""
    return tuple(int(match[1]) if match[1] else match[2] or match[3] for match in _KEY.finditer(text or ""))


def _specs_in(module: Module, node: ast.AST) -> list[ast.Call]:
    """The ``P(...)`` that are written in an expression."""
    return [
        call
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and module.resolve(call.func) & {"jax.sharding.PartitionSpec", "jax.P"}
    ]


def _written(module: Module, evidence: Evidence) -> list[ast.Call]:
    """The one ``P(...)`` that JAX printed; nothing where several could be it."""
    wanted = _trimmed(evidence.spec_entries)
    if wanted is None:
        return []
    values = [(spec, module.value_of(spec)) for spec in _specs_in(module, module.tree)]
    found = [spec for spec, value in values if isinstance(value, Spec) and _trimmed(value.entries) == wanted]
    return found if len(found) == 1 else []


def _split(evidence: Evidence) -> set[str]:
    """The mesh axes that the printed spec has for the dimension at fault."""
    entries, dimension = evidence.spec_entries or (), int(evidence.known.get("dimension", "-1"))
    entry = entries[dimension] if 0 <= dimension < len(entries) else None
    return set(entry) if isinstance(entry, tuple) else {entry} if isinstance(entry, str) else set()


def _trimmed(entries: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """The entries without those at the end that split nothing: JAX adds some."""
    while entries and entries[-1] is None:
        entries = entries[:-1]
    return entries


def _without(module: Module, entry: ast.expr, axes: set[str]) -> str:
    names = {node.value for node in ast.walk(entry) if isinstance(node, ast.Constant)}
    return "None" if names & axes else module.text(entry)


def _axis_texts(module: Module, evidence: Evidence, frame: Frame) -> Iterator[tuple[ast.Constant, list[ast.expr]]]:
    """The strings that name the axis where the evidence says, with those beside them."""
    if evidence.argument in ("in_specs", "out_specs", "axis_names"):
        calls = module.calls_to(*MAPS)
        names = [evidence.argument, "axis_name"] if evidence.argument == "axis_names" else [evidence.argument]
        nodes = [node for call in calls for name in names if (node := _argument(call, name)) is not None]
        nodes = [found for node in nodes if (found := locate(module, node, _path(evidence.spec_path))) is not None]
    else:
        nodes = list(calls_at(module, frame)[:1])
    for node in nodes:
        if isinstance(node, ast.Constant) and node.value == evidence.axis:
            yield node, [node]
        holders: list[ast.AST] = [node] if isinstance(node, ast.Set | ast.List | ast.Tuple) else []
        for holder in (*holders, *_specs_in(module, node)):
            siblings = holder.args if isinstance(holder, ast.Call) else getattr(holder, "elts", [])
            for sibling in siblings:
                inner = sibling.elts if isinstance(sibling, ast.Tuple) else [sibling]
                for text in inner:
                    if isinstance(text, ast.Constant) and text.value == evidence.axis:
                        yield text, list(siblings)


def _other_lengths(module: Module, node: ast.Tuple | ast.List, count: int) -> Iterator[Fix]:
    """The display with as many entries as there are values."""
    texts = [module.text(element) for element in node.elts]
    candidates = [(texts[:count], "leave out the last")] if count < len(texts) else []
    if count < len(texts) and len(set(texts)) > 1:
        candidates.append((texts[-count:], "leave out the first"))
    if texts and count > len(texts):
        candidates.append((texts + [texts[-1]] * (count - len(texts)), "repeat the last"))
    if len(set(texts)) == 1:
        yield _choice(node, texts[0], "one spec for all")
    for entries, title in candidates:
        inner = ", ".join(entries) + ("," if len(entries) == 1 and isinstance(node, ast.Tuple) else "")
        yield _choice(node, f"[{inner}]" if isinstance(node, ast.List) else f"({inner})", title)


def _other_keys(module: Module, evidence: Evidence, node: ast.Dict) -> Iterator[Fix]:
    """The dict with the keys that the values have, where JAX lists them."""
    given, wanted = (_KEYS.findall(evidence.known.get(name, "")) for name in ("given_keys", "value_keys"))
    missing = [name for name in wanted if name not in given]
    surplus = [name for name in given if name not in wanted]
    keys = {key.value: key for key in node.keys if isinstance(key, ast.Constant)}
    if len(keys) != len(node.keys) or not (missing or surplus) or not set(surplus) <= keys.keys():
        return
    values = dict(zip(keys, node.values, strict=True))
    if len(missing) == len(surplus) == 1:
        yield _choice(keys[surplus[0]], f'"{missing[0]}"', f"call it {missing[0]!r}")
        return
    kept = [f"{module.text(keys[name])}: {module.text(values[name])}" for name in keys if name not in surplus]
    specs = list(dict.fromkeys(module.text(value) for value in node.values))
    for spec in specs if missing else [""]:
        title = (
            f"add {', '.join(map(repr, missing))} as {spec}"
            if missing
            else f"leave {', '.join(map(repr, surplus))} out"
        )
        yield _choice(node, "{" + ", ".join([*kept, *(f'"{name}": {spec}' for name in missing)]) + "}", title)


def _single(module: Module, call: Call, node: ast.expr) -> Iterator[Fix]:
    """One spec, where a container or None stands for one array."""
    if isinstance(node, ast.Tuple | ast.List) and len(node.elts) == 1:
        yield _choice(node, module.text(node.elts[0]), "there is one value: give its spec alone")
    elif isinstance(node, ast.Tuple | ast.List):
        for text in dict.fromkeys(map(module.text, node.elts)):
            yield _choice(node, text, f"one spec for all: {text}")
    elif isinstance(node, ast.Constant) and node.value is None:
        specs = _argument(call, "in_specs")
        if specs is not None and specs is not node:
            for spec in _specs_in(module, specs)[:1]:
                yield _choice(node, module.text(spec), "split as the inputs are")
        if not _varies(module, call):
            yield _choice(node, f"{named('jax.sharding.PartitionSpec')}()", "the same on every device")


def _varies(module: Module, call: Call) -> bool:
    """Whether an output of the map certainly differs between devices."""
    results = [run.result for run in module.trace.maps if run.site.call is call.node]
    return any(isinstance(one, Array) and bool(one.varying.at_least) for one in results)


def _grouped(found: Sequence[Evidence]) -> dict[Path, list[Evidence]]:
    groups: dict[Path, list[Evidence]] = {}
    for one in found:
        groups.setdefault(_path(one.spec_path), []).append(one)
    return groups


def _shortened(evidence: Evidence) -> str | None:
    """The spec with as many entries as the argument has axes: without leading ones that split nothing, else without the last."""
    entries, rank = evidence.spec_entries, evidence.rank
    if entries is None or rank is None:
        return None
    leading = next((at for at, entry in enumerate(entries) if entry is not None), len(entries))
    start = min(leading, len(entries) - rank)
    return spec_code(entries[start : start + rank])


@dataclass(frozen=True)
class _Value:
    """What is written for an argument: the call itself stands for the tuple of arguments."""

    node: ast.Call | ast.expr | None

    def keys(self) -> list[str | int] | None:
        match self.node:
            case ast.Call(args=arguments, keywords=[]) if not any(isinstance(one, ast.Starred) for one in arguments):
                return list(range(len(arguments)))
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return list(range(len(elements)))
            case ast.Dict(keys=keys) if all(isinstance(key, ast.Constant) for key in keys):
                return [key.value for key in keys if isinstance(key, ast.Constant)]  # type: ignore[misc]
        return None

    def at(self, key: Any) -> _Value:
        match self.node:
            case ast.Call(args=arguments):
                return _Value(arguments[key])
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return _Value(elements[key])
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                return _Value(next((v for k, v in pairs if isinstance(k, ast.Constant) and k.value == key), None))
        return _Value(None)


def _spread(
    module: Module, spec: ast.expr, call: ast.Call | None, spec_path: Path, wanted: dict[Path, str | None]
) -> str | None:
    """The spec, spread over the values that it stands for, with other specs at the places that are ``wanted``."""
    if None in wanted.values():
        return None
    if list(wanted) == [()]:
        return wanted[()]
    value = _Value(call)
    for depth, key in enumerate(spec_path):
        if depth and isinstance(value.node, ast.Call):
            return None  # what it returns is not written here
        keys = value.keys()
        if keys is None or key not in keys:
            return None
        value = value.at(key)
    if spec_path and isinstance(value.node, ast.Call):
        return None
    return _spread_over(value, module.text(spec), {path: code or "" for path, code in wanted.items()})


def _spread_over(value: _Value, spec: str, wanted: dict[Path, str]) -> str | None:
    if () in wanted:
        return wanted[()]
    if not wanted:
        return spec
    keys = value.keys()
    if keys is None or any(path[0] not in keys for path in wanted):
        return None
    parts: list[str] = []
    for key in keys:
        inner = {path[1:]: code for path, code in wanted.items() if path[0] == key}
        below = value.at(key)
        part = spec if not inner else _spread_over(below, spec, inner)
        if part is None or (inner and () not in inner and isinstance(below.node, ast.Call)):
            return None
        parts.append(f'"{key}": {part}' if isinstance(value.node, ast.Dict) else part)
    match value.node:
        case ast.Dict():
            return f"{{{', '.join(parts)}}}"
        case ast.List():
            return f"[{', '.join(parts)}]"
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
