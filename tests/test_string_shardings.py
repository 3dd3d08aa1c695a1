"""Strings as shardings, and shardings without a mesh: the manual pages, the decisions, and every callable against JAX."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jax_process import JaxProcess

from shardfix import fixer
from shardfix.codemod import Finding, Safety, all_codemods
from shardfix.manual import sections
from shardfix.semantics.jax_api import out_sharding_callables
from shardfix.semantics.module import Module
from shardfix.semantics.project import Project
from shardfix.settings import Settings

PAGES = ("string-shardings", "meshless-shardings")
HEAD = (
    "import jax\nimport jax.numpy as jnp\nfrom jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P\n"
)
MESH = 'mesh = jax.make_mesh((8,), ("x",))\n'


@pytest.fixture(scope="module")
def jax_process() -> Iterator[JaxProcess]:
    process = JaxProcess()
    yield process
    process.close()


@pytest.mark.parametrize("name", PAGES)
def test_the_manual_page_shows_what_is_done(
    name: str, tmp_path: Path, shardfix_command: Callable[..., Any], jax_process: JaxProcess
) -> None:
    page = sections(all_codemods()[name].manual_page())
    (tmp_path / ".git").mkdir()
    program = tmp_path / "program.py"
    program.write_text(page["Before"])
    assert jax_process.run(program).code != 0
    shardfix_command("--write", "--select", name, program)
    assert program.read_text() == page["After"]
    after = jax_process.run(program)
    assert after.code == 0, after.output


def findings(name: str, source: str, settings: Settings | None = None, **others: str) -> list[Finding]:
    """What one codemod finds in a module, with other modules beside it."""
    sources = {"/p/program.py": HEAD + source, **{f"/p/{key}.py": text for key, text in others.items()}}
    project = Project(sources, read=sources.get, sources=sources)
    module = Module(sources["/p/program.py"], "/p/program.py", project)
    project.adopt(module)
    return list(all_codemods()[name](settings or Settings()).findings(module))


def repaired(source: str, settings: Settings | None = None) -> str:
    """What both codemods make of a module, without its head."""
    codemods = [all_codemods()[name] for name in PAGES]
    result = fixer.fix(HEAD + source, "program.py", settings or Settings(), Project(), codemods)
    assert not result.failures
    return result.source.removeprefix(HEAD)


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        ('"x"', 'P("x")'),
        ("'x'", "P('x')"),
        ('("x",)', 'P("x")'),
        ('("x", None)', 'P("x", None)'),
        ('["x", None]', 'P("x", None)'),
        ('(("x", "y"), None)', 'P(("x", "y"), None)'),
        ('[["x", "y"], None]', 'P(("x", "y"), None)'),
        ('[["x"], None]', 'P(("x",), None)'),
        ("()", "P()"),
        ('f"x{i}"', 'P(f"x{i}")'),
        ('"x" "y"', 'P("x" "y")'),
        ('("x",) + (None,)', 'P(*("x",) + (None,))'),
        ('("x", *rest)', 'P("x", *rest)'),
        ("tuple(axes)", "P(*tuple(axes))"),
    ],
)
def test_what_a_string_or_tuple_stands_for(argument: str, code: str) -> None:
    before = f"with jax.set_mesh(make()):\n    y = jnp.zeros((8, 2), out_sharding={argument})\n"
    assert repaired(before) == before.replace(f"={argument}", f"={code}")


@pytest.mark.parametrize(
    ("spelling", "kept"),
    [("None", "None"), ('P("x")', 'P("x")'), ("spec", "spec"), ("self.spec", "self.spec"), ("make()", "make()")],
)
def test_what_is_right_or_unknown_stays(spelling: str, kept: str) -> None:
    source = f"def f(self, spec, x):\n    return jnp.reshape(x, 8, out_sharding={spelling})\n"
    assert repaired(source) == source.replace(spelling, kept)
    assert findings("string-shardings", source) == []


def test_older_targets_get_what_they_have() -> None:
    source = MESH.replace('("x",)', '("x",), axis_types=(AxisType.Explicit,)') + (
        'with jax.set_mesh(mesh):\n    y = jax.lax.with_sharding_constraint(x, "x")\n'
    )
    assert "jax.reshard(x" in repaired(source)
    older = repaired(source, Settings(target_jax="0.7.2"))
    assert "NamedSharding, PartitionSpec as P, reshard" in older
    assert "y = reshard(x" in older
    (finding,) = findings("string-shardings", source, Settings(target_jax="0.6"))
    assert finding.fix is not None
    assert finding.fix.needs_jax == "0.7"


def test_the_default_axis_types_of_older_targets_are_not_taken_for_explicit() -> None:
    source = MESH + 'with jax.set_mesh(mesh):\n    y = jax.lax.with_sharding_constraint(x, "x")\n'
    assert "with_sharding_constraint(x, NamedSharding" in repaired(source, Settings(target_jax="0.8"))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (MESH + 'y = jnp.zeros(8, out_sharding="batch")', "has no axis `batch`; it has `x`"),
        (MESH + 'with jax.set_mesh(mesh):\n    jnp.zeros(8, out_sharding="z")', "has no axis `z`"),
        ('y = jnp.zeros(8, out_sharding="x")', "no mesh is in view"),
        (MESH + MESH.replace("mesh =", "other =") + 'y = jnp.zeros(8, out_sharding="x")', "`mesh` or `other`"),
        (MESH + "y = jnp.zeros(8, out_sharding={'rows': 'x'})", "write the spec as P(...)"),
        (MESH + 'y = jnp.zeros(8, out_sharding="")', "an empty string names no axis"),
        (MESH + "y = jax.device_put(x, 'gpu:0')", "a platform is no device"),
        (MESH + "y = thing.data.reshape(8, out_sharding='x')", "is not in view"),
        (MESH + "def f(t):\n    return jax.device_put(t, ('x', None))", "what is placed are not in view"),
        (MESH + "f = jax.shard_map(g, mesh=mesh, in_specs=('x', 'y'), out_specs=P())", "the function's arguments"),
        (
            MESH + "f = jax.shard_map(lambda a, b, c: a, mesh=mesh, in_specs=('x', 'x'), out_specs=P())",
            "for 3 parameters",
        ),
    ],
)
def test_reports_say_why(source: str, reason: str) -> None:
    (finding,) = findings("string-shardings", source + "\n")
    assert finding.safety is Safety.MANUAL
    assert reason in finding.reason


def test_constants_of_other_modules_are_read() -> None:
    source = (
        MESH
        + "from layout import AXES, Layout, SPEC\ndef f(layout: Layout):\n"
        + "".join(f"    yield jnp.zeros(8, out_sharding={value})\n" for value in ("AXES", "layout.rows", "SPEC"))
    )
    layout = (
        "from jax.sharding import PartitionSpec\nimport dataclasses\nAXES = ('x', None)\nSPEC = PartitionSpec('x')\n"
    )
    layout += "@dataclasses.dataclass\nclass Layout:\n    rows: tuple = ('x', None)\n"
    found = findings("string-shardings", source, layout=layout)
    assert [finding.range.line for finding in found] == [7, 8]
    assert all(finding.safety is Safety.SAFE for finding in found)


@pytest.mark.parametrize(
    "source",
    [
        'class Thing:\n    def reshape(self, out_sharding): ...\nThing().reshape(out_sharding="x")',
        'from flax import nnx\nw = nnx.Param(jnp.ones(8), out_sharding=("embed", None))',
        'from flax import nnx\ny = nnx.Linear(2, 2, rngs=r)(x, out_sharding=("embed", None))',
        'def zeros(n, out_sharding): ...\nzeros(8, out_sharding="x")',
        'import numpy as jnp\ny = jnp.zeros(8, out_sharding="x")',
        'try:\n    y = jnp.zeros(8, out_sharding="x")\nexcept TypeError:\n    y = jax.device_put(x)',
        "y = jax.device_put(x, jax.devices()[0])\nz = jax.device_put(x, None)",
        "f = jax.jit(g, device='cpu', backend='cpu')",
        "with pytest.raises(TypeError):\n    jnp.zeros(8, out_sharding='x')",
        "with self.assertRaisesRegex(TypeError, 'only supports'):\n    jnp.zeros(8, out_sharding='x')",
    ],
)
def test_what_is_not_jax_is_left_alone(source: str) -> None:
    assert findings("string-shardings", source + "\n") == []


# Every callable, in every situation

CALLS = {
    "jnp.zeros": "jnp.zeros((8, 2), {})",
    "jnp.ones": "jnp.ones((8, 2), {})",
    "jnp.full": "jnp.full((8, 2), 3.0, {})",
    "jnp.empty": "jnp.empty((8, 2), {})",
    "jnp.arange": "jnp.arange(8, {})",
    "jnp.array": "jnp.array([1.0] * 8, {})",
    "jnp.asarray": "jnp.asarray([1.0] * 8, {})",
    "jnp.zeros_like": "jnp.zeros_like(jnp.ones((8, 2)), {})",
    "jnp.ones_like": "jnp.ones_like(jnp.ones((8, 2)), {})",
    "jnp.full_like": "jnp.full_like(jnp.ones((8, 2)), 3.0, {})",
    "jnp.reshape": "jnp.reshape(jnp.ones((4, 4)), (8, 2), {})",
    "jnp.ravel": "jnp.ravel(jnp.ones((4, 4)), {})",
    "jnp.broadcast_to": "jnp.broadcast_to(jnp.ones(2), (8, 2), {})",
    "jnp.repeat": "jnp.repeat(jnp.ones(4), 2, total_repeat_length=8, {})",
    "jnp.einsum": 'jnp.einsum("ij,jk->ik", jnp.ones((8, 4)), jnp.ones((4, 2)), {})',
    "jnp.dot": "jnp.dot(jnp.ones((8, 4)), jnp.ones((4, 2)), {})",
    "jnp.matmul": "jnp.matmul(jnp.ones((8, 4)), jnp.ones((4, 2)), {})",
    "jnp.tensordot": "jnp.tensordot(jnp.ones((8, 4)), jnp.ones((4, 2)), 1, {})",
    "lax.reshape": "jax.lax.reshape(jnp.ones((4, 4)), (8, 2), {})",
    "lax.broadcast": "jax.lax.broadcast(jnp.ones(2), (8,), {})",
    "lax.broadcast_in_dim": "jax.lax.broadcast_in_dim(jnp.ones(2), (8, 2), (1,), {})",
    "lax.broadcasted_iota": "jax.lax.broadcasted_iota(jnp.int32, (8, 2), 0, {})",
    "lax.dot_general": "jax.lax.dot_general(jnp.ones((8, 4)), jnp.ones((4, 2)), (((1,), (0,)), ((), ())), {})",
    "Array.reshape": "jnp.ones((4, 4)).reshape((8, 2), {})",
    "Array.ravel": "jnp.ones((4, 4)).ravel({})",
    "Array.at.get": "jnp.ones((4, 4)).at[jnp.arange(8) % 4].get({})",
    "Array.at.set": "jnp.ones((8, 4)).at[0].set(2.0, {})",
    "random.normal": "jax.random.normal(jax.random.key(0), (8, 2), {})",
    "random.uniform": "jax.random.uniform(jax.random.key(0), (8, 2), {})",
    "random.randint": "jax.random.randint(jax.random.key(0), (8, 2), 0, 4, {})",
    "random.bits": "jax.random.bits(jax.random.key(0), (8, 2), {})",
    "random.gumbel": "jax.random.gumbel(jax.random.key(0), (8, 2), {})",
    "random.bernoulli": "jax.random.bernoulli(jax.random.key(0), 0.5, (8, 2), {})",
    "random.truncated_normal": "jax.random.truncated_normal(jax.random.key(0), -1.0, 1.0, (8, 2), {})",
    "initializers.normal": "jax.nn.initializers.normal()(jax.random.key(0), (8, 2), {})",
    "initializers.zeros": "jax.nn.initializers.zeros(jax.random.key(0), (8, 2), {})",
    "ops.segment_sum": "jax.ops.segment_sum(jnp.ones(8), jnp.arange(8), 8, {})",
}
EXPLICIT = "mesh = jax.make_mesh((8,), ('x',), axis_types=(AxisType.Explicit,))\n"
AUTO = "mesh = jax.make_mesh((8,), ('x',), axis_types=(AxisType.Auto,))\n"
EAGER = "def make():\n    return CALL\n"
JITTED = "@jax.jit\ndef make():\n    return CALL\n"
SITUATIONS = {
    f"{kind} {where} {how}": mesh + define + run
    for kind, mesh in (("explicit", EXPLICIT), ("auto", AUTO))
    for where, run in (("set", "with jax.set_mesh(mesh):\n    result = make()\n"), ("unset", "result = make()\n"))
    for how, define in (("eager", EAGER), ("jitted", JITTED))
}


@pytest.mark.slow
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize(
    "given", ['out_sharding="x"', 'out_sharding=P("x")', "out_sharding=NamedSharding(mesh, P('x'))"]
)
def test_every_callable_ends_up_divided(situation: str, given: str) -> None:
    """Wrong spelling or wrong place: what comes out of the repair runs, and is divided as it was asked for."""
    import jax

    reported_only = given != 'out_sharding="x"' and "auto" in situation  # the choice is the author's
    failed = []
    for name, call in CALLS.items():
        source = HEAD + SITUATIONS[situation].replace("CALL", call.format(given))
        codemods = [all_codemods()[codemod] for codemod in PAGES]
        result = fixer.fix(source, "program.py", Settings(), Project(), codemods)
        if reported_only:
            assert result.source == source, name
            assert result.findings, name
            continue
        variables: dict[str, Any] = {}
        try:
            with contextlib.ExitStack():
                exec(compile(result.source, name, "exec"), variables)
            array = variables["result"]
            divided = array.addressable_shards[0].data.shape[0] * 8 == array.shape[0]
            if not divided:
                failed.append(f"{name}: {jax.typeof(array)} {array.sharding}\n{result.source}")
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__} {str(error)[:200]}\n{result.source}")
    assert not failed, "\n".join(failed)


def test_the_calls_are_of_many_callables() -> None:
    """The campaign above covers what makes arrays; a callable that is new in the table should be added to it."""
    assert {f"jax.numpy.{name[4:]}" for name in CALLS if name.startswith("jnp.")} <= out_sharding_callables()
