"""What other machines run: exit codes for them, the hooks of pre-commit, and the action."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Command = Callable[..., "conftest.Run"]  # type: ignore[name-defined]  # noqa: F821

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
SOURCE = "import jax\nfrom jax import lax\n\n\ndef f(x):\n    return lax.pvary(x, 'x')\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("sample")
def test_exit_zero(here: Path, shardfix_command: Command) -> None:
    Path("a.py").write_text("puzzle\n")
    for mode in ("--diff", "--check", "--write"):
        assert shardfix_command(mode).code == 1
        assert shardfix_command(mode, "--exit-zero").code == 0
    Path("b.py").write_text("old = (\n")
    assert shardfix_command("--exit-zero").code == 2


@pytest.mark.usefixtures("sample")
def test_statistics(here: Path, shardfix_command: Command) -> None:
    Path("a.py").write_text("old\n" * 12 + "puzzle\n" * 3 + "risky\n" * 2 + "young\n")
    left = "  3 by hand, 2 unsafe, 1 for other reasons"
    done = shardfix_command("--check", "--statistics", "--target-jax", "0.8")
    assert done.err.splitlines()[-2:] == [
        "codemod         found  fixable  left",
        f"sample-codemod     18       12     6{left}",
    ]
    done = shardfix_command("--write", "--statistics", "-q", "--target-jax", "0.8")
    assert done.err == f"codemod         found  fixed  left\nsample-codemod     18     12     6{left}\n"
    Path("a.py").write_text("fine\n")
    assert shardfix_command("--write", "--statistics", "-q").err == ""


@pytest.mark.usefixtures("sample")
def test_a_check_ends_with_what_is_to_be_done_by_hand(here: Path, shardfix_command: Command) -> None:
    Path("a.py").write_text("old\nrisky\n" + "puzzle\n" * 4)
    Path("b.py").write_text("puzzle\n" * 3)
    done = shardfix_command("--check")
    assert done.out.count(b"\n") == 9
    assert done.err.splitlines() == [
        "To do by hand:",
        "  sample-codemod: puzzle is out of date",
        "    at a.py:3:1, a.py:4:1, a.py:5:1, a.py:6:1, b.py:1:1 and 2 more",
        "    why: there are two ways",
        "    choice: solve it",
        "    choice: leave it",
        "9 findings in 2 files; --write fixes 1; 1 with an unsafe fix (--unsafe); 7 to do by hand.",
    ]
    assert shardfix_command("--check", "-q").err == ""


def test_places_that_are_left_for_the_same_reason_are_one_task(here: Path, shardfix_command: Command) -> None:
    block = "def {}(model, x):\n    with Mesh(jax.devices(), ('x',)) as mesh:\n        return pjit(model, out_shardings=P())(x, mesh)\n"
    head = "import jax\nfrom jax.experimental.pjit import pjit\nfrom jax.sharding import Mesh, PartitionSpec as P\n"
    Path("a.py").write_text(head + block.format("f") + block.format("g"))
    done = shardfix_command("--check", "--select", "mesh-contexts")
    assert done.err.count("    why: pjit in this file may resolve its specs through the block") == 1
    assert "    at a.py:5:10, a.py:8:10\n" in done.err


def hooks() -> dict[str, dict[str, Any]]:
    return {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


def run_hook(name: str, *files: str) -> subprocess.CompletedProcess[str]:
    command, *arguments = shlex.split(hooks()[name]["entry"])
    return subprocess.run([BIN / command, *arguments, *files], capture_output=True, text=True, check=False)


def test_hooks_check_and_repair_the_files_that_they_are_given(here: Path) -> None:
    for name in ("a.py", "b.py"):
        Path(name).write_text(SOURCE)
    Path("pyproject.toml").write_text("[tool.shardfix]\nexclude = ['b.py']\n")
    done = run_hook("shardfix", "a.py", "b.py")
    assert done.returncode == 1
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["a.py"]
    assert run_hook("shardfix-fix", "a.py", "b.py").returncode == 0
    assert "pcast" in Path("a.py").read_text()
    assert Path("b.py").read_text() == SOURCE
    assert run_hook("shardfix", "a.py").returncode == 0


@pytest.mark.slow
def test_hooks_under_pre_commit(here: Path, tmp_path: Path) -> None:
    pytest.importorskip("pre_commit")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    Path("a.py").write_text(SOURCE)
    for command in (["init", "-q"], ["add", "a.py"], ["commit", "-qm", "a"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run(["git", "clone", "-q", ROOT, "clone"], check=True)  # what is committed, whatever else lies about
    environment = dict(os.environ, PRE_COMMIT_HOME=str(tmp_path / "home"))
    command = [
        sys.executable,
        "-m",
        "pre_commit",
        "try-repo",
        "./clone",
        "shardfix-fix",
        "--files",
        "a.py",
        "--verbose",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "files were modified by this hook" in done.stdout, done.stdout + done.stderr
    assert "pcast" in Path("a.py").read_text()


def test_the_action_annotates(here: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    (here / "shardfix").mkdir()
    (here / "shardfix" / "bin").symlink_to(BIN)
    (here / "work").mkdir()
    (here / "work" / "a.py").write_text(SOURCE)
    inputs = {key: value["default"] for key, value in action["inputs"].items()}

    def run(**given: str) -> subprocess.CompletedProcess[str]:
        values = inputs | {key.replace("_", "-"): value for key, value in given.items()}
        assert step["env"] == {key.upper().replace("-", "_"): f"${{{{ inputs.{key} }}}}" for key in inputs}
        environment = {key.upper().replace("-", "_"): value for key, value in values.items()}
        environment = {**os.environ, **environment, "RUNNER_TEMP": str(here)}
        script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(script, cwd=here / "work", env=environment, capture_output=True, text=True, check=False)

    done = run()
    assert (done.returncode, done.stdout.splitlines()[0].partition(",")[0]) == (1, "::warning file=a.py"), done.stderr
    assert run(arguments="--exit-zero --select renames", paths=". a.py").returncode == 0
    assert run(output_format="sarif", output_file="out.sarif").returncode == 1
    assert '"2.1.0"' in (here / "work" / "out.sarif").read_text()
