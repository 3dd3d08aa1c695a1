"""The installed command in a process of its own: start-up, signals, odd folders."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def hear_ctrl_c() -> None:
    """For the process to be: tests that run in the background of a shell inherit that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


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
        """What the command takes of a processor: the clock would measure what else the machine does."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    command = shutil.which("shardfix", path=os.path.dirname(sys.executable))
    assert command
    assert subprocess.run([command, "--version"], check=True, capture_output=True).stdout == b"shardfix 0.1.0\n"
    pairs = [(seconds(command, "--version"), seconds(sys.executable, "-c", "import typer")) for _ in range(7)]
    assert min(ours for ours, _ in pairs) < 2 * min(theirs for _, theirs in pairs)


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


@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_so_in_one_line(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [*SHARDFIX, "-"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=hear_ctrl_c,
    ) as process:
        assert process.stdin
        process.stdin.write(b"#" * 200_000)  # more than a pipe holds: when it is gone, the run is at work
        process.stdin.flush()
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert err == b"shardfix: interrupted\n"


WRITE_WITH_SAMPLE_CODEMOD = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import sample_codemod, shardfix.codemod
discovered = shardfix.codemod._Discovered({{"sample-codemod": sample_codemod.SampleCodemod}})
shardfix.codemod._discover = lambda: discovered
from shardfix.cli import main
sys.exit(main(["--write", "."]))
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_write_that_is_cut_short_leaves_each_file_old_or_new(tmp_path: Path, number: signal.Signals) -> None:
    old = b"old\n" + b"# " + b"x" * 5000 + b"\n"
    paths = [tmp_path / f"{index:03}.py" for index in range(300)]
    for path in paths:
        path.write_bytes(old)
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_WITH_SAMPLE_CODEMOD],
        cwd=tmp_path,
        preexec_fn=hear_ctrl_c,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while paths[0].read_bytes() == old and process.poll() is None:
            time.sleep(0.001)
        time.sleep(0.02)
        process.send_signal(number)
        process.wait(30)
    texts = [path.read_bytes() for path in paths]
    assert set(texts) == {old, old.replace(b"old", b"new")}, "it ended before the signal came, or tore a file"
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert len(list(tmp_path.iterdir())) == len(paths)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("hanging", [20, 1], ids=["all at work", "all but one idle"])
def test_ctrl_c_ends_the_workers_of_a_pool(tmp_path: Path, hanging: int) -> None:
    for index in range(20):
        (tmp_path / f"{index:02}.py").write_text(("hang\n" if index < hanging else "old\n") + "#" * 50_000)
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_WITH_SAMPLE_CODEMOD],
        cwd=tmp_path,
        preexec_fn=hear_ctrl_c,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        time.sleep(2.0)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, b"shardfix: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
