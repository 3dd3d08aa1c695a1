"""The table of JAX's API against the installed JAX."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.version import Version

from shardfix.semantics import jax_api
from shardfix.semantics.jax_api import Takes, Unmeshed

jax = pytest.importorskip("jax")
SCRIPT = Path(__file__).parents[1] / "scripts" / "generate_jax_api.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_jax_api", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def installed(generator: ModuleType) -> dict[str, dict[str, dict[str, Any]]]:
    """What the installed JAX has: callable, parameter, position."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: dict[str, dict[str, dict[str, Any]]] = generator.sharding_parameters()
    return found


def in_installed(parameter: jax_api.Parameter) -> bool:
    version = Version(jax.__version__)
    return Version(parameter.since) <= version and (parameter.until is None or version <= Version(parameter.until))


def test_every_sharding_parameter_of_the_installed_jax_is_in_the_table(
    installed: dict[str, dict[str, dict[str, Any]]],
) -> None:
    for dotted, rows in installed.items():
        table = {parameter.name: parameter for parameter in jax_api.sharding_parameters(dotted)}
        assert set(rows) <= set(table), dotted
        for name, row in rows.items():
            assert table[name].position == row["position"], (dotted, name)


def test_every_row_is_in_the_installed_jax(installed: dict[str, dict[str, dict[str, Any]]]) -> None:
    missing = [
        (dotted, parameter.name)
        for dotted in jax_api.sharding_callables()
        for parameter in jax_api.sharding_parameters(dotted)
        if in_installed(parameter) and parameter.name not in installed.get(dotted, {})
    ]
    assert not missing


def test_the_table_has_the_95_callables_and_the_initializers() -> None:
    current = [
        dotted
        for dotted in jax_api.out_sharding_callables()
        if (parameter := jax_api.out_sharding_parameter(dotted)) is not None and parameter.until is None
    ]
    assert len([dotted for dotted in current if not dotted.endswith("()")]) == 95
    assert "jax.nn.initializers.lecun_normal()" in current


@pytest.mark.parametrize(
    ("dotted", "position", "creates", "device", "unmeshed"),
    [
        ("jax.numpy.zeros", None, True, True, Unmeshed.IGNORED),
        ("jax.numpy.empty", None, True, True, Unmeshed.RAISES),
        ("jax.random.normal", None, True, False, Unmeshed.RAISES),
        ("jax.numpy.einsum", None, False, False, Unmeshed.IGNORED),
        ("jax.ops.segment_sum", 7, False, False, Unmeshed.RAISES),
        ("jax.Array.at[...].get", None, False, False, Unmeshed.RAISES),
        ("jax.nn.initializers.normal()", 3, True, False, Unmeshed.RAISES),
    ],
)
def test_out_sharding_rows(dotted: str, position: int | None, creates: bool, device: bool, unmeshed: Unmeshed) -> None:
    parameter = jax_api.out_sharding_parameter(dotted)
    assert parameter is not None
    assert (parameter.position, parameter.creates, parameter.device) == (position, creates, device)
    assert parameter.unmeshed is unmeshed
    assert parameter.unmeshed_auto is Unmeshed.RAISES


def test_what_other_parameters_take() -> None:
    taken = {
        (dotted, parameter.name): parameter.takes
        for dotted in jax_api.sharding_callables()
        for parameter in jax_api.sharding_parameters(dotted)
    }
    assert taken["jax.shard_map", "in_specs"] is Takes.SPEC_TREE
    assert taken["jax.sharding.NamedSharding", "spec"] is Takes.SPEC
    assert taken["jax.device_put", "device"] is Takes.DEVICE_TREE
    assert taken["jax.sharding.auto_axes", "out_sharding"] is Takes.SHARDING_TREE
    assert taken["jax.lax.with_sharding_constraint", "shardings"] is Takes.SHARDING_TREE
    assert Takes.SPEC_TREE.tree
    assert not Takes.SPEC.tree


def test_unknown_callables_have_no_parameters() -> None:
    assert jax_api.out_sharding_parameter("flax.linen.Dense") is None
    assert jax_api.out_sharding_parameter("jax.numpy.sum") is None
    assert jax_api.sharding_parameters("jax.numpy.sum") == ()
    assert jax_api.parameters("jax.numpy.sum") is None


def test_signatures_against_the_installed_jax(generator: ModuleType) -> None:
    seen = 0
    for dotted in generator.BOUND:
        try:
            value = generator.find(dotted)
        except (AttributeError, ImportError):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            real = generator.signature(dotted, value)
        table = jax_api.signature(dotted)
        if real is None:
            continue
        assert table is not None, dotted
        seen += 1
        positional = [name for name, kind in real if kind == "positional"]
        assert list(map(table.newest_name, positional)) == list(table.positional[: len(positional)]), dotted
        keywords = [name for name, kind in real if kind == "keyword"]
        assert set(keywords) <= {*table.positional, *table.keyword}, dotted
        assert table.variadic == next((name for name, kind in real if kind == "variadic"), None), dotted
    assert seen > 60


def test_old_positions_and_names_bind() -> None:
    assert (jax_api.parameters("jax.jit") or ())[:3] == ("fun", "in_shardings", "out_shardings")
    shard_map = jax_api.parameters("jax.experimental.shard_map.shard_map")
    assert shard_map == ("f", "mesh", "in_specs", "out_specs", "check_rep", "auto")
    make_mesh = jax_api.signature("jax.make_mesh")
    assert make_mesh is not None
    assert make_mesh.newest_name("axis_shapes") == "axis_sizes"
    assert make_mesh.newest_name("axis_names") == "axis_names"


def test_classes_that_do_not_say_their_parameters() -> None:
    mesh = jax.sharding.AbstractMesh((1,), ("x",))
    spec = jax.sharding.PartitionSpec("x", unreduced=frozenset(), reduced=frozenset())
    positional = jax.sharding.NamedSharding(mesh, spec)
    assert positional == jax.sharding.NamedSharding(mesh=mesh, spec=spec, memory_kind=None)
    assert jax_api.parameters("jax.sharding.NamedSharding") == ("mesh", "spec", "memory_kind")


def test_importing_the_reader_reads_nothing() -> None:
    code = (
        "import shardfix.semantics.jax_api as api, sys;"
        "assert not api._table.cache_info().currsize; assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
