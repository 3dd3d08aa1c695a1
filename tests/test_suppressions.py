"""Comments that keep findings back: what they hold for, which are unused, and how they are written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sample_codemod import SampleCodemod

import shardfix.codemod
from shardfix import suppressions

Command = Callable[..., "conftest.Run"]  # type: ignore[name-defined]  # noqa: F821


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, with the sample codemod and the judge of comments as the only codemods."""
    judge = shardfix.codemod.all_codemods()["unused-suppressions"]
    found = {"sample-codemod": SampleCodemod, "unused-suppressions": judge}
    discovered = shardfix.codemod._Discovered(found)  # type: ignore[arg-type]
    monkeypatch.setattr(shardfix.codemod, "_discover", lambda: discovered)
    monkeypatch.chdir(tmp_path)
    return tmp_path


KEPT = {
    "on the line": "x = old  # shardfix: ignore\n",
    "by name": "x = old  # shardfix: ignore[sample-codemod]\n",
    "by one of several names": "x = old  # shardfix:ignore[ other , sample_codemod ]\n",
    "beside other comments": "x = old  # noqa: E501  # shardfix: ignore  # and why\n",
    "on the last line of the statement": "x = f(\n    old,\n    1,\n)  # shardfix: ignore\n",
    "on the first line of the statement": "x = f(  # shardfix: ignore\n    old,\n)\n",
    "on a line of its own within": "x = f(\n    # shardfix: ignore\n    old,\n)\n",
    "on a line of its own before": "# shardfix: ignore\n\nx = f(\n    old,\n)\n",
    "on the header of a block": "if (  # shardfix: ignore\n    old\n):\n    pass\n",
    "at the decorator": "@f(old)  # shardfix: ignore\ndef g(): pass\n",
    "at the def, for its decorator": "@f(old)\ndef g():  # shardfix: ignore\n    pass\n",
    "for all of the line": "x = old; y = old  # shardfix: ignore\n",
    "for the file": "x = old\n# shardfix: skip-file\n",
    "where lines end in CR LF": "x = f(\r\n    old\r\n)  # shardfix: ignore\r\n",
    "beyond ASCII": "x = 'é', old  # é  # shardfix: ignore\n",
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_it_keeps_findings_back(here: Path, shardfix_command: Command, text: str) -> None:
    Path("a.py").write_text(text, newline="")
    done = shardfix_command("--write", "--ignore", "unused-suppressions")
    assert (done.code, done.out) == (0, b""), done.err
    assert Path("a.py").read_bytes() == text.encode()


NOT_KEPT = {
    "in a string": "x = old, '# shardfix: ignore'\n",
    "for another codemod": "x = old  # shardfix: ignore[unused-suppressions]\n",
    "in the body of a block": "if old:\n    pass  # shardfix: ignore\n",
    "on the header, for the body": "if x:  # shardfix: ignore\n    old\n",
    "at the statement before": "x = 1  # shardfix: ignore\nold\n",
    "a word more": "x = old  # shardfix: ignored\n",
}


@pytest.mark.parametrize("text", NOT_KEPT.values(), ids=NOT_KEPT)
def test_it_keeps_nothing_else_back(here: Path, shardfix_command: Command, text: str) -> None:
    Path("a.py").write_text(text)
    assert shardfix_command("--check", "--ignore", "unused-suppressions").code == 1


def test_other_findings_are_fixed_beside_it(here: Path, shardfix_command: Command) -> None:
    Path("a.py").write_text("old  # shardfix: ignore\nold\n\n\nstep2  # shardfix: ignore\n")
    assert shardfix_command("--write").code == 0
    assert Path("a.py").read_text() == "old  # shardfix: ignore\nnew\n\n\nstep2  # shardfix: ignore\n"


UNUSED = {
    "at the end of a line": ("x = 1  # shardfix: ignore\ny\n", "x = 1\ny\n"),
    "on a line of its own": ("x = 1\n    # shardfix: ignore\ny\n", "x = 1\ny\n"),
    "at the end of the file": ("x = 1\n# shardfix: ignore", "x = 1\n"),
    "before another comment": ("x = 1  # shardfix: ignore  # noqa\n", "x = 1  # noqa\n"),
    "after another comment": ("x = 1  # noqa # shardfix: ignore\n", "x = 1  # noqa\n"),
    "with its explanation": ("x = 1  # shardfix: ignore[sample-codemod]: of old\n", "x = 1\n"),
    "in part": (
        "old  # shardfix: ignore[sample-codemod, gone]\n",
        "old  # shardfix: ignore[sample-codemod]\n",
    ),
    "with CR LF": ("x = 1  # shardfix: ignore\r\ny\r\n", "x = 1\r\ny\r\n"),
    "in a file with a repair": ("x = 1  # shardfix: ignore\nold\n", "x = 1\nnew\n"),
}


@pytest.mark.parametrize(("before", "after"), UNUSED.values(), ids=UNUSED)
def test_what_is_unused_is_reported_and_removed(here: Path, shardfix_command: Command, before: str, after: str) -> None:
    Path("a.py").write_text(before, newline="")
    assert b"unused-suppressions: " in shardfix_command("--check").out
    assert shardfix_command("--write").code == 0
    assert Path("a.py").read_bytes() == after.encode()
    assert shardfix_command().code == 0


def test_a_comment_that_a_later_pass_needs_is_used(here: Path, shardfix_command: Command) -> None:
    text = "f(step2,  # shardfix: ignore[sample-codemod]\n  1)\n"
    Path("a.py").write_text(text)
    assert shardfix_command("--write").code == 0
    assert Path("a.py").read_text() == text


def test_only_what_runs_is_judged(here: Path, shardfix_command: Command) -> None:
    text = "x = 1  # shardfix: ignore[sample-codemod]\ny = 1  # shardfix: ignore\n"
    Path("a.py").write_text(text)
    assert shardfix_command("--check", "--select", "unused-suppressions").code == 0
    assert shardfix_command("--check", "--ignore", "unused-suppressions").code == 0


def test_an_unknown_name_is_told_with_the_nearest(here: Path, shardfix_command: Command) -> None:
    Path("a.py").write_text("x = old  # shardfix: ignore[sample-codmod]\n")
    done = shardfix_command("--check")
    assert b"unknown codemod 'sample-codmod'; did you mean 'sample-codemod'?" in done.out


def test_files_without_the_mark_are_not_tokenized(
    here: Path, shardfix_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(suppressions.tokenize, "generate_tokens", refuse)
    Path("a.py").write_text("puzzle  # shardfix is a tool\n")
    assert shardfix_command("--check").code == 1


ADDED = {
    "at the end of the line": ("x = old\n", "x = old  # shardfix: ignore[sample-codemod]\n"),
    "once a line": ("old, old, risky\n", "old, old, risky  # shardfix: ignore[sample-codemod]\n"),
    "into the names": (
        "old  # shardfix: ignore[gone]\n",
        "old  # shardfix: ignore[gone, sample-codemod]\n",
    ),
    "after a string of many lines": (
        'f(old, """\n\n""")\n',
        'f(old, """\n\n""")  # shardfix: ignore[sample-codemod]\n',
    ),
    "after a backslash": ("x = old + \\\n    1\n", "x = old + \\\n    1  # shardfix: ignore[sample-codemod]\n"),
    "beside a comment, with CR LF": (
        "old  # why\r\ny\r\n",
        "old  # why  # shardfix: ignore[sample-codemod]\r\ny\r\n",
    ),
    "on the header": ("if old:\n    y\n", "if old:  # shardfix: ignore[sample-codemod]\n    y\n"),
}


@pytest.mark.parametrize(("before", "after"), ADDED.values(), ids=ADDED)
def test_ignores_are_added(here: Path, shardfix_command: Command, before: str, after: str) -> None:
    Path("a.py").write_text(before, newline="")
    done = shardfix_command("--add-ignores")
    assert done.code == 0, done.err
    assert Path("a.py").read_bytes() == after.encode()
    assert b"+++ b/a.py" in done.out
    again = shardfix_command("--check", "--output-format", "json")
    assert [one["codemod"] for file in json.loads(again.out)["files"] for one in file["findings"]] == (
        ["unused-suppressions"] if "gone" in before else []
    )


def test_add_ignores_says_what_it_did(here: Path, shardfix_command: Command) -> None:
    Path("a.py").write_text("old\npuzzle\n")
    Path("b.py").write_text("old = (\n")
    done = shardfix_command("--add-ignores")
    assert (done.code, done.err.splitlines()) == (
        2,
        ["b.py: error: line 1: cannot be parsed: '(' was never closed", "2 findings ignored in 1 file."],
    )
    assert shardfix_command("--add-ignores", "--check").code == 2
    assert shardfix_command("--add-ignores", "a.py").err == "Nothing to ignore.\n"
