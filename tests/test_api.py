"""shardfix for scripts: the functions of the package, on executors of all kinds."""

from __future__ import annotations

import doctest
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import pytest

import shardfix
from shardfix import api, fix_paths, remote
from shardfix.outcomes import FileOutcome, Outcome

MAPPED = """\
import jax
from jax.sharding import PartitionSpec as P
from package.layers import loss, mesh

step = jax.shard_map(loss, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
"""
LAYERS = "import jax, jax.numpy as jnp\nmesh = jax.make_mesh((8,), ('data',))\ndef loss(x):\n    return jnp.sum(x)\n"


@pytest.mark.parametrize("module", [shardfix, api])
def test_the_examples(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_all_that_is_said_to_be_there_is() -> None:
    for name in shardfix.__all__:
        assert getattr(shardfix, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'fix_everything'"):
        _ = shardfix.fix_everything


def test_the_package_imports_nothing_heavy() -> None:
    code = "import sys, shardfix; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"libcst", "rich", "typer", "ast"} & set(loaded)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project whose findings hang on what one file knows of another, with its root marked."""
    (tmp_path / "pyproject.toml").write_text("")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.py").write_text(MAPPED)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "layers.py").write_text(LAYERS)
    (tmp_path / "broken.py").write_text("shard_map = (\n")
    (tmp_path / "clean.py").write_text("x = 1\n")
    return tmp_path


def facts(outcomes: Iterator[FileOutcome]) -> list[tuple[object, ...]]:
    return [(one.path, one.outcome, one.findings, one.failures, one.after) for one in outcomes]


def processes() -> Executor:
    return ProcessPoolExecutor(2, get_context("spawn"))


def threads() -> Executor:
    return ThreadPoolExecutor(2)


@contextmanager
def dask() -> Iterator[tuple[str, Executor]]:
    """A scheduler and two worker processes on loopback."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield cluster.scheduler_address, client.get_executor(pure=False)


@pytest.mark.parametrize("make", [threads, processes])
def test_an_executor_says_what_this_process_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, make: type[Executor]
) -> None:
    monkeypatch.setattr(remote, "BATCH", 300)
    here = facts(fix_paths([folder], workers=1))
    assert any(one[2] for one in here)
    assert any(one[1] is Outcome.FAILED for one in here)
    with make() as executor:
        assert facts(fix_paths([folder], executor=executor)) == here


def test_contents_are_sent_and_not_paths(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The workers see nothing of the folder: it is gone before they begin."""

    class Late(ThreadPoolExecutor):
        def submit(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
            if folder.exists():
                folder.rename(tmp_path_factory.mktemp("elsewhere") / "folder")
            return super().submit(*arguments, **options)  # type: ignore[arg-type]

    here = facts(fix_paths([folder], workers=1))
    with Late(1) as executor:
        assert facts(fix_paths([folder], executor=executor)) == here


def test_an_executor_that_fails_costs_its_files(folder: Path) -> None:
    with _Broken(1) as executor:
        outcomes = list(fix_paths([folder / "a"], executor=executor))
    assert [one.outcome for one in outcomes] == [Outcome.FAILED]
    assert outcomes[0].failures[0].reason == "the executor failed: OSError: the workers are gone"


class _Broken(ThreadPoolExecutor):
    def submit(self, *_: object, **__: object) -> object:  # type: ignore[override]
        return super().submit(_fail)


def _fail() -> None:
    raise OSError("the workers are gone")


def test_writing(folder: Path) -> None:
    outcomes = list(fix_paths([folder], write=True, workers=1))
    fixed = [one for one in outcomes if one.outcome is Outcome.FIXED]
    assert fixed
    for one in fixed:
        assert Path(one.path).read_bytes() == one.after
    assert not any(finding for one in fix_paths([folder], workers=1) for finding in one.findings if finding.fixed)


def test_a_dask_cluster_says_what_this_process_says(folder: Path) -> None:
    here = facts(fix_paths([folder], workers=1))
    with dask() as (address, executor):
        assert facts(fix_paths([folder], executor=executor)) == here
        command = [sys.executable, "-m", "shardfix", "--check", "--no-cache", str(folder)]
        alone, together = (
            subprocess.run([*command, *more], capture_output=True, text=True, check=False)
            for more in ([], ["--dask", address])
        )
    assert (together.returncode, together.stdout) == (alone.returncode, alone.stdout)
    assert together.returncode == 2
