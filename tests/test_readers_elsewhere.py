"""Where the mesh is not moved to ``jax.set_mesh``, with ``--unsafe`` either: readers in other files, modules that run in jit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

READER = "from jax.interpreters import pxla\n\n\ndef axis_names():\n    return pxla.thread_resources.env.physical_mesh.axis_names\n"
BLOCK = """\
import entered
import jax
from jax.sharding import Mesh

with Mesh(jax.devices(), ("x",)):
    print(entered.axis_names())
"""
PJIT = """\
import jax
import jax.numpy as jnp
from jax.experimental.pjit import pjit
from jax.sharding import Mesh


def split(value, spec):
    with Mesh(jax.devices(), ("x",)):
        return pjit(lambda v: v * 2, out_shardings=spec)(value)
"""
BY_HAND = """\
import contextlib

import jax
from jax.experimental.pjit import pjit
from jax.interpreters import pxla
from jax.sharding import Mesh

mesh = Mesh(jax.devices(), ("x",))
ENTER


def step(tree):
    return pjit(lambda t: t, in_shardings=None, out_shardings=None)(tree)
"""
LAYER = """\
import flax.linen as nn
import jax


class Layer(nn.Module):
    mesh: jax.sharding.Mesh

    def METHOD(self, x):
        with self.mesh:
            return jax.lax.with_sharding_constraint(x, jax.sharding.PartitionSpec("x"))
"""


def test_a_mesh_that_other_files_read_stays(tmp_path: Path, shardfix_command: Callable[..., Any]) -> None:
    (tmp_path / "entered.py").write_text(READER)
    (tmp_path / "block.py").write_text(BLOCK)
    (tmp_path / "spread.py").write_text(PJIT)
    done = shardfix_command("--write", "--unsafe", "--target-jax", "0.12", "--output-format", "json", tmp_path)
    findings = [finding for file in json.loads(done.out)["files"] for finding in file["findings"]]
    assert {finding["codemod"] for finding in findings} == {"mesh-contexts", "pjit"}
    assert {finding["safety"] for finding in findings} == {"manual"}
    assert (tmp_path / "block.py").read_text() == BLOCK
    assert (tmp_path / "spread.py").read_text() == PJIT


def test_it_is_moved_where_nothing_reads_it(tmp_path: Path, shardfix_command: Callable[..., Any]) -> None:
    (tmp_path / "entered.py").write_text("# not pxla.thread_resources\nSAYS = 'thread_resources'\n")
    (tmp_path / "block.py").write_text(BLOCK)
    (tmp_path / "spread.py").write_text(PJIT)
    shardfix_command("--write", "--unsafe", "--target-jax", "0.12", tmp_path)
    assert "jax.set_mesh(" in (tmp_path / "block.py").read_text()
    assert "jax.set_mesh(" in (tmp_path / "spread.py").read_text()


@pytest.mark.parametrize(("method", "stays"), [("__call__", True), ("restore", False)])
def test_a_mesh_entered_where_modules_are_traced_stays(
    tmp_path: Path, shardfix_command: Callable[..., Any], method: str, stays: bool
) -> None:
    path = tmp_path / "layer.py"
    path.write_text(LAYER.replace("METHOD", method))
    shardfix_command("--write", "--unsafe", "--target-jax", "0.12", path)
    assert ("jax.set_mesh(" not in path.read_text()) == stays


@pytest.mark.parametrize(
    ("enter", "stays"),
    [
        ("pxla.thread_resources.env = env", True),
        ("contextlib.ExitStack().enter_context(mesh)", True),
        ("mesh.__enter__()", True),
        ("print(mesh)", False),
    ],
)
def test_none_is_replicated_under_a_mesh_entered_by_hand(
    tmp_path: Path, shardfix_command: Callable[..., Any], enter: str, stays: bool
) -> None:
    path = tmp_path / "step.py"
    path.write_text(BY_HAND.replace("ENTER", enter))
    shardfix_command("--write", "--target-jax", "0.12", path)
    assert ("jax.jit(" not in path.read_text()) == stays


@pytest.mark.parametrize(
    ("user", "is_fixed"), [("with use_mesh(mesh):\n    pass\n", True), ("context = use_mesh(mesh)\n", False)]
)
def test_a_use_mesh_that_other_files_take_keeps_its_name(
    user: str, is_fixed: bool, tmp_path: Path, shardfix_command: Callable[..., Any]
) -> None:
    library = tmp_path / "library.py"
    library.write_text(
        "from jax.sharding import use_mesh\n\n\ndef enter(mesh):\n    with use_mesh(mesh):\n        pass\n"
    )
    (tmp_path / "user.py").write_text(
        f"from library import use_mesh\n\n\ndef run(mesh):\n    {user.replace('    ', '        ')}"
    )
    before = library.read_text()
    shardfix_command("--write", "--target-jax", "0.12", tmp_path)
    after = before.replace("jax.sharding import use_mesh", "jax import set_mesh as use_mesh")
    assert library.read_text() == (after if is_fixed else before)


def test_an_import_that_other_files_take_stays(tmp_path: Path, shardfix_command: Callable[..., Any]) -> None:
    library = tmp_path / "library.py"
    library.write_text('from jax.lax import pvary\n\n\ndef vary(x):\n    return pvary(x, "x")\n')
    (tmp_path / "user.py").write_text("from library import pvary\n\nprint(pvary)\n")
    done = shardfix_command("--write", "--target-jax", "0.12", "--output-format", "json", tmp_path)
    assert 'pcast(x, "x", to="varying")' in library.read_text()
    assert "pvary" in library.read_text().splitlines()[0]
    findings = [finding for file in json.loads(done.out)["files"] for finding in file["findings"]]
    assert [finding["line"] for finding in findings if not finding["fixed"]] == [1]
