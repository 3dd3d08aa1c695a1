"""``--interactive``, by a real terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pexpect = pytest.importorskip("pexpect")

SOURCE = """\
import jax
from jax import lax


def f(x):
    return lax.pvary(x, "x")


def g(x):
    return lax.pvary(x, "y")


def h(x):
    return lax.pvary(x, "z")
"""
PROMPT = r"\((\d)/(\d)\) Apply this repair \[y,n,a,s,e,q,\?\]\? "


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_text(SOURCE)
    return path


class Session:
    """One run, with answers typed in."""

    def __init__(self, path: Path) -> None:
        command = ["-m", "shardfix", "--interactive", "--isolated", path.name]
        self.child = pexpect.spawn(sys.executable, command, cwd=path.parent, encoding="utf-8", timeout=60)
        self.child.setecho(False)

    def answer(self, *letters: str) -> str:
        """Answer so many questions; what was shown before the last."""
        for letter in letters:
            self.child.expect(PROMPT)
            shown = uncolored(self.child.before)
            self.child.sendline(letter)
        return shown

    def end(self) -> tuple[int, str]:
        """The exit code and the last line."""
        self.child.expect(pexpect.EOF)
        self.child.close()
        return self.child.exitstatus, uncolored(self.child.before).strip().splitlines()[-1]


def uncolored(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def repaired(*names: str) -> str:
    text = SOURCE
    for name in names:
        text = text.replace(f'pvary(x, "{name}")', f'pcast(x, "{name}", to="varying")')
    return text


def test_each_is_asked_for_and_the_accepted_are_written_at_the_end(path: Path) -> None:
    session = Session(path)
    shown = session.answer("y")
    assert '-    return lax.pvary(x, "x")' in shown
    assert '+    return lax.pcast(x, "x", to="varying")' in shown
    assert "pcast" not in path.read_text()
    session.answer("n", "y")
    assert session.end() == (1, "2 accepted; 1 declined; 1 file written; 1 finding left.")
    assert path.read_text() == repaired("x", "z")


def test_all_of_a_codemod(path: Path) -> None:
    session = Session(path)
    session.answer("n", "a")
    assert session.end() == (1, "2 accepted; 1 declined; 1 file written; 1 finding left.")
    assert path.read_text() == repaired("y", "z")


def test_suppress(path: Path) -> None:
    session = Session(path)
    session.answer("y", "s", "y")
    assert session.end() == (0, "2 accepted; 1 suppressed; 1 file written; 0 findings left.")
    assert path.read_text() == repaired("x", "z").replace('"y")', '"y")  # shardfix: ignore[pvary]')


def test_explain_and_help_ask_again(path: Path) -> None:
    session = Session(path)
    session.answer("e")
    assert "What JAX says" in session.answer("?")
    assert "decline it, and suppress" in session.answer("q")
    assert session.end() == (1, "3 declined; 0 files written; 3 findings left.")
    assert path.read_text() == SOURCE


def test_q_writes_what_was_accepted_and_ctrl_c_nothing(path: Path) -> None:
    session = Session(path)
    session.answer("y", "q")
    assert session.end()[0] == 1
    assert path.read_text() == repaired("x")
    session = Session(path)
    session.answer("y")
    session.child.expect(PROMPT)
    session.child.sendintr()
    if session.child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=10) == 1:
        session.child.sendintr()  # the first came just before the process began to read, where Python takes it only afterwards
        session.child.expect(pexpect.EOF)
    session.child.close()
    assert session.child.exitstatus == 130
    assert path.read_text() == repaired("x")


def test_a_pipe_is_no_terminal(path: Path) -> None:
    command = [sys.executable, "-m", "shardfix", "--interactive", path.name]
    done = subprocess.run(command, cwd=path.parent, input="y\n", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("shardfix: --interactive needs a terminal")
