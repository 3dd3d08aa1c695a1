"""Many files: one outcome each, in order, whatever happens."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor, wait
from pathlib import Path

import pytest

from shardfix import fixer, runner
from shardfix.files import Found, discover
from shardfix.outcomes import FileOutcome, Outcome
from shardfix.runner import run
from shardfix.settings import Settings

pytestmark = pytest.mark.usefixtures("sample")

SOURCES = {
    "a_clean.py": b"nothing = 1\n",
    "b_old.py": b"old\n",
    "c_syntax.py": b"old = (\n\n",
    "d_bytes.py": b"old\n\xff\n",
    "e_puzzle.py": b"puzzle\n",
    "f_deep.py": b"old = " + b"+".join([b"1"] * 20_000),
    "g_minus.py": b"old = " + b"-" * 100_000 + b"1",
    "h_nul.py": b"old\0\n",
    "i_crash.py": b"crash\nold\n",
    "j_surrogate.py": b"# coding: utf-7\nold = '+2AA-'\n",
    "k_latin.py": b"# coding: latin-1\nx = accent, '\xe9'\n",
    "l_ascii.py": b"# coding: ascii\nx = accent\n",
    "m_empty.py": b"",
    "n_old.py": b"x = old\r\n",
}


def test_syntax_that_may_be_newer_says_which_python_reads_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"old = 1 2\n")
    (failure,) = outcomes(tmp_path)["a.py"].failures
    assert f"invalid syntax for Python {sys.version_info.major}.{sys.version_info.minor}, which" in str(failure)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in SOURCES.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "o_link.py").symlink_to("nowhere")
    return tmp_path


def outcomes(folder: Path, workers: int | None = 1) -> dict[str, FileOutcome]:
    return {Path(one.path).name: one for one in run(discover([str(folder)]), lambda _: Settings(), workers)}


def test_every_file_has_its_outcome(folder: Path) -> None:
    done = outcomes(folder)
    assert list(done) == [*SOURCES, "o_link.py"]
    assert {name for name, one in done.items() if one.outcome is Outcome.FIXABLE} == {
        "b_old.py",
        "e_puzzle.py",
        "k_latin.py",
        "n_old.py",
    }
    failures = {name: str(one.failures[0]) for name, one in done.items() if one.outcome is Outcome.FAILED}
    assert set(failures) == {
        "c_syntax.py", "d_bytes.py", "f_deep.py", "g_minus.py", "h_nul.py", "j_surrogate.py", "l_ascii.py", "o_link.py"
    }  # fmt: skip
    assert failures["c_syntax.py"] == "line 1: cannot be parsed: '(' was never closed"
    assert failures["d_bytes.py"] == "line 2: cannot be decoded as utf-8: invalid start byte (byte 0xff)"
    assert "too deeply" in failures["f_deep.py"]
    assert "null bytes" in failures["h_nul.py"]
    assert failures["l_ascii.py"] == "the repair holds 'é', which ascii cannot say"
    assert failures["o_link.py"] == "broken symbolic link to nowhere"


def test_a_codemod_that_crashes_is_told_beside_the_outcome(folder: Path) -> None:
    crashed = outcomes(folder)["i_crash.py"]
    assert crashed.outcome is Outcome.CLEAN
    assert "LookupError" in crashed.failures[0].reason


def test_the_bytes_are_those_of_the_encoding(folder: Path) -> None:
    done = outcomes(folder)
    assert done["k_latin.py"].after == b"# coding: latin-1\nx = \xe9, '\xe9'\n"
    assert done["n_old.py"].after == b"x = new\r\n"
    assert done["e_puzzle.py"].after is None


def test_a_file_without_triggers_is_parsed_only_if_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"def f(:\n")
    (searched,) = run(discover([str(tmp_path)]), lambda _: Settings())
    (named,) = run(discover([str(path)]), lambda _: Settings())
    assert searched.outcome is Outcome.CLEAN
    assert named.outcome is Outcome.FAILED


def test_a_file_that_vanishes_is_told(tmp_path: Path) -> None:
    (outcome,) = run([Found(str(tmp_path / "gone.py"))], lambda _: Settings())
    assert str(outcome.failures[0]) == "no such file or directory"


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SMALL_WORK", 0)
    monkeypatch.setattr(runner, "BATCH", 10)


@pytest.mark.usefixtures("small_batches")
def test_the_pool_gives_what_one_process_gives(folder: Path) -> None:
    assert outcomes(folder, workers=2) == outcomes(folder, workers=1)
    assert list(outcomes(folder, workers=2)) == list(outcomes(folder, workers=1))


@pytest.mark.usefixtures("small_batches")
def test_a_worker_that_dies_costs_its_file(folder: Path) -> None:
    (folder / "b_die.py").write_bytes(b"die\n")
    (folder / "e_die.py").write_bytes(b"die\n")
    done = outcomes(folder, workers=2)
    assert str(done.pop("b_die.py").failures[0]) == "its analysis died (exit code 9)"
    assert str(done.pop("e_die.py").failures[0]) == "its analysis died (exit code 9)"
    (folder / "b_die.py").unlink()
    (folder / "e_die.py").unlink()
    assert done == outcomes(folder, workers=1)


@pytest.mark.usefixtures("small_batches")
def test_a_worker_that_hangs_costs_its_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH_SECONDS", 6.0)
    monkeypatch.setattr(runner, "FILE_SECONDS", 5.0)
    (folder / "b_hang.py").write_bytes(b"hang\n")
    done = outcomes(folder, workers=2)
    assert str(done.pop("b_hang.py").failures[0]) == "given up after 5 seconds"
    (folder / "b_hang.py").unlink()
    assert done == outcomes(folder, workers=1)


def test_the_target_is_what_the_project_declares(tmp_path: Path) -> None:
    for name, bound in (("one", "0.10"), ("two", "0.11")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("young")
        (tmp_path / name / "requirements.txt").write_text(f"jax>={bound}")
    one, two = run(discover([str(tmp_path)]), lambda _: Settings())
    assert (one.target_jax, one.after) == ("0.10", None)
    assert (two.target_jax, two.after) == ("0.11", b"grown")
    (one, two) = run(discover([str(tmp_path)]), lambda _: Settings(target_jax="0.11"))
    assert (one.after, two.after) == (b"grown", b"grown")


def test_a_fault_of_shardfix_costs_its_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LookupError("this is a test")

    monkeypatch.setattr(fixer, "fix", fail)
    done = outcomes(folder)
    reason = str(done["b_old.py"].failures[0])
    assert reason.startswith("cannot be analysed, for a fault of shardfix: LookupError: this is a test")
    assert done["a_clean.py"].outcome is Outcome.CLEAN


@pytest.mark.usefixtures("small_batches")
def test_a_worker_that_dies_before_the_last_batch_is_handed_over_costs_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = ProcessPoolExecutor.submit

    def slow(self: ProcessPoolExecutor, *arguments: object) -> object:
        future = submit(self, *arguments)  # type: ignore[arg-type]
        wait([future])
        return future

    monkeypatch.setattr(ProcessPoolExecutor, "submit", slow)
    for name in ("a", "b_die", "c", "d"):
        (tmp_path / f"{name}.py").write_text("old\ndie\n" if "die" in name else "old\n")
    done = outcomes(tmp_path, workers=2)
    assert [name for name, one in done.items() if one.failures] == ["b_die.py"]
    assert str(done["b_die.py"].failures[0]) == "its analysis died (exit code 9)"
