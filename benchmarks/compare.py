"""Times shardfix, cold and warm, against ruff, LibCST's codemod runner and TorchFix on one folder, as ratios.

    python benchmarks/compare.py FOLDER
    python benchmarks/compare.py --synthetic 1000

The other tools are installed into a virtual environment of their own (``--venv``), once. The commands take turns, so that
what else the machine does falls on all of them; the median of the CPU seconds of each (its children included) is compared.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

OTHERS = ("ruff", "libcst", "torchfix")
JAX_SHARE = 0.3
"""How many of the synthetic files use sharding: about as many as in MaxText."""
PLAIN = '''

def combine_{number}(first, second, *, scale=1.0):
    """Adds {number} to the scaled sum of two sequences."""
    total = [scale * (a + b) for a, b in zip(first, second)]
    if not total:
        raise ValueError("nothing to combine")
    return {{"total": total, "count": len(total), "offset": {number}}}
'''
SHARDED = """

def loss_{number}(x, y):
    return jnp.mean((x - y) ** 2)


step_{number} = shard_map(loss_{number}, mesh, in_specs=(P("data"), P("data")), out_specs=P(), check_rep=False)
"""
HEADER = """import jax
import jax.numpy as jnp
from jax.experimental.shard_map import shard_map
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",))
"""


@dataclass(frozen=True)
class Tool:
    """A command that is timed."""

    name: str
    command: Sequence[str]
    prepare: Callable[[], None] = lambda: None
    environment: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False
    """Whether it is run once only."""


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or write_synthetic(Path(scratch) / "tree", options.synthetic)
        sources = sorted(folder.rglob("*.py"))
        size = sum(path.stat().st_size for path in sources)
        print(f"{folder}: {len(sources)} files, {size / 1e6:.1f} MB")
        seconds: dict[str, list[float]] = {}
        tools = _tools(folder, Path(scratch), _environment_of_others(options.venv), options.shardfix)
        for number in range(options.rounds):
            for tool in tools:
                if not (tool.slow and (number or options.fast)):
                    tool.prepare()
                    seconds.setdefault(tool.name, []).append(cpu_seconds(tool))
        _report({name: statistics.median(times) for name, times in seconds.items()})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="the tree to time the tools on")
    parser.add_argument("--synthetic", type=int, default=500, metavar="N", help="without FOLDER: a tree of N files")
    parser.add_argument("--rounds", type=int, default=3, help="how often each tool is run")
    parser.add_argument(
        "--fast", action="store_true", help="leave out LibCST's runner and TorchFix, which take minutes"
    )
    parser.add_argument("--venv", type=Path, default=Path(__file__).parent / ".venv", help="where the others live")
    parser.add_argument("--shardfix", default=f"{sys.executable} -m shardfix", help="the shardfix to time")
    return parser.parse_args()


def write_synthetic(folder: Path, count: int) -> Path:
    """A tree of ``count`` files, the same each time."""
    chance = random.Random(count)
    for number in range(count):
        path = folder / f"package_{number // 50}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        functions = [PLAIN.format(number=index) for index in range(chance.randrange(5, 80))]
        if chance.random() < JAX_SHARE:
            functions = [HEADER, *functions, *(SHARDED.format(number=index) for index in range(chance.randrange(1, 6)))]
        path.write_text("".join(functions))
    return folder


def _environment_of_others(folder: Path) -> Path:
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    if not (scripts / "torchfix").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([scripts / "python", "-m", "pip", "install", "-q", *OTHERS], check=True)
    return scripts


def _tools(folder: Path, scratch: Path, scripts: Path, shardfix: str) -> list[Tool]:
    cache = scratch / "cache"
    check = [*shardfix.split(), "--check", "--isolated", str(folder)]
    own_cache = {"XDG_CACHE_HOME": str(cache)}
    copy = scratch / "copy"

    def fresh_copy() -> None:  # LibCST's runner writes
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".git"))

    rename = ["rename.RenameCommand", "--old_name", "jax.experimental.shard_map.shard_map"]
    libcst = ["-m", "libcst.tool", "codemod", *rename, "--new_name", "jax.shard_map", "--no-format", "-j", "2"]
    return [
        Tool("shardfix, cold", [*check, "--no-cache"]),
        Tool("shardfix, warm", check, environment=own_cache),
        Tool("ruff check", [str(scripts / "ruff"), "check", "--no-cache", "--isolated", "-q", str(folder)]),
        Tool("LibCST rename", [str(scripts / "python"), *libcst, str(copy)], fresh_copy, slow=True),
        Tool("TorchFix", [str(scripts / "torchfix"), "--select", "ALL", str(folder)], slow=True),
    ]


def cpu_seconds(tool: Tool) -> float:
    """CPU seconds of one run, with those of the processes that it waits for; the first warm run fills the cache."""
    if tool.name == "shardfix, warm" and not Path(tool.environment["XDG_CACHE_HOME"]).exists():
        _run(tool)
    return _run(tool)


def _run(tool: Tool) -> float:
    before = os.times()
    subprocess.run(
        tool.command,
        env={**os.environ, **tool.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _report(medians: Mapping[str, float]) -> None:
    cold = medians["shardfix, cold"]
    print(f"{'':<16}{'CPU s':>9}{'x shardfix cold':>18}")
    for name, seconds in medians.items():
        print(f"{name:<16}{seconds:>9.2f}{seconds / cold:>18.2f}")


if __name__ == "__main__":
    main()
