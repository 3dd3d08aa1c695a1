"""``--explain-value``: what is known of the mapped functions at a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parent.parent / "examples" / "train.py"


def test_each_run_is_told_once(shardfix_command: Callable[..., Any]) -> None:
    done = shardfix_command("--explain-value", f"{EXAMPLE}:30")
    heads = [line for line in done.out.decode().splitlines() if not line.startswith(" ")]
    assert heads == [
        "shard_map of step at line 23, for any arguments:",
        "shard_map of step at line 23, as called at line 40:",  # in a loop, whose body is run more than once
    ]
    assert "output [1]: rank 0, varies over 'data'; spec P('data')" in done.out.decode()


def test_a_line_without_a_map_is_told(shardfix_command: Callable[..., Any]) -> None:
    done = shardfix_command("--explain-value", f"{EXAMPLE}:1")
    assert done.code == 0
    assert done.out.decode().startswith("no shard_map or smap at line 1 of ")
