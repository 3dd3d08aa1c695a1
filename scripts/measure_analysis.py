"""What share of the outputs of mapped functions the analysis knows, in trees of real code.

    python scripts/measure_analysis.py ~/src/maxtext ~/src/levanter
    python scripts/measure_analysis.py --reasons ~/src/jax/tests/shard_map_test.py

One line a tree: sites of shard_map and smap that were evaluated; those whose function is known; their outputs (one a
leaf, the best that any run knows of it), and of how many the rank is known exactly, an upper bound of it, and the
varying axes. ``--reasons`` adds why outputs are unknown: the callees whose result is, by how often they are met.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from shardfix.semantics.interpreter.core import Interpreter
from shardfix.semantics.interpreter.invocation import Invocation
from shardfix.semantics.interpreter.trace import MapRun
from shardfix.semantics.project import Project
from shardfix.semantics.values import (
    UNKNOWN,
    Array,
    Dict,
    Function,
    Instance,
    Sequence,
    Tree,
    Value,
    as_array,
    is_number,
)

TRIGGER = re.compile(rb"\b(?:shard_map|smap)\b")


@dataclass
class Tally:
    """Counts of one tree."""

    files: int = 0
    sites: int = 0
    functions: int = 0
    outputs: int = 0
    exact: int = 0
    bounded: int = 0
    varying: int = 0
    failures: list[str] = field(default_factory=list)

    def row(self, name: str, seconds: float) -> str:
        def share(count: int) -> str:
            return f"{count:6} {100 * count / self.outputs:5.1f} %" if self.outputs else "     -        "

        known = " ".join(map(share, (self.exact, self.bounded, self.varying)))
        return (
            f"{name:28.28} {self.files:5} {self.sites:5} {self.functions:5} {self.outputs:7} {known} {seconds:6.1f} s"
        )


HEADER = f"{'tree':28} {'files':>5} {'sites':>5} {'known':>5} {'outputs':>7} {'rank':>14} {'bounded':>14} {'varying':>14} {'time':>8}"


def python_files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def leaves(value: Value) -> Iterator[Value]:
    """The leaves of an output; a container of unknown length counts as one unknown leaf."""
    match value:
        case Sequence(items=tuple() as items):
            for item in items:
                yield from leaves(item)
        case Dict(complete=True):
            for _, item in value.items:
                yield from leaves(item)
        case Instance():
            for _, item in value.attributes:
                yield from leaves(item)
        case Tree():
            yield UNKNOWN
        case _:
            yield value


def known_of(run: MapRun) -> tuple[int, int, int, int]:
    """Leaves of a run's result, and of how many the rank, a bound and the varying axes are known."""
    found = list(leaves(run.result))
    arrays = [as_array(leaf) for leaf in found if isinstance(leaf, Array) or is_number(leaf)]
    return (
        len(found),
        sum(array.rank.exact is not None for array in arrays),
        sum(array.rank.high is not None for array in arrays),
        sum(array.varying.exact is not None for array in arrays),
    )


def measure(path: Path) -> Tally:
    tally = Tally()
    files = [str(file) for file in python_files(path)]
    project = Project(files=files)
    for file in files:
        source = Path(file).read_bytes()
        if not TRIGGER.search(source):
            continue
        tally.files += 1
        try:
            module = project.module_at(file)
            runs = module.trace.maps if module is not None else []
        except Exception as error:  # one file must not end the measurement
            tally.failures.append(f"{file}: {type(error).__name__}: {error}")
            continue
        best: dict[ast.Call, tuple[int, ...]] = {}
        functions: dict[ast.Call, bool] = {}
        for run in runs:
            if run.site.module is not module:
                continue
            best[run.site.call] = max(best.get(run.site.call, (0,)), known_of(run), key=lambda known: known[1:])
            functions[run.site.call] = functions.get(run.site.call, False) or run.run is not None
        tally.sites += len(best)
        tally.functions += sum(functions.values())
        for outputs, exact, bounded, varying in best.values():  # type: ignore[misc]
            tally.outputs += outputs
            tally.exact += exact
            tally.bounded += bounded
            tally.varying += varying
    return tally


class Reasons:
    """Notes calls inside mapped functions whose result is unknown though something is known of their arguments."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self.examples: dict[str, str] = {}

    def install(self) -> None:
        original = Interpreter.call

        def call(interpreter: Interpreter, function: Value, call: Invocation) -> Value:
            result = original(interpreter, function, call)
            inside = interpreter.checked is not None
            if inside and is_unknown(result) and not any(map(is_unknown, (*call.arguments, *call.keywords.values()))):
                name = self.name(function, call.node)
                where = f"{call.environment.module.path}:{call.node.lineno}"
                self.found[name] += 1
                self.examples.setdefault(name, f"{where}: {ast.unparse(call.node)[:90]}")
            return result

        Interpreter.call = call  # type: ignore[method-assign]

    @staticmethod
    def name(function: Value, node: ast.expr) -> str:
        if isinstance(function, Function):
            return f"function {function.name}"
        dotted = getattr(function, "dotted", None) or getattr(function, "transform", None)
        if dotted:
            return str(dotted)
        callee = node.func if isinstance(node, ast.Call) else node
        return f"{type(function).__name__} {ast.unparse(callee)[:40]}"


def is_unknown(value: Value) -> bool:
    return value == UNKNOWN or (isinstance(value, Array) and value.rank.high is None and value.rank.low == 0)


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--reasons", action="store_true", help="say why outputs are unknown")
    options = parser.parse_args(arguments)
    reasons = Reasons()
    if options.reasons:
        reasons.install()
    print(HEADER)
    for tree in options.trees:
        start = time.perf_counter()
        tally = measure(tree)
        print(tally.row(tree.name, time.perf_counter() - start), flush=True)
        for failure in tally.failures:
            print("   ", failure)
    for name, count in reasons.found.most_common(40):
        print(f"{count:5} {name:50.50} {reasons.examples[name]}")


if __name__ == "__main__":
    main()
