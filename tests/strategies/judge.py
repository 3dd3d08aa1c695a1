"""JAX's word on a program: what the mapped functions give, compared with what the analysis says."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy

from shardfix.semantics.interpreter import MapRun
from shardfix.semantics.module import Module
from shardfix.semantics.project import Project
from shardfix.semantics.values import (
    OUTER,
    Array,
    Constant,
    Dict,
    Instance,
    Sequence,
    Tree,
    Unknown,
    Value,
    as_array,
    is_number,
)
from strategies.writer import varying_axes

Place = tuple[str, int]
"""The file and the line of a call of shard_map."""
FOLDER = "/generated"
"""Where the files of a program are said to be."""


@dataclass(frozen=True)
class Program:
    """The files of a generated program; ``main.py`` has a function ``main`` without parameters that calls all others."""

    files: tuple[tuple[str, str], ...]
    checked: bool = True
    """Whether replication is checked in all its maps."""

    def __str__(self) -> str:
        return "\n".join(f"# {name}\n{text}" for name, text in self.files)


@dataclass
class Count:
    """How many leaves there were, and of how many what was known."""

    leaves: int = 0
    ranks: int = 0
    """Leaves of which the rank is known exactly."""
    bounded: int = 0
    """Leaves of whose rank an upper bound is known."""
    varying: int = 0
    """Leaves of which the varying axes are known exactly."""
    both: int = 0
    contradictions: list[str] = field(default_factory=list)
    rejections: Counter[str] = field(default_factory=Counter)
    maps: int = 0
    """Runs of maps that were compared with JAX."""
    unjudged: int = 0
    """Runs of maps that JAX did not come to."""
    untyped: int = 0
    """Runs of unchecked maps of which JAX does not say what varies."""

    def add(self, other: Count) -> None:
        for name in ("leaves", "ranks", "bounded", "varying", "both", "maps", "unjudged", "untyped"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.contradictions += other.contradictions
        self.rejections += other.rejections

    def __str__(self) -> str:
        share = {
            name: 100 * getattr(self, name) / max(self.leaves, 1) for name in ("ranks", "bounded", "varying", "both")
        }
        return f"{self.leaves} leaves; " + ", ".join(f"{name} {value:.1f} %" for name, value in share.items())


@dataclass
class Records:
    """What the mapped functions gave when JAX traced them, by the file and line of the call of shard_map."""

    outputs: dict[Place, list[Any]] = field(default_factory=dict)
    """Each output with its leaves replaced by :class:`Leaf`."""
    error: Exception | None = None


@dataclass(frozen=True)
class Leaf:
    """What JAX says of a leaf."""

    rank: int
    varying: frozenset[str]
    is_array: bool


def describe(value: Any) -> Any:
    """A pytree with each leaf replaced by what JAX says of it."""

    def leaf(item: Any) -> Any:
        if isinstance(item, jax.Array):
            return Leaf(item.ndim, varying_axes(item), True)
        return Leaf(getattr(item, "ndim", 0), frozenset(), False)

    return jax.tree.map(leaf, value)


@contextmanager
def recording(records: Records, check: bool | None) -> Iterator[None]:
    """Inside, ``jax.shard_map`` and ``jax.smap`` note what the functions give. ``check`` overrides ``check_vma``."""
    originals = jax.shard_map, jax.smap

    def recorder(original: Any) -> Any:
        def mapping(function: Any = None, /, **options: Any) -> Any:
            frame = sys._getframe(1)
            place = frame.f_code.co_filename, frame.f_lineno
            if function is None:
                return lambda inner: mapping_at(inner, place, options)
            return mapping_at(function, place, options)

        def mapping_at(function: Any, place: tuple[str, int], options: dict[str, Any]) -> Any:
            if check is not None and original is originals[0]:
                options = {**options, "check_vma": check}

            def noted(*arguments: Any, **keywords: Any) -> Any:
                result = function(*arguments, **keywords)
                records.outputs.setdefault(place, []).append(describe(result))
                return result

            return original(noted, **options)

        return mapping

    jax.shard_map, jax.smap = (recorder(original) for original in originals)
    try:
        yield
    finally:
        jax.shard_map, jax.smap = originals


@contextmanager
def loaded(program: Program) -> Iterator[types.ModuleType]:
    """Execute the files of a program; its ``main`` module, while all of them can be imported."""
    modules: dict[str, types.ModuleType] = {}
    try:
        for name, text in program.files:
            module = types.ModuleType(name.removesuffix(".py"))
            modules[module.__name__] = sys.modules[module.__name__] = module
            exec(compile(text, f"{FOLDER}/{name}", "exec"), module.__dict__)
        yield modules["main"]
    finally:
        for name in modules:
            sys.modules.pop(name, None)


def trace(program: Program, check: bool | None = None) -> Records:
    """Let JAX trace a program; what it rejects is in ``error``."""
    records = Records()
    with recording(records, check):
        try:
            with loaded(program) as main:
                jax.eval_shape(main.main)
        except Exception as error:
            records.error = error
    return records


MOST_STEPS = 3
"""Steps of a while loop where devices run in lockstep."""


@contextmanager
def in_lockstep() -> Iterator[None]:
    """Inside, loops end, and all devices take the same path with its collectives: what a branch gives is selected afterwards.

    Otherwise a loop whose condition never fails would run for ever, and devices would wait for others in a collective
    that those do not come to.
    """
    lax = jax.lax
    originals = lax.while_loop, lax.cond, lax.switch

    def selected(which: Any, then: Any, otherwise: Any) -> Any:
        def leaf(a: Any, b: Any) -> Any:
            a, b = jax.numpy.asarray(a), jax.numpy.asarray(b)
            return lax.select(jax.numpy.broadcast_to(which, a.shape), a, b)

        return jax.tree.map(leaf, then, otherwise)

    def while_loop(cond_fun: Any, body_fun: Any, init_val: Any) -> Any:
        return lax.fori_loop(
            0, MOST_STEPS, lambda _, carry: selected(cond_fun(carry), body_fun(carry), carry), init_val
        )

    def cond(pred: Any, true_fun: Any, false_fun: Any, *operands: Any, **named: Any) -> Any:
        given = (*operands, *named.values())
        return selected(jax.numpy.asarray(pred, bool), true_fun(*given), false_fun(*given))

    def switch(index: Any, branches: Any, *operands: Any) -> Any:
        results = [branch(*operands) for branch in branches]
        found = results[-1]
        for position in reversed(range(len(results) - 1)):
            found = selected(jax.numpy.asarray(index) <= position, results[position], found)
        return found

    lax.while_loop, lax.cond, lax.switch = while_loop, cond, switch
    try:
        yield
    finally:
        lax.while_loop, lax.cond, lax.switch = originals


def run(program: Program) -> dict[Place, list[list[frozenset[str]]]]:
    """Run a program without checks on eight devices: of each leaf that a map gives, the mesh axes along which devices differ."""
    found: dict[Place, list[list[frozenset[str]]]] = {}
    original = jax.shard_map

    def mapping(function: Any = None, /, **options: Any) -> Any:
        frame = sys._getframe(1)
        place = frame.f_code.co_filename, frame.f_lineno
        if function is None:
            return lambda inner: mapping_at(inner, place, options)
        return mapping_at(function, place, options)

    def mapping_at(function: Any, place: Place, options: dict[str, Any]) -> Any:
        axes = options["mesh"].axis_names

        def stacked(*arguments: Any) -> Any:
            return [jax.numpy.asarray(leaf)[None] for leaf in jax.tree.leaves(function(*arguments))]

        everywhere = jax.jit(original(stacked, **{**options, "out_specs": jax.P(axes), "check_vma": False}))

        def noted(*arguments: Any) -> Any:
            blocks = [leaf.reshape(*options["mesh"].axis_sizes, *leaf.shape[1:]) for leaf in everywhere(*arguments)]
            found.setdefault(place, []).append([differing_axes(jax.device_get(block), axes) for block in blocks])
            return jax.jit(original(function, **options))(*arguments)

        return noted

    jax.shard_map = mapping
    try:
        with loaded(program) as main, in_lockstep():
            main.main()
    except Exception:
        pass  # JAX does not take what comes after
    finally:
        jax.shard_map = original
    return found


def differing_axes(blocks: Any, axes: tuple[str, ...]) -> frozenset[str]:
    """The axes along which the blocks of all devices, one leading axis for each mesh axis, are not equal."""
    return frozenset(
        name
        for position, name in enumerate(axes)
        if not numpy.array_equal(blocks, numpy.broadcast_to(blocks.take([0], position), blocks.shape), equal_nan=True)
    )


def judge_values(program: Program) -> tuple[int, list[str]]:
    """How many leaves were compared, and where one is said not to vary over an axis along which it differs."""
    wrong: list[str] = []
    compared = 0
    found = run(program)
    for analysed in analyse(program):
        place = place_of(analysed)
        outputs = found.get(place, [])
        leaves = known_leaves(analysed.result)
        if analysed.arguments is None or len(outputs) != 1 or len(leaves) != len(outputs[0]):
            continue
        for position, (leaf, differing) in enumerate(zip(leaves, outputs[0], strict=True)):
            most = as_array(leaf).varying.at_most
            compared += most is not None
            if most is not None and not differing <= most:
                wrong.append(
                    f"{place[0]}:{place[1]} leaf {position}: at most {sorted(most)} is claimed, differs along {sorted(differing)}"
                )
    return compared, wrong


def known_leaves(value: Value) -> list[Value]:
    """The leaves of a value in JAX's order."""
    match value:
        case Sequence(items=tuple() as items):
            return [leaf for item in items for leaf in known_leaves(item)]
        case Dict(complete=True):
            return [leaf for _, item in sorted(value.items) for leaf in known_leaves(item)]
        case Constant(value=None):
            return []
    return [value]


def judge(program: Program) -> Count:
    """Compare what the analysis says of every output of every map with what JAX says."""
    count = Count()
    traced = trace(program)
    typed = traced if program.checked else trace(program, check=True)
    if traced.error is not None:
        count.rejections[f"{type(traced.error).__name__}: {str(traced.error)[:120]}"] += 1
    for run in analyse(program):
        place = place_of(run)
        outputs = traced.outputs.get(place, [])
        if not outputs:
            count.unjudged += 1
            continue
        count.maps += 1
        count.contradictions += disagreement(run, outputs, program.checked, program.checked)
        if not program.checked:
            count.untyped += place not in typed.outputs
            count.contradictions += disagreement(run, typed.outputs.get(place, []), True, False)
        if run.arguments is not None:
            tally(run.result, outputs[0], count)
    return count


def disagreement(run: MapRun, outputs: list[Any], varying: bool, checked: bool) -> list[str]:
    """What JAX contradicts: for the run of one call, of each of its outputs; for the run at the map, of any."""
    manual = run.site.axis_names
    problems = [list(contradictions(run.result, output, varying, checked, manual)) for output in outputs]
    wrong = (max if run.arguments is None else min)(problems, key=len, default=[])
    return [f"{Path(run.site.module.path).name}:{run.site.call.lineno} {problem}" for problem in wrong]


def analyse(program: Program) -> list[MapRun]:
    """The runs of maps that the analysis comes to."""
    sources = {f"{FOLDER}/{name}": text for name, text in program.files}
    project = Project(files=tuple(sources), sources=sources)
    module = project.module_at(f"{FOLDER}/main.py")
    assert isinstance(module, Module)
    return module.trace.maps


def place_of(run: MapRun) -> Place:
    return run.site.module.path, run.site.call.lineno


def contradictions(
    value: Value, output: Any, varying: bool, checked: bool, manual: frozenset[str] | None, path: str = "output"
) -> Iterator[str]:
    """Where what is known of a value does not hold of what JAX gave. ``varying``: whether JAX's types say what varies."""
    match value:
        case Unknown():
            return
        case Tree(leaf=leaf):
            for item in jax.tree.leaves(output):
                yield from contradictions(leaf, item, varying, checked, manual, path)
            return
        case Constant(value=None):
            if output is not None:
                yield f"{path}: None is claimed, {output} is true"
            return
        case Sequence(items=items, kind=kind):
            if not isinstance(output, tuple | list) or (kind in ("tuple", "list") and type(output).__name__ != kind):
                yield f"{path}: a {kind} is claimed, {output} is true"
            elif items is not None and len(items) != len(output):
                yield f"{path}: {len(items)} items are claimed, {len(output)} are true"
            else:
                for position, item in enumerate(output):
                    known = value.rest if items is None else items[position]
                    yield from contradictions(known, item, varying, checked, manual, f"{path}[{position}]")
            return
        case Dict():
            if not isinstance(output, dict):
                yield f"{path}: a dict is claimed, {output} is true"
                return
            if value.complete and {key for key, _ in value.items} != set(output):
                yield f"{path}: keys {[key for key, _ in value.items]} are claimed, {list(output)} are true"
            for key, known in value.items:
                if key not in output:
                    yield f"{path}: key {key!r} is claimed, {list(output)} are true"
                else:
                    yield from contradictions(known, output[key], varying, checked, manual, f"{path}[{key!r}]")
            return
        case Instance():
            for name, known in value.attributes:
                if not hasattr(output, name):
                    yield f"{path}: attribute {name} is claimed, {output} is true"
                else:
                    yield from contradictions(known, getattr(output, name), varying, checked, manual, f"{path}.{name}")
            return
    if isinstance(value, Array) or is_number(value):
        if not isinstance(output, Leaf):
            yield f"{path}: an array is claimed, {output} is true"
            return
        array = as_array(value)
        if output.rank < array.rank.low or (array.rank.high is not None and output.rank > array.rank.high):
            yield f"{path}: {array.rank} is claimed, {output.rank} is true"
        if varying:
            most = array.varying.at_most
            if most is not None and OUTER in most and manual is not None:
                most |= output.varying - manual  # axes of maps around this one
            if most is not None and not output.varying <= most:
                yield f"{path}: varying over at most {sorted(most)} is claimed, {sorted(output.varying)} is true"
            if checked and not array.varying.at_least <= output.varying:
                yield f"{path}: varying over at least {sorted(array.varying.at_least)} is claimed, {sorted(output.varying)} is true"
            if checked and array.reduced & output.varying:
                yield f"{path}: reduced over {sorted(array.reduced)} is claimed, varying over {sorted(output.varying)} is true"
        return
    if isinstance(output, Leaf):
        yield f"{path}: {value} is claimed, {output} is true"


def tally(value: Value, output: Any, count: Count) -> None:
    """Count the leaves of an output, and of how many what is known."""
    children: list[tuple[Value, Any]] = []
    unknown: Value = Unknown()
    match output:
        case None:
            return
        case Leaf():
            count.leaves += 1
            if isinstance(value, Tree):
                value = value.leaf
            if isinstance(value, Array) or is_number(value):
                array = as_array(value)
                known = array.rank.exact is not None, array.varying.exact is not None
                count.ranks += known[0]
                count.varying += known[1]
                count.both += all(known)
                count.bounded += array.rank.high is not None
            return
        case dict():
            children = [
                ((value.get(key) or unknown) if isinstance(value, Dict) else unknown, item)
                for key, item in output.items()
            ]
        case tuple() if hasattr(output, "_fields"):
            children = [
                ((value.get(name) or unknown) if isinstance(value, Instance) else unknown, getattr(output, name))
                for name in output._fields
            ]
        case tuple() | list():
            if isinstance(value, Sequence) and (value.items is None or len(value.items) == len(output)):
                known_items = value.items if value.items is not None else (value.rest,) * len(output)
                children = list(zip(known_items, output, strict=True))
            else:
                children = [(value if isinstance(value, Tree) else unknown, item) for item in output]
        case _ if dataclasses.is_dataclass(output):
            children = [
                ((value.get(f.name) or unknown) if isinstance(value, Instance) else unknown, getattr(output, f.name))
                for f in dataclasses.fields(output)
            ]
    for inner, item in children:
        tally(inner, item, count)
