"""The installed command in a process of its own: start-up, signals, odd folders."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SHARDFIX = [sys.executable, "-m", "shardfix"]
SOURCE = "import jax\nfrom jax.sharding import PartitionSpec as P\n\nspec = P('x')\n"


def run(*arguments: str, cwd: Path, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*SHARDFIX, *arguments], cwd=cwd, capture_output=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


def test_a_run_that_finds_nothing_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE)
    program = (
        "import sys; from shardfix.cli import main; code = main(['.']);"
        "heavy = [name for name in ('libcst', 'jax', 'numpy', 'rich', 'rich.progress', 'multiprocessing') if name in sys.modules];"
        "print(code, heavy)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "0 []\n"


def test_version_is_quick(tmp_path: Path) -> None:
    def seconds(*command: str) -> float:
        best = 1e9
        for _ in range(7):
            start = time.perf_counter()
            subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
            best = min(best, time.perf_counter() - start)
        return best

    command = shutil.which("shardfix", path=os.path.dirname(sys.executable))
    assert command
    assert subprocess.run([command, "--version"], check=True, capture_output=True).stdout == b"shardfix 0.1.0\n"
    assert seconds(command, "--version") < 2 * seconds(sys.executable, "-c", "import typer")


def test_it_works_where_the_repository_has_a_codemods_package_of_its_own(tmp_path: Path) -> None:
    for name in ("codemods", "semantics", "edits"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    (tmp_path / "typing.py").write_text("")
    done = run("--list", cwd=tmp_path / "codemods")
    assert done.returncode == 0, done.stderr
    done = run("--check", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr


def test_a_reader_that_goes_away_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*SHARDFIX, "--output-format", "json"], cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert b"Traceback" not in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_so_in_one_line(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [*SHARDFIX, "-"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        time.sleep(1.0)
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert err == b"shardfix: interrupted\n"
