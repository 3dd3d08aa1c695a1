"""What the rules say of ranks and varying axes, against JAX.

The calls are those that ``scripts/generate_semantics.py`` tries, drawn anew; arguments are weakened at random, so that
what is said of little knowledge is held against JAX too.
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
import random
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from shardfix.semantics import rank_rules
from shardfix.semantics.rules.collectives import COLLECTIVES
from shardfix.semantics.values import (
    ANY_RANK,
    INVARIANT,
    UNKNOWN,
    Array,
    BoundMethod,
    Constant,
    JaxObject,
    Number,
    Rank,
    Sequence,
    Text,
    Value,
    Varying,
    join_all,
)

jax = pytest.importorskip("jax")
jnp = jax.numpy
SCRIPTS = Path(__file__).parents[1] / "scripts"
AXES = ("i", "j")
Forms = tuple[list[Any], dict[str, Any]]


@functools.cache
def script(name: str) -> ModuleType:
    if str(SCRIPTS) not in sys.path:
        sys.path.insert(0, str(SCRIPTS))
    return importlib.import_module(name)


def probe() -> ModuleType:
    return script("semantics_probe")


def generator() -> ModuleType:
    return script("generate_semantics")


@functools.cache
def callables() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: dict[str, Any] = probe().public_callables()
    return found


ROWS = sorted(rank_rules.known_callables())


def accepted_calls(dotted: str, wanted: int, seed: int) -> list[tuple[Forms, str, int, Any]]:
    """Calls that the installed JAX takes, with the type and size of the arrays and what they give."""
    function = callables()[dotted]
    parameters = probe().parameters_of(dotted, function) or [("x", "positional", None)]
    if type(function).__name__ == "_ScalarMeta":
        parameters = [("x", "positional", None)]
    calls: list[Forms] = list(script("semantics_calls").calls_of(dotted, parameters, f"{dotted}{seed}"))
    random.Random(f"{dotted}{seed}").shuffle(calls)
    found: list[tuple[Forms, str, int, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in ("f", "i", "b", "c"):
            for args, kwargs in calls[: 12 * wanted]:
                size = 1 if "squeeze" in dotted else random.choice((2, 3))
                try:
                    result = probe().run(function, args, kwargs, size, kind)
                except Exception:
                    continue
                found.append(((args, kwargs), kind, size, result))
                if len(found) == wanted:
                    return found
            if found:
                break
    return found


def weakened(value: Value, chance: random.Random) -> Value:
    """A value that says less, and nothing else, than ``value``."""
    if chance.random() < 0.45:
        return value
    if chance.random() < 0.25:
        return UNKNOWN
    match value:
        case Array():
            return Array(
                chance.choice(
                    [
                        ANY_RANK,
                        Rank(max(0, value.rank.low - chance.randrange(3)), value.rank.low + chance.randrange(3)),
                        Rank(chance.randrange(value.rank.low + 1)),
                        value.rank,
                    ]
                ),
                chance.choice([Varying(frozenset(), None), value.varying, Varying(value.varying.at_least, None)]),
            )
        case Constant(value=bool() | int() | float()):
            return chance.choice([Number(), value])
        case Text():
            return Text()
        case Sequence(items=tuple() as items):
            if chance.random() < 0.4:
                return Sequence(None, value.kind, join_all(items))
            return Sequence(tuple(weakened(item, chance) for item in items), value.kind)
    return value


def answer(dotted: str, args: list[Value], kwargs: Mapping[str, Value], exact: bool) -> Value:
    if dotted.startswith("jax.Array."):
        owner, *rest = args
        return (
            rank_rules.method(owner, dotted.removeprefix("jax.Array."), rest, kwargs, exact_arguments=exact) or UNKNOWN
        )
    result = rank_rules.call(dotted, args, kwargs, exact_arguments=exact)
    assert result is not None
    return result


def check_row(dotted: str, wanted: int, weakenings: int, seed: int) -> int:
    chance = random.Random(f"{dotted}/{seed}")
    row = rank_rules.row(dotted)
    kinds = row is None or row.rule not in generator().LISTS_ONCE
    calls = accepted_calls(dotted, wanted, seed)
    for (args, kwargs), kind, size, result in calls:
        values = [generator().abstract(form) for form in args]
        named = {name: generator().abstract(form) for name, form in kwargs.items()}
        said = answer(dotted, values, named, True)
        assert generator().covers(said, result, kinds) is not None, (args, kwargs, kind, size, result, said)
        for _ in range(weakenings):
            fewer = [weakened(value, chance) for value in values]
            less = {name: weakened(value, chance) for name, value in named.items()}
            exact = chance.random() < 0.8
            if not exact:
                less = {name: value for name, value in less.items() if chance.random() < 0.5}
                keep = chance.randrange(len(fewer) + 1) if not dotted.startswith("jax.Array.") else len(fewer)
                fewer = fewer[:keep]
            said = answer(dotted, fewer, less, exact)
            assert generator().covers(said, result, kinds) is not None, (args, kwargs, result, fewer, less, exact, said)
    return len(calls)


def present(rows: list[str]) -> list[str]:
    return [dotted for dotted in rows if dotted in callables() and dotted.rpartition(".")[2] not in COLLECTIVES]


def test_every_row_agrees_with_jax() -> None:
    rows = present(ROWS)
    silent = [dotted for dotted in rows if not check_row(dotted, wanted=2, weakenings=4, seed=1)]
    # Names of the newest JAX that this one lacks, numpy's, and what no drawn call suits.
    absent = [dotted for dotted in ROWS if dotted.startswith("jax.") and dotted not in callables()]
    assert len(rows) > 800
    assert len(absent) < 45, absent
    assert len(silent) < 40, silent


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 4))
def test_every_row_agrees_with_jax_at_length(seed: int) -> None:
    for dotted in present(ROWS):
        check_row(dotted, wanted=10, weakenings=10, seed=seed)


# ------------------------------------------------------------------------------------------------------ varying axes


class Seen(Exception):
    """Raised inside a mapped function once it has been looked at."""


def under_shard_map(body: Callable[[list[Any]], Any], arrays: list[Any], over: list[frozenset[str]]) -> Any:
    """The result of ``body`` inside a shard_map over two axes, its arrays varying over those given."""
    mesh = jax.sharding.AbstractMesh((2, 2), AXES, axis_types=(jax.sharding.AxisType.Auto,) * 2)
    seen: list[Any] = []

    def mapped(inputs: list[Any]) -> Any:
        cast = [
            jax.lax.pcast(array, tuple(axes), to="varying") if axes else array
            for array, axes in zip(inputs, over, strict=True)
        ]
        seen.append(body(cast))
        raise Seen

    spec = jax.sharding.PartitionSpec()
    with pytest.raises(Seen):
        jax.eval_shape(jax.shard_map(mapped, mesh=mesh, in_specs=spec, out_specs=spec), arrays)
    return seen[0]


def varying_axes(array: Any) -> frozenset[str]:
    return frozenset(jax.typeof(array).manual_axis_type.varying)


def check_varying(said: Value, result: Any) -> bool:
    """Whether what is said of varying axes holds; True where it is exact for all arrays."""
    if isinstance(result, tuple | list):
        if not isinstance(said, Sequence):
            return False
        items = said.items if said.items is not None else (said.rest,) * len(result)
        outcomes = [check_varying(item, leaf) for item, leaf in zip(items, result, strict=True)]
        return all(outcomes)
    if not isinstance(result, jax.Array) or not isinstance(said, Array):
        return False
    real = varying_axes(result)
    assert said.varying.at_least <= real, (said, real)
    assert said.varying.at_most is None or real <= said.varying.at_most, (said, real)
    return said.varying.exact is not None


def check_row_varying(dotted: str, wanted: int, seed: int) -> list[bool]:
    chance = random.Random(f"{dotted}|{seed}")
    exact = []
    for (args, kwargs), kind, size, _ in accepted_calls(dotted, wanted, seed):
        builder = probe().Builder(size, kind)
        real = [builder.build(form) for form in args]
        named = {name: builder.build(form) for name, form in kwargs.items()}
        over = [frozenset(axis for axis in AXES if chance.random() < 0.4) for _ in builder.specs]
        counter = iter(over)

        def marked(form: Any, counter: Any = counter) -> Value:
            value: Value = generator().abstract(form)
            if isinstance(form, dict) and ("T" in form or "L" in form):
                assert isinstance(value, Sequence)
                return Sequence(tuple(marked(item) for item in form.get("T") or form.get("L") or ()), value.kind)
            return Array(value.rank, Varying.over(next(counter))) if isinstance(value, Array) else value

        values = [marked(form) for form in args]
        options = {name: marked(form) for name, form in kwargs.items()}

        def body(arrays: list[Any], real: Any = real, named: Any = named) -> Any:
            fill = probe().fill
            return callables()[dotted](
                *[fill(value, arrays) for value in real], **{name: fill(value, arrays) for name, value in named.items()}
            )

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = under_shard_map(body, builder.specs, over)
        except Exception:
            continue
        exact.append(check_varying(answer(dotted, values, options, True), result))
    return exact


def test_some_rows_vary_as_in_jax() -> None:
    rows = random.Random(3).sample(present(ROWS), 90)
    exact = [outcome for dotted in rows for outcome in check_row_varying(dotted, wanted=1, seed=1)]
    assert len(exact) > 60
    assert sum(exact) > 0.85 * len(exact)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_every_row_varies_as_in_jax(seed: int) -> None:
    exact = [outcome for dotted in present(ROWS) for outcome in check_row_varying(dotted, wanted=3, seed=seed)]
    assert sum(exact) > 0.85 * len(exact)


COLLECTIVE_CALLS: list[tuple[str, dict[str, Any]]] = [
    *[(name, {"axis_name": axes}) for name in ("psum", "pmean", "pmax", "pmin") for axes in ("i", ("i",), ("i", "j"))],
    *[
        ("all_gather", {"axis_name": axes, "tiled": tiled, **to})
        for axes in ("i", ("i", "j"))
        for tiled in (False, True)
        for to in ({}, {"to": "varying"}, {"to": "invarying"})
    ],
    *[("psum_scatter", {"axis_name": "i", "tiled": tiled}) for tiled in (False, True)],
    *[("all_to_all", {"axis_name": "j", "split_axis": 0, "concat_axis": 1, "tiled": tiled}) for tiled in (False, True)],
    ("ppermute", {"axis_name": "i", "perm": ((0, 1), (1, 0))}),
    ("pshuffle", {"axis_name": "i", "perm": (1, 0)}),
    ("pswapaxes", {"axis_name": "i", "axis": 0}),
    *[("pcast", {"axis_name": axes, "to": "varying"}) for axes in ("i", ("i", "j"))],
]


def as_value(form: Any) -> Value:
    if isinstance(form, str):
        return Text(form)
    if isinstance(form, tuple):
        return Sequence(tuple(map(as_value, form)))
    return Constant(form)


@pytest.mark.parametrize(
    "over",
    [frozenset(), frozenset("i"), frozenset("ij"), frozenset("j")],
    ids=lambda axes: "".join(sorted(axes)) or "none",
)
@pytest.mark.parametrize(("name", "options"), COLLECTIVE_CALLS, ids=str)
def test_collectives_against_shard_map(name: str, options: dict[str, Any], over: frozenset[str]) -> None:
    function = getattr(jax.lax, name)
    array = jax.ShapeDtypeStruct((2, 2), jnp.float32)
    try:
        result = under_shard_map(lambda arrays: function(arrays[0], **options), [array], [over])
    except Exception as error:
        pytest.skip(f"JAX rejects it: {error}")
    said = rank_rules.call(
        f"jax.lax.{name}",
        [Array(Rank.exactly(2), Varying.over(over))],
        {key: as_value(value) for key, value in options.items()},
    )
    assert isinstance(said, Array)
    assert said.rank == Rank.exactly(result.ndim)
    assert said.varying == Varying.over(varying_axes(result))


def test_axis_index_and_sizes() -> None:
    result = under_shard_map(lambda arrays: jax.lax.axis_index("i"), [], [])
    said = rank_rules.call("jax.lax.axis_index", [Text("i")], {})
    assert said == Array(Rank.exactly(result.ndim), Varying.over(varying_axes(result)))
    both = under_shard_map(lambda arrays: jax.lax.axis_index(("i", "j")), [], [])
    said = rank_rules.call("jax.lax.axis_index", [as_value(("i", "j"))], {})
    assert said == Array(Rank.exactly(0), Varying.over(varying_axes(both)))
    assert rank_rules.call("jax.lax.axis_size", [Text("i")], {}) == Number()
    assert isinstance(under_shard_map(lambda arrays: jax.lax.psum(1, "i"), [], []), int)
    assert rank_rules.call("jax.lax.psum", [Constant(1), Text("i")], {}) == Number()


def test_collectives_on_pytrees_and_unknown_axes() -> None:
    x = Array(Rank.exactly(1), Varying.over({"i", "j"}))
    pair = rank_rules.call("jax.lax.psum", [Sequence((x, x)), Text("i")], {})
    reduced = Array(Rank.exactly(1), Varying.over({"j"}), frozenset({"i"}))
    assert pair == Sequence((reduced, reduced))
    said = rank_rules.call("jax.lax.psum", [x, UNKNOWN], {})
    assert said == Array(Rank.exactly(1), Varying(frozenset(), frozenset({"i", "j"})))
    said = rank_rules.call("jax.lax.ppermute", [x, Text()], {"perm": UNKNOWN})
    assert said == Array(Rank.exactly(1), Varying(frozenset({"i", "j"}), None))
    assert rank_rules.call("jax.lax.psum", [UNKNOWN, Text("i")], {}) == UNKNOWN
    grouped = rank_rules.call("jax.lax.psum", [x, Text("i")], {"axis_index_groups": as_value(((0,), (1,)))})
    assert grouped == Array(Rank.exactly(1), Varying(frozenset(), frozenset({"i", "j"})))


# ---------------------------------------------------------------------------------- methods, attributes, operators


def exactly(rank: int, *axes: str) -> Array:
    return Array(Rank.exactly(rank), Varying.over(axes))


@pytest.mark.parametrize("rank", range(5))
def test_attributes(rank: int) -> None:
    array = jnp.zeros((2,) * rank)
    for name in ("T", "mT", "real", "imag"):
        try:
            real = getattr(array, name)
        except ValueError:
            continue
        assert rank_rules.attribute(exactly(rank, "i"), name) == exactly(real.ndim, "i")
    shape = rank_rules.attribute(exactly(rank), "shape")
    assert shape == Sequence((Number(),) * len(array.shape))
    assert rank_rules.attribute(exactly(rank), "ndim") == Constant(array.ndim)
    assert rank_rules.attribute(exactly(rank), "size") == Number()
    assert rank_rules.attribute(Array(), "shape") == Sequence(None, rest=Number())
    assert rank_rules.attribute(exactly(rank), "sum") == BoundMethod(exactly(rank), "sum")
    assert rank_rules.attribute(exactly(rank), "dtype") == UNKNOWN
    assert rank_rules.attribute(Text("x"), "T") is None


@pytest.mark.parametrize("left", [0, 1, 2, 3, 1.5])
@pytest.mark.parametrize("right", [0, 1, 2, 3, 2.5])
@pytest.mark.parametrize("op", ["+", "-", "*", "/", "//", "%", "**", "@", "<", "==", "!="])
def test_operators(left: float, right: float, op: str) -> None:
    def real(rank: float) -> Any:
        return jnp.ones((2,) * rank) if isinstance(rank, int) else rank

    def value(rank: float, axis: str) -> Value:
        return exactly(rank, axis) if isinstance(rank, int) else Constant(rank)

    tree = ast.parse(f"a {op} b", mode="eval").body
    if isinstance(tree, ast.BinOp):
        said = rank_rules.binary(tree.op, value(left, "i"), value(right, "j"))
    else:
        assert isinstance(tree, ast.Compare)
        said = rank_rules.compare(tree.ops[0], value(left, "i"), value(right, "j"))
    if not isinstance(left, int) and not isinstance(right, int):
        return
    try:
        result = eval(f"a {op} b", {"a": real(left), "b": real(right)})
    except (TypeError, ValueError):
        return
    axes = [axis for rank, axis in ((left, "i"), (right, "j")) if isinstance(rank, int)]
    assert said == exactly(result.ndim, *axes)


def test_operators_on_little_knowledge() -> None:
    assert rank_rules.binary(ast.Add(), Number(), Constant(2)) == Number()
    assert rank_rules.binary(ast.Add(), Constant(3), Constant(2)) == Constant(5)
    assert rank_rules.binary(ast.Div(), Constant(3), Constant(0)) == UNKNOWN
    assert rank_rules.binary(ast.Add(), Text("a"), Text("b")) is None
    said = rank_rules.binary(ast.Add(), exactly(1, "i"), UNKNOWN)
    assert said == Array(Rank(1, None), Varying(frozenset({"i"}), None))
    assert rank_rules.unary(ast.USub(), exactly(2, "i")) == exactly(2, "i")
    assert rank_rules.unary(ast.Not(), exactly(0)) == Number()
    assert rank_rules.compare(ast.Is(), exactly(0), Constant(None)) == Number()


# ------------------------------------------------------------------------------------------------------- indexing


def random_index(chance: random.Random, rank: int) -> tuple[Any, Value]:
    """An index for an array of ``(3,) * rank`` with its abstract value."""
    real: list[Any] = []
    values: list[Value] = []
    left = rank
    ellipsis = False
    for _ in range(chance.randrange(1, 5)):
        kind = chance.choice(["int", "slice", "none", "ellipsis", "array", "number", "newaxis", "scalar"])
        if kind in ("int", "number", "slice", "array", "scalar") and not left:
            continue
        if kind in ("int", "number"):
            real.append(1)
            values.append(Constant(1) if kind == "int" else Number())
        elif kind == "slice":
            real.append(chance.choice([slice(None), slice(1, None), slice(None, None, 2)]))
            values.append(Constant(slice(None)))
        elif kind in ("none", "newaxis"):
            real.append(None)
            values.append(Constant(None) if kind == "none" else JaxObject("jax.numpy.newaxis"))
            continue
        elif kind == "ellipsis":
            if ellipsis:
                continue
            ellipsis = True
            real.append(...)
            values.append(Constant(...))
            continue
        else:
            inner = 0 if kind == "scalar" else chance.randrange(1, 4)
            real.append(jnp.zeros((2,) * inner, int))
            values.append(exactly(inner, "j"))
        left -= 1
    if len(real) == 1 and chance.random() < 0.5:
        return real[0], values[0]
    return tuple(real), Sequence(tuple(values))


@pytest.mark.parametrize("seed", range(12))
def test_indexing(seed: int) -> None:
    chance = random.Random(seed)
    exact = 0
    for _ in range(25):
        rank = chance.randrange(5)
        array = jnp.zeros((3,) * rank)
        real, value = random_index(chance, rank)
        result = jax.eval_shape(lambda x, real=real: x[real], array)
        said = rank_rules.index(exactly(rank, "i"), value)
        assert isinstance(said, Array)
        assert generator().covers(said, {"A": len(result.shape)}) is not None, (rank, real, said, result)
        exact += said.rank.exact is not None
        less = rank_rules.index(Array(Rank(max(0, rank - 1), rank + 1)), weakened(value, chance))
        assert generator().covers(less or UNKNOWN, {"A": len(result.shape)}) is not None, (rank, real, less, result)
    assert exact > 15


def test_masks() -> None:
    mask = Array(Rank.exactly(2), INVARIANT)
    said = rank_rules.index(exactly(2), mask)
    assert generator().covers(said, {"A": jnp.zeros((2, 2))[jnp.ones((2, 2), bool)].ndim}) is not None
    assert generator().covers(said, {"A": jnp.zeros((2, 2))[jnp.ones((2, 2), int)].ndim}) is not None
    assert rank_rules.index(exactly(2), exactly(1)) == exactly(2)
    assert rank_rules.index(exactly(2), Constant(True)) == exactly(jnp.zeros((2, 2))[True].ndim)


@pytest.mark.parametrize("name", ["set", "add", "multiply", "divide", "power", "min", "max", "get", "apply"])
def test_updates(name: str) -> None:
    at = rank_rules.attribute(exactly(2, "i"), "at")
    assert at is not None
    place = rank_rules.index(at, Sequence((Constant(0), Constant(slice(None)))))
    assert isinstance(place, BoundMethod)
    arguments: list[Value] = [] if name == "get" else [exactly(0, "j")]
    said = rank_rules.method(place.owner, f"{place.name}.{name}", arguments, {})
    target = jnp.zeros((2, 2)).at[0, :]
    real = target.get() if name == "get" else target.apply(jnp.sin) if name == "apply" else getattr(target, name)(1.0)
    assert isinstance(said, Array)
    assert said.rank == Rank.exactly(real.ndim)
    if name == "apply":
        assert said.varying == Varying(frozenset("i"), None)
    else:
        assert said.varying == Varying.over("i" if name == "get" else "ij")


# ------------------------------------------------------------------------------------------------------ particulars


@pytest.mark.parametrize(
    ("dotted", "arguments", "keywords", "expected"),
    [
        ("jax.numpy.sum", [exactly(2, "i")], {"axis": UNKNOWN}, Array(Rank(0, 2), Varying.over("i"))),
        ("jax.numpy.sum", [Array(Rank(1, None), INVARIANT)], {}, exactly(0)),
        ("jax.numpy.sum", [Array(Rank(1, 2), INVARIANT)], {"axis": Constant(0)}, Array(Rank(0, 1), INVARIANT)),
        ("jax.numpy.sum", [exactly(2)], {"keepdims": UNKNOWN}, Array(Rank(0, 2), INVARIANT)),
        ("jax.numpy.zeros", [UNKNOWN], {}, Array(ANY_RANK, INVARIANT)),
        ("jax.numpy.zeros", [Sequence((UNKNOWN, Number()))], {"dtype": UNKNOWN}, exactly(2)),
        ("jax.numpy.array", [Sequence((Constant(1), Constant(2)), "list")], {}, exactly(1)),
        ("jax.numpy.array", [exactly(0, "i")], {"ndmin": Constant(1)}, exactly(1, "i")),
        ("jax.numpy.stack", [Sequence((exactly(0, "i"), exactly(0)), "list")], {}, exactly(1, "i")),
        ("jax.numpy.concatenate", [Sequence(None, "list", exactly(2))], {"axis": UNKNOWN}, Array(Rank(1, 2), INVARIANT)),
        ("jax.numpy.einsum", [Text("bij,bjk->bik"), exactly(3, "i"), UNKNOWN], {}, Array(Rank.exactly(3), Varying(frozenset("i"), None))),
        ("jax.numpy.einsum", [Text(), exactly(3), exactly(3)], {}, Array(ANY_RANK, INVARIANT)),
        ("jax.random.normal", [UNKNOWN, Sequence((Constant(2),))], {}, Array(Rank.exactly(1), Varying(frozenset(), None))),
        ("jax.numpy.shape", [exactly(2, "i")], {}, Sequence((Number(), Number()))),
        ("jax.numpy.ndim", [exactly(2, "i")], {}, Constant(2)),
        ("math.sqrt", [Number()], {}, Number()),
        ("numpy.prod", [Sequence((Constant(2), Constant(3)))], {}, exactly(0)),
        ("numpy.arange", [Constant(3)], {}, exactly(1)),
    ],
)  # fmt: skip
def test_what_is_said(dotted: str, arguments: list[Value], keywords: dict[str, Value], expected: Value) -> None:
    assert rank_rules.call(dotted, arguments, keywords) == expected


def test_what_a_row_does_not_tell_of_is_unknown() -> None:
    assert rank_rules.call("jax.numpy.linspace", [Constant(0), Constant(1)], {"retstep": Constant(True)}) == UNKNOWN
    assert rank_rules.call("jax.numpy.sum", [exactly(1)], {"nonsense": Constant(1)}) == UNKNOWN
    assert rank_rules.call("jax.numpy.linspace", [Constant(0), Constant(1)], {}) == exactly(1)
    assert rank_rules.call("flax.linen.Dense", [Constant(0)], {}) is None


def test_pytrees_are_no_arrays() -> None:
    pair = Sequence((exactly(1, "i"), exactly(2)))
    assert rank_rules.call("jax.lax.stop_gradient", [pair], {}) == pair
    assert rank_rules.call("jax.lax.cumsum", [pair], {}) == UNKNOWN


@pytest.mark.parametrize("axis", [0, 1, None])
def test_methods_of_ufuncs(axis: int | None) -> None:
    array = jnp.ones((2, 2))
    said = rank_rules.call("jax.numpy.add.reduce", [exactly(2)], {"axis": Constant(axis)})
    assert said == exactly(jnp.add.reduce(array, axis=axis).ndim)
    assert rank_rules.call("jax.numpy.add.outer", [exactly(2), exactly(1)], {}) == exactly(3)
    assert jnp.add.outer(array, array[0]).ndim == 3
    assert rank_rules.call("jax.numpy.sum.reduce", [exactly(2)], {}) is None


def test_initializers() -> None:
    made = rank_rules.call("jax.nn.initializers.normal", [Constant(0.02)], {})
    assert made == JaxObject("jax.nn.initializers.normal()")
    key = exactly(1)
    assert rank_rules.call("jax.nn.initializers.normal()", [key, Sequence((Number(), Number()))], {}) == exactly(2)
    assert jax.nn.initializers.normal(0.02)(jax.random.PRNGKey(0), (2, 2)).ndim == 2


def test_what_may_be_passed_besides_widens() -> None:
    said = rank_rules.call("jax.numpy.sum", [exactly(2, "i")], {}, exact_arguments=False)
    assert said == UNKNOWN or (isinstance(said, Array) and said.rank == Rank(0, 2) and said.varying.at_most is None)


def test_axes_that_a_collective_made_equal_are_remembered() -> None:
    x = rank_rules.call("jax.lax.psum", [exactly(1, "i"), Text("i")], {})
    assert isinstance(x, Array)
    doubled = rank_rules.binary(ast.Mult(), x, Constant(2))
    assert isinstance(doubled, Array)
    assert doubled.reduced == frozenset("i")
    mixed = rank_rules.binary(ast.Mult(), x, exactly(1, "i"))
    assert isinstance(mixed, Array)
    assert mixed.reduced == frozenset()


def test_the_table_is_well_formed() -> None:
    for dotted in ROWS:
        if dotted.rpartition(".")[2] in COLLECTIVES and dotted.startswith("jax.lax."):
            continue
        row = rank_rules.row(dotted)
        assert row is not None
        names = {*row.parameters.positional, *row.parameters.keyword, row.parameters.variadic}
        assert {role for role in row.roles if isinstance(role, str)} <= names, dotted
        assert set(row.carried) <= names, dotted
    assert json.dumps(ROWS)
