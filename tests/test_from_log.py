"""From a log to exit code: ``--traceback`` and ``--explain`` as the command line has them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardfix.repair import diagnose
from shardfix.settings import Settings

PROGRAM = """\
import jax
from jax.sharding import PartitionSpec as P


def step(mesh, x):
    f = jax.shard_map(lambda x: x, mesh=mesh, in_specs="data", out_specs=P("data"), check_rep=False)
    return jax.tree_map(f, x)
"""
KEYWORD = """\
Traceback (most recent call last):
  File "/srv/train/pkg/steps.py", line 6, in step
    f = jax.shard_map(lambda x: x, mesh=mesh, in_specs="data", out_specs=P("data"), check_rep=False)
TypeError: shard_map() got an unexpected keyword argument 'check_rep'
"""
SPEC = """\
Traceback (most recent call last):
  File "/srv/train/pkg/steps.py", line 7, in step
    return jax.tree_map(f, x)
TypeError: shard_map in_specs argument must be a pytree of `jax.sharding.PartitionSpec` instances, but:

  in_specs is data of type str,

Check the in_specs values passed to shard_map.
"""
UNKNOWN = """\
Traceback (most recent call last):
  File "/srv/train/pkg/steps.py", line 7, in step
    return jax.tree_map(f, x)
RuntimeError: the disk is on fire
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one package, as the current folder."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "steps.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def traceback(project: Path, shardfix_command: Callable[..., Any]) -> Callable[..., Any]:
    """Runs ``shardfix --traceback`` on a text."""

    def run(text: str, *options: str) -> Any:
        (project / "err.txt").write_text(text)
        return shardfix_command("--traceback", "err.txt", *options)

    return run


def test_the_patch_is_the_repair_and_nothing_else(project: Path, traceback: Callable[..., Any]) -> None:
    done = traceback(KEYWORD)
    assert done.code == 1
    assert (project / "pkg" / "steps.py").read_text() == PROGRAM
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "-"], input=done.out, check=True)
    assert (project / "pkg" / "steps.py").read_text() == PROGRAM.replace("check_rep", "check_vma")


def test_write_repairs_what_was_reported_and_nothing_else(project: Path, traceback: Callable[..., Any]) -> None:
    done = traceback(KEYWORD, "--write")
    assert done.code == 0
    assert (project / "pkg" / "steps.py").read_text() == PROGRAM.replace("check_rep", "check_vma")


def test_two_errors_of_one_file_are_repaired_one_upon_the_other(project: Path, traceback: Callable[..., Any]) -> None:
    done = traceback(KEYWORD + "\nand then\n" + SPEC, "--write")
    assert done.code == 0
    text = (project / "pkg" / "steps.py").read_text()
    assert text == PROGRAM.replace("check_rep", "check_vma").replace('in_specs="data"', 'in_specs=P("data")')


def test_the_same_error_twice_is_mended_once(traceback: Callable[..., Any]) -> None:
    done = traceback(KEYWORD + KEYWORD.replace("in step", "in other"), "--write")
    assert done.code == 0
    assert "The repair above mends this, too." in done.err


def test_the_words_say_what_failed_and_where(traceback: Callable[..., Any]) -> None:
    done = traceback(KEYWORD)
    assert "unexpected-keyword" in done.err
    assert "`shard_map` has no argument `check_rep`" in done.err
    assert "pkg/steps.py:6 in step" in done.err
    assert "certain repair:" in done.err


def test_unknown_error(traceback: Callable[..., Any]) -> None:
    done = traceback(UNKNOWN)
    assert done.code == 2
    assert done.out == b""
    assert "unknown error: RuntimeError: the disk is on fire" in done.err
    assert "pkg/steps.py:7 in step" in done.err


def test_no_error(traceback: Callable[..., Any]) -> None:
    done = traceback("loss=0.1\n")
    assert done.code == 0
    assert "No error was found" in done.err


def test_source_that_is_not_there(traceback: Callable[..., Any]) -> None:
    done = traceback(KEYWORD.replace("steps.py", "gone.py"))
    assert done.code == 1
    assert "not found below this folder" in done.err
    assert "What mends such an error" in done.err


def test_several_sources_are_listed_and_none_is_written(project: Path, traceback: Callable[..., Any]) -> None:
    (project / "copy" / "pkg").mkdir(parents=True)
    (project / "copy" / "pkg" / "steps.py").write_text(PROGRAM)
    done = traceback(KEYWORD, "--write")
    assert done.code == 1
    assert "one of copy/pkg/steps.py, pkg/steps.py" in done.err
    assert (project / "pkg" / "steps.py").read_text() == PROGRAM
    assert traceback(KEYWORD, "--write", "copy").code == 0
    assert (project / "pkg" / "steps.py").read_text() == PROGRAM
    assert "check_vma" in (project / "copy" / "pkg" / "steps.py").read_text()


def test_a_file_that_has_changed_since_is_not_edited(project: Path, traceback: Callable[..., Any]) -> None:
    """The line is not what the traceback shows: this is another version, or another file."""
    changed = PROGRAM.replace("    f = jax.shard_map(", "    g = 3\n    f = jax.shard_map(")
    (project / "pkg" / "steps.py").write_text(changed)
    done = traceback(KEYWORD, "--write")
    assert (done.code, done.out) == (1, b"")
    assert "it is not edited" in done.err
    assert (project / "pkg" / "steps.py").read_text() == changed


def test_of_several_files_the_one_that_has_the_line_is_edited(project: Path, traceback: Callable[..., Any]) -> None:
    other = project / "copy" / "pkg" / "steps.py"
    other.parent.mkdir(parents=True)
    other.write_text("\n" * 20)
    assert traceback(KEYWORD, "--write").code == 0
    assert "check_vma" in (project / "pkg" / "steps.py").read_text()


def test_a_package_that_was_installed_where_it_ran(project: Path, traceback: Callable[..., Any]) -> None:
    assert traceback(KEYWORD.replace("/srv/train/", "/usr/lib/python3.13/site-packages/"), "--write").code == 0
    assert "check_vma" in (project / "pkg" / "steps.py").read_text()


IN_CELL = """\
TypeError                                 Traceback (most recent call last)
Cell In[7], line 2
      1 # the map
----> 2 f = jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_rep=False)
      3 f(x)

TypeError: shard_map() got an unexpected keyword argument 'check_rep'
"""
CELLS = [
    "import jax\nfrom jax.sharding import PartitionSpec as P\nmesh = jax.make_mesh((8,), ('data',))",
    "%time x = jax.numpy.ones(8)",
    '# the map\nf = jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_rep=False)\nf(x)',
]


def notebook_of(cells: list[str]) -> str:
    return json.dumps(
        {
            "cells": [
                {
                    "cell_type": "code",
                    "execution_count": number,
                    "metadata": {},
                    "outputs": [],
                    "source": cell.splitlines(keepends=True),
                }
                for number, cell in enumerate(cells, 5)
            ],
            "metadata": {"language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        },
        indent=1,
    )


def test_a_cell_of_a_notebook(project: Path, traceback: Callable[..., Any]) -> None:
    book = project / "train.ipynb"
    book.write_text(notebook_of(CELLS))
    done = traceback(IN_CELL, "--write")
    assert done.code == 0, done.err
    assert "Cell In[7]:2 of train.ipynb" in done.err
    assert book.read_text() == notebook_of(CELLS).replace("check_rep", "check_vma")


def test_of_two_cells_with_that_line_the_one_that_ran(project: Path, traceback: Callable[..., Any]) -> None:
    book = project / "train.ipynb"
    book.write_text(notebook_of([*CELLS, CELLS[2].replace("# the map", "# the same again")]))
    assert traceback(IN_CELL, "--write").code == 0
    book.write_text(notebook_of([CELLS[0], CELLS[2], CELLS[2]]).replace("execution_count", "execution"))
    done = traceback(IN_CELL, "--write")
    assert (done.code, done.out) == (1, b"")


def test_a_module_that_was_exported_from_a_notebook(project: Path, traceback: Callable[..., Any]) -> None:
    module = project / "train.py"
    text = "# coding: utf-8\n\n# In[5]:\n\n\n" + "\n\n\n# In[ ]:\n\n\n".join([CELLS[0], CELLS[2]]) + "\n"
    module.write_text(text)
    assert traceback(IN_CELL, "--write").code == 0
    assert module.read_text() == text.replace("check_rep", "check_vma")


def test_json(traceback: Callable[..., Any]) -> None:
    done = traceback(KEYWORD, "--output-format", "json")
    (error,) = json.loads(done.out)["errors"]
    assert error["kind"] == "unexpected-keyword"
    assert error["places"][0] == {
        "path": "/srv/train/pkg/steps.py",
        "line": 6,
        "function": "step",
        "candidates": ["pkg/steps.py"],
        "fits": True,
    }
    assert [repair["certain"] for repair in error["repairs"]] == [True]
    assert "+    f = jax.shard_map(" in error["repairs"][0]["diff"]


def test_errors_win_over_warnings(traceback: Callable[..., Any]) -> None:
    warning = "/srv/train/pkg/steps.py:7: DeprecationWarning: jax.tree_map is deprecated: use jax.tree.map\n"
    assert "deprecated-name" not in traceback(warning + KEYWORD).err


def test_a_deprecated_name_is_repaired_if_there_is_no_error(project: Path, traceback: Callable[..., Any]) -> None:
    warning = "/srv/train/pkg/steps.py:7: DeprecationWarning: jax.tree_map is deprecated: use jax.tree.map\n"
    assert traceback(warning, "--write").code == 0
    assert "jax.tree.map" in (project / "pkg" / "steps.py").read_text()


def test_standard_input(project: Path, monkeypatch: pytest.MonkeyPatch, shardfix_command: Callable[..., Any]) -> None:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(KEYWORD.encode())))
    assert shardfix_command("--traceback", "-", "--write").code == 0
    assert "check_vma" in (project / "pkg" / "steps.py").read_text()


def test_log_of_powershell(project: Path, shardfix_command: Callable[..., Any]) -> None:
    (project / "err.txt").write_bytes(KEYWORD.encode("utf-16"))
    assert shardfix_command("--traceback", "err.txt").code == 1


def test_usage(project: Path, shardfix_command: Callable[..., Any]) -> None:
    assert shardfix_command("--traceback", "gone.txt").code == 2
    assert shardfix_command("--traceback", "-", "--check").code == 2


def test_explain_an_error(shardfix_command: Callable[..., Any]) -> None:
    done = shardfix_command("--explain", "output-rank")
    assert done.code == 0
    assert b"out_specs" in done.out
    assert b"rank0-outputs" in done.out


def test_target_jax_holds_back_what_is_younger(project: Path) -> None:
    program = 'import jax\n\n\ndef f(x):\n    return jax.lax.pvary(x, ("i",))\n'
    (project / "pkg" / "steps.py").write_text(program)
    text = (
        'Traceback (most recent call last):\n  File "pkg/steps.py", line 5, in f\n    return jax.lax.pvary(x, ("i",))\n'
        "AttributeError: module 'jax.lax' has no attribute 'pvary'\n"
    )
    (now,) = diagnose(text, Settings())
    assert now.certain is not None
    (old,) = diagnose(text, Settings(target_jax="0.7"))
    assert old.certain is None


CHOICES = """\
Traceback (most recent call last):
  File "/srv/train/pkg/steps.py", line 6, in step
    f = jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("x"), out_specs=P("data"))
ValueError: shard_map in_specs argument must refer to an axis marked as manual (frozenset({'data'})), but:

  in_specs refers to 'x'

Check the in_specs values passed to shard_map.
"""


@pytest.fixture
def undecided(project: Path) -> str:
    """A program with an error that leaves a choice."""
    text = PROGRAM.replace(", check_rep=False", "").replace('in_specs="data"', 'in_specs=P("x")')
    (project / "pkg" / "steps.py").write_text(text)
    return text


def test_choices_are_shown_and_not_made(project: Path, undecided: str, traceback: Callable[..., Any]) -> None:
    done = traceback(CHOICES, "--write")
    assert (done.code, done.out) == (1, b"")
    assert "choice 2: leave that array axis whole" in done.err
    assert "choice 1: name 'data'" in done.err
    assert '+    f = jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("data"), out_specs=P("data"))' in done.err
    assert (project / "pkg" / "steps.py").read_text() == undecided


def test_a_repair_that_moves_lines_does_not_hide_the_next_error(project: Path, traceback: Callable[..., Any]) -> None:
    """The first adds an import above; the second fault is still there, a line further down."""
    program = """\
import jax
import jax.numpy as jnp

mesh = jax.make_mesh((4,), ("x",))


def one(v):
    return jnp.reshape(v, (4, 4), out_sharding="x")


def two(v):
    return jax.shard_map(lambda a: a.sum(), mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"))(v)
"""
    (project / "lib.py").write_text(program)
    first = (
        'Traceback (most recent call last):\n  File "lib.py", line 8, in one\n'
        '    return jnp.reshape(v, (4, 4), out_sharding="x")\n'
        "TypeError: `out_sharding` argument of reshape only supports instances of `NamedSharding` or `PartitionSpec`. "
        "Got x of type: <class 'str'>\n"
    )
    second = (
        'Traceback (most recent call last):\n  File "lib.py", line 12, in two\n'
        "ValueError: shard_map applied to the function '<lambda>' was given an out_specs entry which is too long to be "
        "compatible with the corresponding output value from the function:\n\nout_specs is P('x',) which has length 1, "
        "but <lambda>(*args) has shape float32[], which has rank 0 (and 0 < 1)\n"
    )
    assert traceback(first + second, "--write").code == 0
    mended = (project / "lib.py").read_text()
    assert 'P("x")))' in mended
    assert "a.sum()[None]" in mended or "keepdims=True" in mended


def test_a_choice_is_made_when_told(project: Path, undecided: str, traceback: Callable[..., Any]) -> None:
    assert traceback(CHOICES, "--write", "--choose", "1").code == 0
    assert (project / "pkg" / "steps.py").read_text() == undecided.replace('P("x")', 'P("data")')


def test_what_the_failing_line_calls_is_what_is_mended(project: Path) -> None:
    """The fault stands where the function was mapped, and the traceback where it was called."""
    program = """\
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"))
cosine = jax.shard_map(jnp.cos, mesh=mesh, in_specs=P("dta"), out_specs=P("data"))
print(cosine(jnp.ones(16)).shape)
"""
    (project / "main.py").write_text(program)
    text = (
        'Traceback (most recent call last):\n  File "main.py", line 7, in <module>\n    print(cosine(jnp.ones(16)).shape)\n'
        "ValueError: shard_map in_specs argument must refer to an axis marked as manual (frozenset({'data', 'model'})), "
        "but:\n\n  in_specs refers to 'dta'\n"
    )
    (diagnosis,) = diagnose(text, Settings())
    assert diagnosis.certain is not None
    assert diagnosis.certain.title == "write 'data'"
    assert diagnosis.is_settled


def test_choose_usage(project: Path, shardfix_command: Callable[..., Any]) -> None:
    assert shardfix_command("--choose", "1").code == 2


def test_unsafe_repairs_are_made_when_told(project: Path) -> None:
    program = """\
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def total(mesh, xs):
    def body(xs):
        return jax.lax.scan(lambda carry, x: (carry + x, None), jnp.zeros(()), xs)[0][None]

    return jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(xs)
"""
    (project / "pkg" / "steps.py").write_text(program)
    text = (
        'Traceback (most recent call last):\n  File "pkg/steps.py", line 8, in body\n'
        "TypeError: scan body function carry input and carry output must have equal types, but they differ:\n\n"
        "The input carry component carry has type float32[] but the corresponding output carry component has type "
        "float32[]{V:i}, so the manual axis types do not match.\n"
    )
    (careful,) = diagnose(text, Settings())
    assert careful.certain is None
    assert [choice.title for choice in careful.choices] == ["start with a varying value"]
    (bold,) = diagnose(text, Settings(unsafe=True))
    assert bold.certain is not None
