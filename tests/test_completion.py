"""Completion in the shell, through the installed command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHARDFIX = Path(sys.executable).with_name("shardfix")
NARROW = {**os.environ, "COLUMNS": "80"}


def shown_by_bash(line: str) -> list[str]:
    """What bash offers for the last word of the line, by the script that ``--show-completion`` prints."""
    bash = shutil.which("bash")
    assert bash
    script = f"""
        shardfix() {{ "{SHARDFIX}" "$@"; }}
        eval "$(shardfix --show-completion bash)"
        COMP_WORDS=({line}) COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        _shardfix_completion "{SHARDFIX}" && printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run([bash, "--norc", "-c", script], env=NARROW, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("shardfix --sel", ["--select"]),
        ("shardfix --select pv", ["pvary"]),
        ("shardfix src --ignore pvary,pj", ["pvary,pjit"]),
        ("shardfix --select pvary,pv", []),
        ("shardfix --target-jax 0.1", ["0.10", "0.11", "0.12"]),
        ("shardfix --explain pjit", ["pjit"]),
        ("shardfix --explain output-r", ["output-rank", "output-replication"]),
        ("shardfix --rank0-style k", ["keepdims"]),
        ("shardfix sr", []),
    ],
)
def test_bash(line: str, offered: list[str]) -> None:
    assert shown_by_bash(line) == offered


def offered_to_zsh(line: str) -> str:
    environment = {**NARROW, "_SHARDFIX_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}
    return subprocess.run([SHARDFIX], env=environment, capture_output=True, text=True, check=True).stdout


def test_zsh_gets_a_sentence_with_each_name_and_files_where_nothing_else_is_meant() -> None:
    offered = offered_to_zsh("shardfix --select ").splitlines()
    assert any(line.startswith('"pvary":"jax.lax.pvary, which became') for line in offered)
    assert all(line.endswith(('"', "))'")) and line.count('"') == 4 for line in offered), "one line each"
    assert offered_to_zsh("shardfix --explain output-r").count('":"') >= 1
    assert offered_to_zsh("shardfix --write sr").strip() == "_files"


def test_the_script_is_installed_where_bash_finds_it(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path)}
    subprocess.run([SHARDFIX, "--install-completion", "bash"], env=environment, capture_output=True, check=True)
    (script,) = (tmp_path / ".bash_completions").iterdir()
    assert "_SHARDFIX_COMPLETE" in script.read_text()
    assert str(script) in (tmp_path / ".bashrc").read_text()
