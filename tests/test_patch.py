"""The patch: plain ``git apply`` takes it, and yields what ``--write`` writes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from shardfix.patch import lies_outside, unified_diff

GIT = shutil.which("git")
LINES = b"".join(b"line %d\n" % number for number in range(30))


@pytest.fixture(params=["repository", "subfolder", "no repository"])
def here(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: the root of a repository, a folder in one, or a folder outside any."""
    root = tmp_path / "root"
    folder = root / "sub" if request.param == "subfolder" else root
    folder.mkdir(parents=True)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    if request.param != "no repository":
        subprocess.run(["git", "init", "-q", str(root)], check=True)
    monkeypatch.chdir(folder)
    return folder


def applied(path: str, before: bytes, after: bytes, *options: str) -> bytes:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(before)
    patch = unified_diff(path, before, after)
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", *options, "-"], input=patch, capture_output=True, check=False
    )
    assert done.returncode == 0, (done.stderr, patch)
    return Path(path).read_bytes()


CHANGES = [
    (LINES, LINES.replace(b"line 3\n", b"LINE\nMORE\n").replace(b"line 25\n", b"")),
    (LINES, LINES.replace(b"line 3\n", b"x\n").replace(b"line 10\n", b"y\n").replace(b"line 16\n", b"z\n")),
    (b"a\nb", b"A\nb"),
    (b"a\nb", b"a\nB"),
    (b"a\nb", b"a\nb\n"),
    (b"a\nb\n", b"a\nb"),
    (b"a\r\nb\r\nc", b"a\r\nB\r\nc"),
    (b"a\rb\rc\r", b"a\rB\rc\r"),
    (b"a\nb\r\nc\rd", b"A\nB\r\nC\rD"),
    (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n"),
    (b"# coding: latin-1\nx = '\xe9'\n", b"# coding: latin-1\ny = '\xe9'\n"),
    (b"a\x0cb\n\x0b\n", b"A\x0cb\n\x0b\n"),
    (b"", b"a\n"),
    (b"a\n", b""),
    (b"-- a\n++ b\n", b"-- b\n++ a\n"),
]


@pytest.mark.skipif(GIT is None, reason="needs git")
@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_git_takes_every_kind_of_change(here: Path, before: bytes, after: bytes) -> None:
    assert applied("pkg/a.py", before, after) == after


@pytest.mark.skipif(GIT is None, reason="needs git")
@pytest.mark.parametrize(
    "name",
    [
        "a.py",
        "with blank.py",
        "two  blanks and a tab\t.py",
        "naïve/日本語.py",
        "naïve dir/日本 語.py",
        'quo"te.py',
        "back\\slash.py",
        "new\nline.py",
        " leading.py",
        "trailing .py ",
        "a/a.py",
        "b/a/b.py",
        "-dash.py",
        os.fsdecode(b"latin\xe9.py"),
        "2026-01-01 00:00:00 +0000",
    ],
)
def test_git_takes_every_name(here: Path, name: str) -> None:
    assert applied(name, b"a\nb", b"A\nb") == b"A\nb"


@pytest.mark.skipif(GIT is None, reason="needs git")
def test_a_file_outside_the_folder_needs_an_option(here: Path) -> None:
    assert lies_outside("../../other folder/a.py")
    assert applied("../../other folder/a.py", b"a\n", b"b\n", "--unsafe-paths") == b"b\n"
    assert not lies_outside("a.py")
    assert not lies_outside("..a.py")


@pytest.mark.skipif(GIT is None, reason="needs git")
def test_the_patch_names_the_file_behind_a_link(here: Path) -> None:
    (here / "real.py").write_bytes(b"a\n")
    os.symlink("real.py", "link.py")
    assert b"+++ b/real.py\n" in unified_diff("link.py", b"a\n", b"b\n")
    assert applied("link.py", b"a\n", b"b\n") == b"b\n"
    assert os.path.islink("link.py")


def test_equal_texts_have_no_patch() -> None:
    assert unified_diff("a.py", LINES, LINES) == b""


def test_hunks_have_three_lines_of_context() -> None:
    after = LINES.replace(b"line 10\n", b"x\n")
    assert unified_diff("a.py", LINES, after).split(b"\n")[:3] == [b"--- a/a.py", b"+++ b/a.py", b"@@ -8,7 +8,7 @@"]
    assert unified_diff("a.py", LINES, after).count(b"\n ") == 6


@pytest.mark.skipif(GIT is None, reason="needs git")
def test_random_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generator = random.Random(7)
    ends = [b"\n", b"\r\n", b"\r", b""]
    for _ in range(40):
        before = [b"%d%b" % (generator.randrange(6), generator.choice(ends)) for _ in range(generator.randrange(40))]
        after = [line for line in before if generator.random() > 0.1]
        for _ in range(generator.randrange(4)):
            after.insert(generator.randrange(len(after) + 1), b"new%b" % generator.choice(ends))
        if before != after and b"".join(before) != b"".join(after):
            assert applied("a.py", b"".join(before), b"".join(after)) == b"".join(after)
