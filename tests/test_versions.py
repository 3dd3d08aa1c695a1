"""What shardfix writes, on the JAX versions that it is claimed for (``scripts/check_versions.py``)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

jax = pytest.importorskip("jax")
SCRIPT = Path(__file__).parents[1] / "scripts" / "check_versions.py"
FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*/*.py"))
CHEAP = ("renames/trees", "renames/former_homes", "positional_sharding/attribute", "abstract_mesh_pairs/pairs")
"""Fixtures whose repaired text is run in every test run."""


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_versions", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_versions"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


script = load()


@pytest.fixture(scope="session")
def known() -> list[Any]:
    found: list[Any] = script.environments()
    if len(found) < 2:
        pytest.skip("no JAX environments: see scripts/check_versions.py --build")
    return found


@pytest.fixture(scope="session")
def here() -> Any:
    return script.Environment(Version(jax.__version__), Path(sys.executable))


def case_of(name: str) -> Any:
    case = script.repaired(Path(__file__).parent / "fixtures" / f"{name}.py")
    assert case is not None
    return case


def test_the_fixes_say_what_jax_they_need() -> None:
    assert case_of("pvary/calls").since == Version("0.8.2")
    assert case_of("renames/sharding_in_types").since == Version("0.7.0")
    assert "jax.lax.pcast" in case_of("pvary/calls").claimed


def test_a_false_claim_is_noticed(here: Any) -> None:
    case = script.Repaired(
        name="made/up",
        path=Path("up.py"),
        source="import jax\nraise SystemExit('it does not run')\n",
        since=Version("0.4.0"),
        claimed=frozenset({"jax.jit"}),
        other_names=frozenset({"jax"}),
        runs_on=SpecifierSet(""),
    )
    (fault,) = script.faults(case, [here])
    assert "fails on JAX" in fault
    lacking = script.Repaired(**{**vars(case), "claimed": frozenset({"jax.tree_map"})})
    (fault,) = script.faults(lacking, [here])
    assert "has no jax.tree_map" in fault


@pytest.mark.parametrize("name", CHEAP)
def test_on_the_jax_of_this_interpreter(name: str, here: Any) -> None:
    assert script.faults(case_of(name), [here]) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_on_the_oldest_and_the_newest(path: Path, known: list[Any]) -> None:
    case = script.repaired(path)
    if case is None:
        pytest.skip("nothing is repaired")
    assert script.faults(case, known) == []
