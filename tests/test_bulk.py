"""Lists of files, parts of a run, and patches in files."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Run

from shardfix.application import Shard, paths_in
from shardfix.settings import UsageProblem

pytestmark = pytest.mark.usefixtures("sample")

Command = Callable[..., Run]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.py", "c.py", "d e.py"):
        (tmp_path / name).write_text("x = old\n")
    return tmp_path


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        (b"", ()),
        (b"a.py\nb c.py\r\n\n", ("a.py", "b c.py")),
        (b"a.py\0b\nc.py\0", ("a.py", "b\nc.py")),
        (b"\xff.py", ("\udcff.py",)),
    ],
)
def test_lists_of_paths(data: bytes, paths: tuple[str, ...]) -> None:
    assert paths_in(data) == paths


def test_paths_from_a_file_and_from_stdin(
    folder: Path, shardfix_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "list").write_bytes(b"a.py\0d e.py\0")
    done = shardfix_command("--check", "--files-from", "list")
    assert [line.partition(b":")[0] for line in done.out.splitlines()] == [b"a.py", b"d e.py"]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"b.py\n")))
    assert shardfix_command("--check", "--files-from", "-", "c.py").out.count(b"\n") == 2


def test_an_empty_list_is_no_file(folder: Path, shardfix_command: Command) -> None:
    (folder / "list").write_bytes(b"")
    assert shardfix_command("--check", "--files-from", "list").code == 0
    assert shardfix_command("--check", "--files-from", "nowhere").code == 2


def test_shards_are_the_whole_and_share_nothing(folder: Path, shardfix_command: Command) -> None:
    whole = shardfix_command("--check").out.splitlines()
    parts = [shardfix_command("--check", "--shard", f"{number}/3").out.splitlines() for number in (1, 2, 3)]
    assert sorted(line for part in parts for line in part) == sorted(whole)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "a/b", "1/0", "-1/2", "1/2/3"])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(UsageProblem, match="--shard takes K/N"):
        Shard.parse(text)


def test_the_patch_in_a_file_is_that_on_stdout(folder: Path, shardfix_command: Command) -> None:
    shown = shardfix_command().out
    done = shardfix_command("--check", "--patch-file", "fix.patch")
    assert (folder / "fix.patch").read_bytes() == shown
    assert done.out.count(b"\n") == 4
    assert shardfix_command("--patch-file", "no/such/folder").code == 2


def test_stats_tell_of_stages_and_codemods(folder: Path, shardfix_command: Command) -> None:
    done = shardfix_command("--check", "--stats", "--no-cache")
    rows = {line[:28].strip(): line[28:].split() for line in done.err.splitlines()}
    assert rows["stage"] == ["files", "MB", "CPU", "s"]
    assert rows["prefilter and cache"][0] == "4"
    assert int(rows["sample-codemod"][0]) >= 4
