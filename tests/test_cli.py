"""The command line: what goes where, and the exit codes."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., "conftest.Run"]  # type: ignore[name-defined]  # noqa: F821


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return tmp_path


def write(**files: str | bytes) -> None:
    for name, text in files.items():
        Path(f"{name}.py").write_bytes(text if isinstance(text, bytes) else text.encode())


PATCH = b"""\
--- a/a.py
+++ b/a.py
@@ -1,2 +1,2 @@
-old
+new
 puzzle
"""

pytestmark = pytest.mark.usefixtures("sample")


def test_diff_is_the_default_and_writes_nothing(here: Path, shardfix_command: Command) -> None:
    write(a="old\npuzzle\n", b="fine\n")
    done = shardfix_command()
    assert done.out == PATCH
    assert done.err.splitlines() == [
        "a.py:2:1: sample-codemod: puzzle is out of date [manual]",
        "      |",
        "    2 | puzzle",
        "      | ^^^^^^",
        "    why: there are two ways",
        "    choice: solve it",
        "    choice: leave it",
        "2 findings in 1 file; --write fixes 1; 1 to do by hand.",
    ]
    assert done.code == 1
    assert Path("a.py").read_text() == "old\npuzzle\n"
    assert shardfix_command("--diff", ".") == done


def test_write_prints_the_same_patch_and_writes_it(here: Path, shardfix_command: Command) -> None:
    write(a="old\npuzzle\n", b="fine\n")
    done = shardfix_command("--write", ".")
    assert done.out == PATCH
    assert done.err.splitlines()[-1] == "2 findings in 1 file; 1 fixed; 1 to do by hand."
    assert done.code == 1
    assert Path("a.py").read_text() == "new\npuzzle\n"
    assert Path("b.py").read_text() == "fine\n"
    again = shardfix_command("--write", ".")
    assert (again.code, again.out) == (1, b"")


def test_write_of_all_there_is_ends_with_0(here: Path, shardfix_command: Command) -> None:
    write(a="old\n")
    assert shardfix_command("--write").code == 0
    done = shardfix_command("--write")
    assert (done.code, done.out, done.err) == (0, b"", "1 file looked at, nothing to fix.\n")


def test_check_prints_a_line_a_finding(here: Path, shardfix_command: Command) -> None:
    write(a="old\nx = risky, puzzle\n", b="fine\n")
    done = shardfix_command("--check", ".")
    assert done.out.decode().splitlines() == [
        "a.py:1:1: sample-codemod: old is out of date [safe]",
        "a.py:2:5: sample-codemod: risky is out of date [unsafe]",
        "a.py:2:12: sample-codemod: puzzle is out of date [manual]",
    ]
    last = "3 findings in 1 file; --write fixes 1; 1 with an unsafe fix (--unsafe); 1 to do by hand."
    assert done.err.splitlines()[-1] == last
    assert done.code == 1
    assert Path("a.py").read_text() == "old\nx = risky, puzzle\n"


@pytest.mark.parametrize("mode", ["--diff", "--check", "--write"])
def test_clean_is_0_in_every_mode(here: Path, shardfix_command: Command, mode: str) -> None:
    write(a="fine\n")
    done = shardfix_command(mode)
    assert (done.code, done.out, done.err) == (0, b"", "1 file looked at, nothing to fix.\n")


@pytest.mark.parametrize("mode", ["--diff", "--check", "--write"])
def test_a_file_that_fails_is_2_and_the_rest_is_done(here: Path, shardfix_command: Command, mode: str) -> None:
    write(a=b"old\n\xff\n", b="old = (\n", c="old\n", d="")
    Path("e.py").symlink_to("nowhere")
    done = shardfix_command(mode)
    assert done.code == 2
    assert done.err.splitlines() == [
        "a.py:2: error: cannot be decoded as utf-8: invalid start byte (byte 0xff)",
        "b.py:1: error: cannot be parsed: '(' was never closed",
        "e.py: error: broken symbolic link to nowhere",
        f"1 finding in 1 file; {'1 fixed' if mode == '--write' else '--write fixes 1'}; 3 files could not be processed.",
    ]
    assert (Path("c.py").read_text() == "new\n") is (mode == "--write")


def test_no_python_files_is_a_sentence_and_0(here: Path, shardfix_command: Command) -> None:
    Path("notes.txt").write_text("old")
    assert shardfix_command(".") == shardfix_command(str(here))
    done = shardfix_command(".")
    assert (done.code, done.out, done.err) == (0, b"", "No Python files found.\n")


def test_a_read_only_file_is_left_and_the_rest_written(here: Path, shardfix_command: Command) -> None:
    write(a="old\n", b="old\n")
    Path("a.py").chmod(0o444)
    done = shardfix_command("--write")
    assert done.code == 2
    assert "a.py: error: not written: the file is read-only" in done.err
    assert (Path("a.py").read_text(), Path("b.py").read_text()) == ("old\n", "new\n")
    report = json.loads(shardfix_command("--write", "--output-format", "json").out)
    assert report["files"][0]["outcome"] == "failed"
    assert report["files"][0]["error"] == "not written: the file is read-only"
    assert report["files"][0]["findings"][0]["fixed"] is False


def test_all_is_analysed_before_the_first_is_written(
    here: Path, shardfix_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(a="old\n", b="old\n")
    from shardfix import application

    def run(*arguments: object, **options: object) -> object:
        for outcome in original(*arguments, **options):  # type: ignore[arg-type]
            assert Path("a.py").read_text() == "old\n"
            yield outcome

    original = application.run
    monkeypatch.setattr(application, "run", run)
    assert shardfix_command("--write").code == 0
    assert Path("a.py").read_text() == "new\n"


def test_json(here: Path, shardfix_command: Command) -> None:
    write(a="old\npuzzle\n", b="fine\n", c="old (\n")
    done = shardfix_command("--output-format", "json", "--target-jax", "0.8")
    assert json.loads(done.out) == {
        "shardfix": "0.1.0",
        "target_jax": "0.8",
        "files": [
            {
                "path": "a.py",
                "outcome": "fixable",
                "error": None,
                "findings": [
                    {
                        "codemod": "sample-codemod",
                        "cell": None,
                        "line": 1,
                        "column": 1,
                        "end_line": 1,
                        "end_column": 4,
                        "message": "old is out of date",
                        "safety": "safe",
                        "fixed": True,
                        "reason": "",
                        "fix": "use new",
                        "choices": [],
                    },
                    {
                        "codemod": "sample-codemod",
                        "cell": None,
                        "line": 2,
                        "column": 1,
                        "end_line": 2,
                        "end_column": 7,
                        "message": "puzzle is out of date",
                        "safety": "manual",
                        "fixed": False,
                        "reason": "there are two ways",
                        "fix": "",
                        "choices": ["solve it", "leave it"],
                    },
                ],
            },
            {
                "path": "c.py",
                "outcome": "failed",
                "error": "line 1: cannot be parsed: '(' was never closed",
                "findings": [],
            },
        ],
        "summary": {
            "files": 3,
            "files_with_findings": 1,
            "files_fixed": 0,
            "failed": 1,
            "found": 2,
            "fixed": 1,
            "left": {"safe": 0, "unsafe": 0, "manual": 1},
            "codemods": {"sample-codemod": {"found": 2, "fixed": 1}},
        },
    }
    assert done.code == 2
    written = json.loads(shardfix_command("--output-format", "json", "--write").out)
    assert written["files"][0]["outcome"] == "fixed"
    assert written["target_jax"] == "0.12"
    assert Path("a.py").read_text() == "new\npuzzle\n"


def test_the_streams_are_split(here: Path, shardfix_command: Command) -> None:
    write(a="old\nrisky\n")
    quiet = shardfix_command("--quiet")
    assert quiet.err == ""
    assert quiet.out
    Path("b.py").write_text("old (")
    assert shardfix_command("--quiet").err == "b.py:1: error: cannot be parsed: '(' was never closed\n"


def test_selection_and_safety(here: Path, shardfix_command: Command) -> None:
    write(a="risky\n")
    assert shardfix_command("--ignore", "sample_codemod").out == b""
    assert shardfix_command("--select", "sample-codemod").out == b""
    assert b"+bold" in shardfix_command("--select", "sample-codemod", "--unsafe").out


def test_the_target_keeps_young_repairs_back(here: Path, shardfix_command: Command) -> None:
    write(a="young\n")
    done = shardfix_command("--target-jax", "0.10")
    assert done.out == b""
    assert "needs JAX 0.11" in done.err
    assert "1 finding in 1 file for JAX 0.10 and newer; 1 left for the reason given" in done.err
    assert b"+grown" in shardfix_command().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--wirte"], "no such option: --wirte (Possible options: --ignore, --list, --write)"),
        (["--color", "allways"], "Invalid value for '--color': 'allways' is not one of 'auto', 'always', 'never'."),
        (["--select", "sample-codmod"], "unknown codemod 'sample-codmod'; did you mean 'sample-codemod'?"),
        (["--ignore", "nothing"], "unknown codemod 'nothing'; --list shows what there is"),
        (["--explain", "sampel-codemod"], "unknown codemod 'sampel-codemod'; did you mean 'sample-codemod'?"),
        (["--target-jax", "12"], "--target-jax: JAX 12 is not known; did you mean 0.12? (the newest known is 0.12)"),
        (["--target-jax", "new"], "--target-jax: 'new' is not a version of JAX; write it like 0.12"),
        (["trian.py"], "no such file or folder: 'trian.py'; did you mean 'train.py'?"),
        (["nowhere/at/all.py"], "no such file or folder: 'nowhere/at/all.py'"),
        (["--check", "--write"], "--check cannot be given together with --write"),
        (["-", "train.py"], "'-' (standard input) cannot be given together with other paths"),
        (["--stdin-filename", "a.py", "."], "--stdin-filename needs '-' (standard input) as the path"),
        (["--explain"], "Option '--explain' requires an argument."),
    ],
)
def test_wrong_usage_is_one_line_and_2(here: Path, shardfix_command: Command, arguments: list[str], line: str) -> None:
    write(train="old\n")
    done = shardfix_command(*arguments)
    assert (done.code, done.out) == (2, b"")
    assert done.err.lower() == f"shardfix: {line}\n".lower()


# Standard input


def give(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_standard_input(here: Path, shardfix_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    source = b"\xef\xbb\xbfold\r\npuzzle"
    give(source, monkeypatch)
    done = shardfix_command("-", "--stdin-filename", "pkg/a.py")
    assert done.code == 1
    assert done.out.startswith(b"--- a/pkg/a.py\n+++ b/pkg/a.py\n")
    assert "pkg/a.py:2:1: sample-codemod: puzzle" in done.err
    give(source, monkeypatch)
    written = shardfix_command("--write", "-")
    assert (written.code, written.out) == (1, b"\xef\xbb\xbfnew\r\npuzzle")
    assert "<stdin>:2:1" in written.err
    give(source, monkeypatch)
    assert shardfix_command("--check", "-").out.startswith(b"<stdin>:1:1: ")
    give(b"fine\r", monkeypatch)
    assert shardfix_command("--write", "-").out == b"fine\r"
    give(b"old (\n", monkeypatch)
    broken = shardfix_command("--write", "-")
    assert (broken.code, broken.out) == (2, b"old (\n")
    give(source, monkeypatch)
    assert shardfix_command("--write", "-", "--output-format", "json").code == 2


# Colour


def test_colour_is_for_terminals_or_on_demand(
    here: Path, shardfix_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(a="old\npuzzle\n")
    plain = shardfix_command()
    assert b"\x1b" not in plain.out
    colored = shardfix_command("--color", "always")
    assert b"\x1b[31m-old\x1b[0m\n\x1b[32m+new\x1b[0m\n puzzle\n" in colored.out
    assert "\x1b" in colored.err
    assert b"\x1b[36msample-codemod\x1b[0m" in shardfix_command("--check", "--color", "always").out
    assert shardfix_command("--color", "never") == plain


def test_colour_on_a_terminal_minds_no_color() -> None:
    from shardfix.reporters.base import Color, Stream

    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm")
        patch.delenv("NO_COLOR", raising=False)
        assert Stream.on(Terminal(), Color.AUTO).colored
        patch.setenv("NO_COLOR", "1")
        assert not Stream.on(Terminal(), Color.AUTO).colored
        patch.delenv("NO_COLOR")
        patch.setenv("TERM", "dumb")
        assert not Stream.on(Terminal(), Color.AUTO).colored


# Catalogue


def test_list_and_explain(here: Path, shardfix_command: Command) -> None:
    listed = shardfix_command("--list")
    assert listed.out.decode() == (
        "sample-codemod  A codemod for tests of the house: what it does with a name is decided by the name alone."
        " (deprecated in JAX 0.7, removed in 0.9)\n"
    )
    explained = shardfix_command("--explain", "sample_codemod")
    assert explained.code == listed.code == 0
    assert explained.out.startswith(b"sample-codemod (deprecated in JAX 0.7, removed in 0.9)\n\nA codemod for tests")


def test_a_codemod_that_cannot_be_imported_is_told_and_the_rest_runs(
    here: Path, shardfix_command: Command, monkeypatch: pytest.MonkeyPatch, sample: type
) -> None:
    import shardfix.codemod

    discovered = shardfix.codemod._Discovered({"sample-codemod": sample}, {"others.codemod": "ImportError: no"})
    monkeypatch.setattr(shardfix.codemod, "_discover", lambda: discovered)
    write(a="old\n")
    done = shardfix_command()
    assert done.code == 2
    assert b"+new" in done.out
    assert "the codemod others.codemod cannot be imported: ImportError: no" in done.err


# The patch and the write are the same thing


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_apply_of_the_patch_gives_what_write_writes(here: Path, shardfix_command: Command) -> None:
    sources = {
        "plain.py": b"a = 1\nx = old\nb = 2\n",
        "with blank.py": b"old\n",
        "na\xc3\xafve.py": b"old",
        "crlf.py": b"a\r\nold\r\nb",
        "cr.py": b"a\rold\rb",
        "mixed.py": b"a\rold\r\nb\nold\x0c\n",
        "bom.py": b"\xef\xbb\xbfold\n",
        "latin.py": b"# coding: latin-1\nx = '\xe9'; accent\n",
        "sub/deep/er.py": b"\told\n".replace(b"\told", b"if x:\n\told"),
    }
    for side in ("patched", "written"):
        for name, data in sources.items():
            path = os.path.join(os.fsencode(here), side.encode(), name.encode("latin-1"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(os.fsdecode(path)).write_bytes(data)
    os.chdir(here / "patched")
    patch = shardfix_command().out
    os.chdir(here / "written")
    assert shardfix_command("--write").out == patch
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=patch, check=True, cwd=here / "patched")
    results = [
        {path.relative_to(here / side): path.read_bytes() for path in (here / side).rglob("*.py")}
        for side in ("patched", "written")
    ]
    assert results[0] == results[1]
    assert all(b"old" not in data for data in results[0].values())
    assert len(results[0]) == len(sources)
