"""The line that tells how far a run is: there on a terminal where it takes long, and gone in the end."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli_process import WRITE_WITH_SAMPLE_CODEMOD

CODE = WRITE_WITH_SAMPLE_CODEMOD.replace('main(["--write", "."])', "main(sys.argv[1:])")
PROGRESS = re.compile(r"\d+/12 [^\r]*files/s[^\r]*\d+ findings?[^\r]*\d+\.py")


def screen(written: str) -> list[str]:
    """What a terminal shows in the end of what was written to it."""
    lines, row, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            row, column = row + 1, 0
            lines += [""] * (row - len(lines) + 1)
        elif piece.endswith("A"):
            row -= int(piece[2:-1] or 1)
        elif piece.endswith("K"):
            lines[row] = ""
        elif not piece.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + piece + lines[row][column + len(piece) :]
            column += len(piece)
    return [line.rstrip() for line in lines if line.strip()]


def run(folder: Path, *arguments: str, both: bool = False, **environment: str) -> tuple[str, bytes]:
    """What the command writes to a terminal (its stderr, or both), and to a pipe."""
    reader, writer = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", CODE, "--no-cache", *arguments],
        cwd=folder,
        stdout=writer if both else subprocess.PIPE,
        stderr=writer,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "NO_COLOR": "", **environment},
    ) as process:
        os.close(writer)
        written = b""
        try:
            while piece := os.read(reader, 65536):
                written += piece
        except OSError:  # the other end is closed
            pass
        out = process.stdout.read() if process.stdout else b""
    os.close(reader)
    return written.decode(), out


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """Files that take two seconds."""
    for number in range(12):
        (tmp_path / f"{number:02}.py").write_text("nap\nold\n" if number % 3 == 0 else "nap\n")
    return tmp_path


@pytest.mark.timeout(120)
def test_a_long_run_tells_how_far_it_is(slow: Path) -> None:
    written, out = run(slow)
    assert len(PROGRESS.findall(re.sub(r"\x1b\[[\d;]*m", "", written))) >= 3
    assert "0/?" not in written
    assert "\x1b[?25h" in written, "the cursor is back"
    assert screen(written) == ["4 findings in 4 files; --write fixes 4."]
    assert out.count(b"+new\n") == 4
    assert b"\x1b" not in out


@pytest.mark.timeout(120)
def test_the_patch_on_the_same_terminal_is_whole(slow: Path) -> None:
    written, _ = run(slow, both=True)
    assert PROGRESS.search(re.sub(r"\x1b\[[\d;]*m", "", written))
    patch = [f"{mark} {side}/{number:02}.py" for number in (0, 3, 6, 9) for mark, side in (("---", "a"), ("+++", "b"))]
    shown = screen(written)
    assert [line for line in shown if line.startswith(("---", "+++"))] == patch
    assert len(shown) == 4 * 6 + 1
    assert shown[-1] == "4 findings in 4 files; --write fixes 4."


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("--quiet",), {}),
        (("--color", "never"), {}),
        ((), {"TERM": "dumb"}),
        ((), {"NO_COLOR": "1"}),
    ],
)
def test_no_line_where_it_is_not_wanted(slow: Path, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    written, _ = run(slow, "--check", *arguments, **environment)
    assert "files/s" not in written
    assert "\x1b[" not in written


def test_no_line_in_a_short_run(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old\n")
    written, _ = run(tmp_path, "--check")
    assert written == "1 finding in 1 file; --write fixes 1.\r\n"


@pytest.mark.timeout(120)
def test_no_line_in_a_pipe(slow: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CODE, "--check"], cwd=slow, capture_output=True, check=False)
    assert done.stderr == b"4 findings in 4 files; --write fixes 4.\n"


@pytest.mark.timeout(120)
def test_a_pool_is_waited_for_in_view(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number:02}.py").write_text("nap\n" * 6 + "#" * 60_000)
    written, _ = run(tmp_path, "--check")
    assert PROGRESS.search(re.sub(r"\x1b\[[\d;]*m", "", written))
    assert screen(written) == ["12 files looked at, nothing to fix."]
