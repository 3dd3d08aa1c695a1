"""Finding, reading and writing files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from shardfix import files
from shardfix.files import FileProblem, decode, discover, encode, replace


def tree(root: Path, *names: str, **texts: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def found(*paths: str) -> list[str]:
    return [one.path for one in discover(paths) if one.problem is None]


def problems(*paths: str) -> dict[str, str]:
    return {one.path: one.problem for one in discover(paths) if one.problem is not None}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


# Finding


def test_a_folder_is_searched_in_a_stable_order(here: Path) -> None:
    tree(here, "b.py", "a.py", "pkg/z.py", "pkg/a.pyi", "notes.txt", "data.python")
    assert found(".") == ["a.py", "b.py", "pkg/a.pyi", "pkg/z.py"]
    assert found(str(here)) == [str(here / name) for name in ("a.py", "b.py", "pkg/a.pyi", "pkg/z.py")]


def test_each_file_once_whatever_the_paths(here: Path) -> None:
    tree(here, "pkg/a.py", "pkg/b.py")
    assert found("pkg/b.py", "pkg", ".", "./pkg/a.py") == ["pkg/b.py", "pkg/a.py"]


def test_folders_of_others_are_skipped_unless_named(here: Path) -> None:
    tree(
        here,
        "a.py",
        ".venv/x.py",
        "build/x.py",
        "node_modules/x.py",
        "third_party/x.py",
        "my/pyvenv.cfg",
        "my/lib/x.py",
    )
    assert found(".") == ["a.py"]
    assert found("build") == ["build/x.py"]
    assert found("my") == ["my/lib/x.py"]


def test_a_named_file_is_always_taken(here: Path) -> None:
    tree(here, ".gitignore", ".git/x", "script", "build/x.py")
    (here / ".gitignore").write_text("*\n")
    assert found("script", "build/x.py") == ["script", "build/x.py"]


def test_gitignore_files_nest_and_the_nearest_decides(here: Path) -> None:
    tree(
        here,
        "a.py",
        "gen_a.py",
        "sub/gen_b.py",
        "sub/keep.py",
        "sub/deep/gen_c.py",
        "out/x.py",
        "sub/out/x.py",
        "local/x.py",
    )
    (here / ".gitignore").write_text("# generated\ngen_*.py\n/out/\nlocal\n")
    (here / "sub/.gitignore").write_text("!gen_b.py\ndeep/\n")
    assert found(".") == ["a.py", "sub/gen_b.py", "sub/keep.py", "sub/out/x.py"]


def test_gitignore_above_counts_within_a_repository_only(here: Path) -> None:
    tree(here, "repo/sub/a.py", "repo/sub/gen.py", "repo/sub/excluded.py")
    (here / "repo/.gitignore").write_text("gen.py\n")
    assert found("repo/sub") == ["repo/sub/a.py", "repo/sub/excluded.py", "repo/sub/gen.py"]
    tree(here, "repo/.git/info/exclude")
    (here / "repo/.git/info/exclude").write_text("/sub/excluded.py\n")
    assert found("repo/sub") == ["repo/sub/a.py"]


def test_links_are_followed_to_files_not_to_folders_nor_outside(here: Path) -> None:
    tree(here, "real/a.py", "../outside.py", "../elsewhere/x.py")
    os.symlink("real/a.py", here / "0_link.py")
    os.symlink("../outside.py", here / "outside.py")
    os.symlink("real", here / "again")
    os.symlink("../elsewhere", here / "elsewhere")
    os.symlink(".", here / "loop")
    assert found(".") == ["real/a.py"]
    assert found("outside.py") == ["outside.py"]
    assert found("elsewhere") == ["elsewhere/x.py"]


def test_a_broken_link_is_a_problem_and_the_rest_is_found(here: Path) -> None:
    tree(here, "a.py")
    os.symlink("nowhere.py", here / "link.py")
    os.symlink("user@host.123", here / ".#a.py")  # an Emacs lock is no file
    assert found(".") == ["a.py"]
    assert problems(".") == {"link.py": "broken symbolic link to nowhere.py"}
    assert problems("link.py") == {"link.py": "broken symbolic link to nowhere.py"}


def test_what_is_not_a_file_is_not_read(here: Path) -> None:
    os.mkfifo(here / "pipe.py")
    assert found(".") == []
    assert problems("pipe.py") == {"pipe.py": "not a regular file"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all")
def test_a_closed_folder_is_a_problem(here: Path) -> None:
    tree(here, "a.py", "closed/b.py")
    (here / "closed").chmod(0)
    assert found(".") == ["a.py"]
    assert problems(".") == {"closed": "permission denied"}


# Reading


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        (b"", "utf-8", ""),
        ("é = 1\n".encode(), "utf-8", "é = 1\n"),
        (b"\xef\xbb\xbfa\r\nb\rc\n", "utf-8", "a\r\nb\rc\n"),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'", "iso-8859-1", "# -*- coding: latin-1 -*-\nx = 'é'"),
        (b"#!/bin/python\r# coding: latin-1\rx = '\xe9'", "iso-8859-1", "#!/bin/python\r# coding: latin-1\rx = 'é'"),
        (b"# coding: euc_jp\nx = '\xa4\xa2'", "euc_jp", "# coding: euc_jp\nx = 'あ'"),
        (b"#\r#\r# coding: latin-1 is on the third line\r", "utf-8", "#\r#\r# coding: latin-1 is on the third line\r"),
    ],
)
def test_decoding_is_pythons_and_encoding_gives_the_bytes_back(data: bytes, encoding: str, text: str) -> None:
    source = decode(data)
    assert (source.encoding, source.text) == (encoding, text)
    assert encode(source, source.text) == data


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"a\r\nb\rc = '\xff'\n", 3, "cannot be decoded as utf-8: invalid start byte (byte 0xff)"),
        (b"\xef\xbb\xbfa\nb\xff", 2, "invalid start byte"),
        (b"# coding: ascii\n\n\xe9", 3, "cannot be decoded as ascii"),
        (b"# coding: no-such-thing\n", 1, "unknown encoding"),
        (b"\xef\xbb\xbf# coding: latin-1\n", 1, "encoding problem"),
        (b"# coding: rot13\nk", 1, "rot13"),
        (b"\xff\xfea\0", 1, "UTF-16"),
    ],
)
def test_what_cannot_be_decoded_is_told_with_its_line(data: bytes, line: int, words: str) -> None:
    with pytest.raises(FileProblem) as caught:
        decode(data)
    assert words in caught.value.reason
    assert caught.value.line == line


def test_what_the_encoding_cannot_say_or_would_change_is_not_written() -> None:
    with pytest.raises(FileProblem, match="iso-8859-1 cannot say"):
        encode(decode(b"# coding: latin-1\n"), "x = '€'")
    # UTF-7 has several spellings of a text, so that encoding again would change bytes that no one asked to change.
    with pytest.raises(FileProblem, match="byte for byte"):
        encode(decode(b"# coding: utf-7\nx = '+AGE-'"), "y")


# Writing


def test_mode_and_owner_stay_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o751)
    if os.geteuid() == 0:
        os.chown(path, 12345, 23456)
    before = path.stat()
    replace(str(path), b"old", b"new")
    after = path.stat()
    assert path.read_bytes() == b"new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert os.listdir(tmp_path) == ["a.py"]


def test_extended_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.mark", b"1")
    except OSError:
        pytest.skip("no extended attributes here")
    replace(str(path), b"old", b"new")
    assert os.getxattr(path, "user.mark") == b"1"


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real/a.py", tmp_path / "link.py"
    real.write_bytes(b"old")
    link.symlink_to("real/a.py")
    replace(str(link), b"old", b"new")
    assert link.is_symlink()
    assert not real.is_symlink()
    assert real.read_bytes() == b"new"


def test_a_file_that_changed_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"edited meanwhile")
    with pytest.raises(FileProblem, match="changed since it was read"):
        replace(str(path), b"old", b"new")
    assert path.read_bytes() == b"edited meanwhile"
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_read_only_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(FileProblem, match="read-only"):
        replace(str(path), b"old", b"new")
    assert path.read_bytes() == b"old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_a_file_that_vanished_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="no such file"):
        replace(str(tmp_path / "gone.py"), b"old", b"new")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("failing", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_whatever_fails_the_original_stays_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, error: BaseException
) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(files.os, failing, fail)
    with pytest.raises((FileProblem, KeyboardInterrupt)):
        replace(str(path), b"old", b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.py"]


def test_what_is_written_is_on_the_disk_before_it_takes_the_name_and_the_name_before_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever order the file system writes in: a machine that goes down leaves the old or the new."""
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    calls: list[str] = []

    def fsync(descriptor: int) -> None:
        calls.append("fsync of the folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "fsync of the file")

    def rename(*paths: str) -> None:
        calls.append("replace")
        os.rename(*paths)

    monkeypatch.setattr(files.os, "fsync", fsync)
    monkeypatch.setattr(files.os, "replace", rename)
    replace(str(path), b"old", b"new")
    assert calls == ["fsync of the file", "replace", "fsync of the folder"]


def test_an_owner_that_cannot_be_kept_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tmp_path / "a.py", tmp_path / "b.py"
    for path in (old, new):
        path.write_bytes(b"old")

    def forbid(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(files.os, "chown", forbid)
    of_another = os.stat_result((*old.stat()[:4], os.geteuid() + 1, *old.stat()[5:]))
    with pytest.raises(FileProblem, match="owner or group could not be kept"):
        files._copy_attributes(str(old), str(new), of_another)


@pytest.mark.parametrize("late", [False, True])
def test_a_file_that_has_the_temporary_name_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    path, other, link = tmp_path / "a.py", tmp_path / "other", tmp_path / f".shardfix-{os.getpid()}-7.tmp"
    path.write_bytes(b"old")
    other.write_bytes(b"of another")
    link.symlink_to("other")
    monkeypatch.setattr(files, "_serial", iter([7]))
    if late:  # it comes between the look and the writing
        monkeypatch.setattr(files.os.path, "lexists", lambda _: False)
    with pytest.raises(FileProblem, match=r"not written: .*file"):
        replace(str(path), b"old", b"new")
    assert (path.read_bytes(), other.read_bytes()) == (b"old", b"of another")
