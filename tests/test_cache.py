"""A result that is taken from the cache is the one that a new run would give, or is not taken."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfix import cache, runner
from shardfix.cache import Cache
from shardfix.files import discover
from shardfix.outcomes import FileOutcome, Outcome
from shardfix.runner import Examined, Task, Worker, run
from shardfix.semantics.project import Dependencies, digest_of
from shardfix.settings import Settings

MAIN = """\
import jax
from jax.sharding import PartitionSpec as P
from layers import loss, mesh

step = jax.shard_map(loss, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
"""
FAULTY = "import jax, jax.numpy as jnp\nmesh = jax.make_mesh((8,), ('data',))\ndef loss(x):\n    return jnp.sum(x)\n"
RIGHT = FAULTY.replace("jnp.sum(x)", "x * 2")

Look = Callable[..., dict[str, FileOutcome]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("")
    (folder / "main.py").write_text(MAIN)
    (folder / "layers.py").write_text(FAULTY)
    (folder / "other.py").write_text("x = 1\n")
    return folder


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The names of the files that are really analysed; the cache is kept in a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_program", lambda: "the same all through the test")
    names: list[str] = []
    examine = Worker.examine

    def noted(self: Worker, task: Task) -> Examined:
        names.append(Path(task.path).name)
        return examine(self, task)

    monkeypatch.setattr(Worker, "examine", noted)
    return names


def look(folder: Path, settings: Settings = Settings(), *, use_cache: bool = True) -> dict[str, FileOutcome]:  # noqa: B008
    found = discover([str(folder)])
    return {Path(one.path).name: one for one in run(found, lambda _: settings, 1, use_cache=use_cache)}


def test_nothing_is_done_twice(project: Path, analysed: list[str]) -> None:
    first = look(project)
    assert [finding.codemod for finding in first["main.py"].findings] or first["layers.py"].findings
    assert "main.py" in analysed
    analysed.clear()
    assert look(project) == first
    assert analysed == []
    assert {name: one.findings for name, one in look(project, use_cache=False).items()} == {
        name: one.findings for name, one in first.items()
    }
    assert analysed != []


@pytest.mark.parametrize("mapped", ["main.py", "layers.py"])
def test_a_sibling_that_changes_changes_the_findings(project: Path, analysed: list[str], mapped: str) -> None:
    def findings() -> int:
        found = look(project)
        assert {name: one.findings for name, one in found.items()} == {
            name: one.findings for name, one in look(project, use_cache=False).items()
        }
        return sum(len(one.findings) for one in found.values())

    before = findings()
    assert before
    (project / "layers.py").write_text(RIGHT)
    assert findings() < before
    (project / "layers.py").write_text(FAULTY)
    assert findings() == before


def test_a_module_that_comes_to_be_counts(project: Path, analysed: list[str]) -> None:
    (project / "layers.py").rename(project / "kept.txt")
    look(project)
    analysed.clear()
    look(project)
    assert "main.py" not in analysed
    (project / "layers.py").write_text(RIGHT)
    look(project)
    assert "main.py" in analysed


def test_what_a_module_imports_in_its_turn_counts(project: Path, analysed: list[str]) -> None:
    (project / "layers.py").write_text("from deeper import loss, mesh\n")
    (project / "deeper.py").write_text(FAULTY)
    look(project)
    analysed.clear()
    look(project)
    assert analysed == []
    (project / "deeper.py").write_text(RIGHT)
    look(project)
    assert "main.py" in analysed


def test_settings_and_declared_version_count(project: Path, analysed: list[str]) -> None:
    look(project)
    analysed.clear()
    look(project, Settings(unsafe=True))
    assert "main.py" in analysed
    analysed.clear()
    look(project, Settings(target_jax="0.8"))
    assert "main.py" in analysed


def test_an_entry_is_not_revived_by_a_run_that_did_not_see_it(project: Path, analysed: list[str]) -> None:
    (project / "aside").mkdir()
    (project / "aside" / "user.py").write_text(MAIN)
    everything = [str(project / name) for name in ("main.py", "layers.py", "aside/user.py")]

    def findings(paths: list[str], use_cache: bool = True) -> dict[str, int]:
        found = run(discover(paths), lambda _: Settings(), 1, use_cache=use_cache)
        return {one.path: len(one.findings) for one in found}

    findings(everything)
    (project / "layers.py").write_text(RIGHT)
    findings([everything[1], everything[2]])
    assert findings(everything) == findings(everything, use_cache=False)


@pytest.mark.parametrize("rubbish", [b"", b"rubbish", bytes(16) + b"cos\nsystem\n(S'false'\ntR."])
def test_a_broken_cache_is_no_cache(project: Path, analysed: list[str], tmp_path: Path, rubbish: bytes) -> None:
    first = look(project)
    (kept,) = (tmp_path / "cache").rglob("*.pickle")
    kept.write_bytes(rubbish)
    assert look(project) == first
    kept.unlink()
    assert look(project) == first
    assert [path.suffix for path in kept.parent.iterdir()] == [".pickle"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_done_without(project: Path, analysed: list[str], tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o500)
    assert look(project) == look(project)


def test_another_shardfix_does_not_take_it(project: Path, analysed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    look(project)
    analysed.clear()
    monkeypatch.setattr(cache, "_program", lambda: "another")
    look(project)
    assert "main.py" in analysed


def test_a_pool_says_the_same(project: Path, analysed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SMALL_WORK", 0)
    monkeypatch.setattr(runner, "BATCH", 1)
    in_pool = {
        Path(one.path).name: one for one in run(discover([str(project)]), lambda _: Settings(), 2, use_cache=True)
    }
    analysed.clear()
    assert look(project) == in_pool
    assert analysed == []


@pytest.mark.parametrize(
    "dependence", ["a file that was asked for", "all files of the run", "what that file asked for"]
)
def test_each_dependence_counts_by_itself(tmp_path: Path, dependence: str) -> None:
    main, other = str(tmp_path / "main.py"), tmp_path / "other.py"
    other.write_bytes(b"before")
    asked = {str(tmp_path / "between.py"): frozenset({str(other)})} if dependence == "what that file asked for" else {}
    consulted = {"a file that was asked for": {str(other)}, "what that file asked for": asked.keys()}
    digests = {str(other): digest_of(str(other)), str(tmp_path / "between.py"): ""}
    dependencies = Dependencies(
        frozenset(consulted.get(dependence, ())), dependence == "all files of the run", asked, digests
    )

    def known() -> FileOutcome | None:
        return Cache({main: b"x"}, [main, str(other)], tmp_path / "cache").outcome(main, b"x", Settings())

    first = Cache({main: b"x"}, [main, str(other)], tmp_path / "cache")
    first.remember(FileOutcome(main, Outcome.CLEAN), b"x", Settings(), dependencies)
    first.save()
    assert known() is not None
    other.write_bytes(b"after")
    assert known() is None
    other.write_bytes(b"before")
    assert known() is not None


def test_a_cache_that_was_tampered_with_is_no_cache(project: Path, analysed: list[str], tmp_path: Path) -> None:
    first = look(project)
    message = next(one.findings[0].message for one in first.values() if one.findings).encode()
    (kept,) = (tmp_path / "cache" / "shardfix").iterdir()
    data = kept.read_bytes()
    assert message in data
    kept.write_bytes(data.replace(message, message.swapcase()))
    assert look(project) == first


def test_a_cache_that_cannot_be_replaced_stays_whole(
    project: Path, analysed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(project)
    (kept,) = (tmp_path / "cache" / "shardfix").iterdir()
    before = kept.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", fail)
    (project / "other.py").write_text("x = 2\n")
    look(project)
    assert (kept.read_bytes(), list(kept.parent.iterdir())) == (before, [kept])
