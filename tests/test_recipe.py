"""The script of docs/bulk.md, on two repositories."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "bulk.md"
PROGRAM = """\
import jax
from jax.experimental.pjit import pjit


@pjit
def total(tree):
    return jax.tree_util.tree_reduce(jax.numpy.add, jax.tree_map(lambda x: x, tree))
"""
LEFT = "import jax\n\nsharding = jax.sharding.PmapSharding\n"


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def repositories(tmp_path: Path) -> tuple[Path, Path, Path]:
    """One with two things to repair, one with one and a file that is broken, and one with a change that is not committed."""
    texts = {
        "one": {"total.py": PROGRAM, "left.py": LEFT},
        "two": {"src/total.py": PROGRAM.replace("tree_map", "tree.map"), "jax.py.txt": "", "broken.py": "pjit ("},
        "three": {"total.py": PROGRAM},
    }
    for name, files in texts.items():
        for path, text in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text(text)
        git(tmp_path / name, "init", "--quiet", "--initial-branch", "main")
        git(tmp_path / name, "config", "user.name", "Ada")
        git(tmp_path / name, "config", "user.email", "ada@example.org")
        git(tmp_path / name, "add", ".")
        git(tmp_path / name, "commit", "--quiet", "--message", "begin")
    (tmp_path / "three" / "total.py").write_text(PROGRAM + "# mine\n")
    return tmp_path / "one", tmp_path / "two", tmp_path / "three"


def test_one_codemod_a_commit_over_many_repositories(repositories: tuple[Path, Path, Path], tmp_path: Path) -> None:
    one, two, three = repositories
    script = tmp_path / "migrate.sh"
    script.write_text(next(re.finditer(r"^```bash\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))[1])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", script, "one", "two", "three"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["one: 2 commits", "two: 1 commits"]
    assert "three: left, for it has changes that are not committed" in done.stderr
    assert "broken.py:1: error: cannot be parsed" in done.stderr
    subject = "Repair what shardfix finds: "
    assert git(one, "log", "--format=%s", "main..shardfix").splitlines() == [f"{subject}renames", f"{subject}pjit"]
    assert git(two, "log", "--format=%s", "main..shardfix").splitlines() == [f"{subject}pjit"]
    assert "tree_map" in git(one, "show", "shardfix~1:total.py")
    assert "jax.tree.map" in (one / "total.py").read_text()
    assert "pjit" not in (two / "src" / "total.py").read_text()
    assert git(three, "branch", "--format=%(refname:short)").split() == ["main"]
    assert "removed-shardings" in (tmp_path / "one.todo").read_text()
    assert not git(one, "status", "--porcelain")
