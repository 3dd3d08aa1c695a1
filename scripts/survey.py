"""What shardfix does to trees of real code, and what of it can be checked without reading: a table, one row a tree.

    python scripts/survey.py ~/src/maxtext ~/src/levanter
    python scripts/survey.py --unsafe --keep /tmp/survey --missed ~/src/big_vision

Each tree is copied, and shardfix is run on the copy with ``--write``. The table says, of each tree: its Python files, and those that could
not be processed; the findings by safety, and those that were fixed; the lines that changed; files that no longer compile; new findings of
``ruff check --select F``; files that a second run changes; names of JAX on changed lines that the installed JAX does not have.

The second table is about recall. It comes from a search of its own (imports and attribute chains of the ``ast``, none of shardfix's
code) for names that JAX 0.12 lacks or warns of: how many uses were repaired, are reported, or were missed. Uses in compatibility code
(``try`` with an ``except`` for the missing name, ``hasattr``, version comparisons) are left out.

Run it where jax, ruff and shardfix are installed.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

TARGET = "0.12"
TIME_LIMIT = 600

GONE = {
    "experimental-shard-map": ("jax.experimental.shard_map",),
    "pjit": ("jax.experimental.pjit.pjit", "jax.pjit"),
    "mesh-contexts": (
        "jax.experimental.maps.thread_resources",
        "jax.interpreters.pxla.thread_resources",
        "jax.sharding.use_mesh",
        "jax.use_mesh",
    ),
    "pvary": ("jax.lax.pvary",),
    "device-put-replicated": ("jax.device_put_replicated", "jax.device_put_sharded"),
    "positional-sharding": ("jax.sharding.PositionalSharding",),
    "removed-shardings": (
        "jax.experimental.global_device_array",
        "jax.experimental.maps",
        "jax.experimental.pjit.AUTO",
        "jax.experimental.pjit.FROM_GDA",
        "jax.experimental.pjit.UNSPECIFIED",
        "jax.experimental.sharded_jit",
        "jax.interpreters.pxla.ArrayMapping",
        "jax.interpreters.pxla.Chunked",
        "jax.interpreters.pxla.MeshComputation",
        "jax.interpreters.pxla.MeshExecutable",
        "jax.interpreters.pxla.NoSharding",
        "jax.interpreters.pxla.PmapExecutable",
        "jax.interpreters.pxla.Replicated",
        "jax.interpreters.pxla.ResourceEnv",
        "jax.interpreters.pxla.ShardedAxis",
        "jax.interpreters.pxla.ShardedDeviceArray",
        "jax.interpreters.pxla.ShardingSpec",
        "jax.interpreters.pxla.Unstacked",
        "jax.interpreters.pxla._UNSPECIFIED",
        "jax.interpreters.pxla.are_op_shardings_equal",
        "jax.interpreters.pxla.array_mapping_to_axis_resources",
        "jax.interpreters.pxla.device_put",
        "jax.interpreters.pxla.is_op_sharding_replicated",
        "jax.interpreters.pxla.make_sharded_device_array",
        "jax.interpreters.pxla.mesh_sharding_specs",
        "jax.interpreters.pxla.parallel_callable",
        "jax.interpreters.pxla.shard_args",
        "jax.interpreters.pxla.spec_to_indices",
        "jax.interpreters.pxla.xla_pmap_p",
        "jax.lax.pdot",
        "jax.lax.xeinsum",
        "jax.sharding.GSPMDSharding",
        "jax.sharding.MeshPspecSharding",
        "jax.sharding.OpShardingSharding",
        "jax.sharding.PmapSharding",
        "jax.sharding.XLACompatibleSharding",
        "jax.soft_pmap",
        "jax.xmap",
    ),
    "renames": (
        "jax.ArrayRef",
        "jax.abstract_arrays",
        "jax.array_ref",
        "jax.core.axis_frame",
        "jax.core.get_aval",
        "jax.experimental.PartitionSpec",
        "jax.experimental.array_api",
        "jax.experimental.enable_x64",
        "jax.experimental.export",
        "jax.experimental.gda_serialization",
        "jax.experimental.host_callback",
        "jax.experimental.layout.DeviceLocalLayout",
        "jax.experimental.maps.Mesh",
        "jax.experimental.maps.mesh",
        "jax.experimental.multihost_utils.PartitionSpec",
        "jax.experimental.pjit.NamedSharding",
        "jax.experimental.pjit.PartitionSpec",
        "jax.experimental.pjit.pjit_p",
        "jax.experimental.pjit.with_sharding_constraint",
        "jax.experimental.shard",
        "jax.experimental.shard_alike",
        "jax.experimental.x64_context",
        "jax.interpreters.pxla.Mesh",
        "jax.interpreters.pxla.PartitionSpec",
        "jax.lax.all_gather_invariant",
        "jax.lib.xla_client.OpSharding",
        "jax.linear_util",
        "jax.sharding.AxisTypes",
        "jax.sharding.get_concrete_mesh",
        "jax.tree_flatten",
        "jax.tree_leaves",
        "jax.tree_map",
        "jax.tree_multimap",
        "jax.tree_structure",
        "jax.tree_transpose",
        "jax.tree_unflatten",
        "jax.tree_util.tree_multimap",
        "jax.treedef_is_leaf",
        "jax.util",
    ),
}
"""Names that JAX 0.12 lacks or warns of, with all that is in them, under the codemod whose they are."""
CODEMODS = {name: codemod for codemod, names in GONE.items() for name in names}
FORGIVING = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception"})


@dataclass(frozen=True)
class Use:
    """One import or attribute chain that names something gone."""

    path: str
    line: int
    name: str
    """The entry of ``GONE``."""
    bound: str | None = None
    """What an import binds it to."""
    base: str | None = None
    """The imported name that an attribute chain begins with."""

    @property
    def codemod(self) -> str:
        return CODEMODS[self.name]


@dataclass
class Row:
    """What became of one tree."""

    name: str
    files: int = 0
    failed: int = 0
    found: Counter[str] = field(default_factory=Counter)
    fixed: Counter[str] = field(default_factory=Counter)
    codemods: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    lines: int = 0
    broken: list[str] = field(default_factory=list)
    ruff: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    recall: Counter[tuple[str, str]] = field(default_factory=Counter)
    missed: list[Use] = field(default_factory=list)

    def show(self) -> str:
        safeties = "".join(f"{self.found[safety]:6}/{self.fixed[safety]:<5}" for safety in ("safe", "unsafe", "manual"))
        counts = (self.lines, len(self.broken), len(self.ruff), len(self.again), len(self.unknown))
        return f"{self.name:22}{self.files:6}{self.failed:7}  {safeties}" + "".join(f"{count:9}" for count in counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--unsafe", action="store_true", help="apply unsafe fixes too")
    parser.add_argument("--keep", type=Path, help="leave the changed copies in this folder")
    parser.add_argument("--missed", action="store_true", help="list the uses that were missed")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of the trees' escape sequences, and of JAX's old names
    rows = []
    print(
        f"{'tree':22}{'files':>6}{'failed':>7}     safe/fixed unsafe/fixed manual/fixed  lines  no compile  ruff  again  unknown"
    )
    with tempfile.TemporaryDirectory() as scratch:
        for folder in options.folders:
            copy = (options.keep or Path(scratch)) / folder.name
            row = survey(folder, copy, unsafe=options.unsafe)
            rows.append(row)
            print(row.show(), flush=True)
            faults = [*row.broken, *row.ruff, *row.again, *row.unknown]
            if options.missed:
                faults += [f"missed: {use.path}:{use.line}: {use.name}" for use in row.missed]
            for fault in faults:
                print(f"    {fault}")
    print_codemods(rows)


def print_codemods(rows: Iterable[Row]) -> None:
    """Findings and recall by codemod, over all trees."""
    found: Counter[tuple[str, str, bool]] = Counter()
    recall: Counter[tuple[str, str]] = Counter()
    for row in rows:
        found += row.codemods
        recall += row.recall
    print(f"\n{'codemod':26}{'safe':>8}{'unsafe':>8}{'manual':>8}{'fixed':>8}")
    for codemod in sorted({codemod for codemod, _, _ in found}):
        counts = [
            sum(found[codemod, safety, fixed] for fixed in (True, False)) for safety in ("safe", "unsafe", "manual")
        ]
        fixed = sum(count for (name, _, was), count in found.items() if name == codemod and was)
        print(f"{codemod:26}" + "".join(f"{count:8}" for count in (*counts, fixed)))
    print(f"\n{'uses of what is gone':26}{'repaired':>10}{'reported':>10}{'missed':>8}")
    for codemod in GONE:
        repaired, reported, missed = (recall[codemod, what] for what in ("repaired", "reported", "missed"))
        print(f"{codemod:26}{repaired:10}{reported:10}{missed:8}")


def survey(folder: Path, copy: Path, *, unsafe: bool) -> Row:
    """Run shardfix on a copy of ``folder``, twice, and look at what it did."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    row = Row(folder.name)
    before = sources(copy)
    row.files = len(before)
    ruff_before = ruff(copy)
    options = ["--write", "--unsafe"] if unsafe else ["--write"]
    report = shardfix(copy, options)
    after = sources(copy)
    row.failed = report["summary"]["failed"]
    for file in report["files"]:
        for finding in file["findings"]:
            row.found[finding["safety"]] += 1
            row.fixed[finding["safety"]] += finding["fixed"]
            row.codemods[finding["codemod"], finding["safety"], finding["fixed"]] += 1
    for path in sorted(after):
        if before[path] != after[path]:
            row.lines += inspect(path, before[path], after[path], row)
    row.ruff = sorted((ruff(copy) - ruff_before).elements())
    again = shardfix(copy, options)
    row.again = [path for path, text in sources(copy).items() if after.get(path) != text]
    measure_recall(row, before, after, again)
    return row


def sources(folder: Path) -> dict[str, bytes]:
    """The Python files of a tree by their paths within it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*.py"))
        if path.is_file() and not path.is_symlink()
    }


def shardfix(folder: Path, options: list[str]) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "shardfix",
        *options,
        "--isolated",
        "--target-jax",
        TARGET,
        "--output-format",
        "json",
        ".",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=TIME_LIMIT, check=False)
    if done.returncode not in (0, 1, 2) or b"Traceback" in done.stderr:
        raise RuntimeError(
            f"{folder}: shardfix ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}"
        )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def ruff(folder: Path) -> Counter[str]:
    """What ruff says of undefined and unused names, without the lines, which move."""
    command = [
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--select",
        "F",
        "--output-format",
        "json",
        "--exit-zero",
        ".",
    ]
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, check=True)
    return Counter(
        f"{os.path.relpath(problem['filename'], folder.resolve())}: {problem['code']} {_stable(problem['message'])}"
        for problem in json.loads(done.stdout)
    )


def _stable(message: str) -> str:
    """A message without what moves: line numbers, and the module that a name is imported from."""
    return re.sub(r"\d+", "N", re.sub(r"`[\w.]+\.(\w+)`", r"`\1`", message))


def inspect(path: str, before: bytes, after: bytes, row: Row) -> int:
    """Note what is wrong with a changed file; the number of changed lines."""
    try:
        compile(after, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        row.broken.append(f"{path}: {error}")
        return 0
    old, new = before.splitlines(), after.splitlines()
    changed: set[int] = set()
    for kind, _, _, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            changed.update(range(start + 1, max(end, start + 1) + 1))
    known = {name for _, name, _, _ in dotted_names(ast.parse(before))} if parses(before) else set()
    for line, name, _, _ in dotted_names(ast.parse(after)):
        if line in changed and name not in known and not exists(name):
            row.unknown.append(f"{path}:{line}: {name}")
    return len(changed)


def parses(source: bytes) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


def dotted_names(tree: ast.AST) -> Iterator[tuple[int, str, str | None, str | None]]:
    """The names of JAX that imports and attribute chains spell: line, full name, what an import binds it to, what a chain begins with.

    An attribute chain is given once, at its full length. Names are followed through imports alone, wherever in the file they stand.
    """
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "jax":
                    bound[alias.asname or "jax"] = alias.name if alias.asname else "jax"
                    yield node.lineno, alias.name, alias.asname, None
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "jax":
            for alias in node.names:
                if alias.name != "*":
                    bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                    yield alias.lineno, f"{node.module}.{alias.name}", alias.asname or alias.name, None
    inner: set[ast.AST] = set()
    for node in ast.walk(tree):  # outer attributes come before the inner ones
        if isinstance(node, ast.Attribute) and node not in inner:
            parts: list[str] = []
            base: ast.expr = node
            while isinstance(base, ast.Attribute):
                inner.add(base)
                parts.append(base.attr)
                base = base.value
            if isinstance(base, ast.Name) and base.id in bound:
                yield node.end_lineno or node.lineno, ".".join([bound[base.id], *reversed(parts)]), None, base.id


_EXISTS: dict[str, bool] = {}


def exists(name: str) -> bool:
    """Whether the installed JAX has a name; what lies in something that is no module counts as there."""
    if name not in _EXISTS:
        _EXISTS[name] = _look_up(name)
    return _EXISTS[name]


def _look_up(name: str) -> bool:
    parts = name.split(".")
    found: Any = None
    for depth in range(1, len(parts) + 1):
        try:
            found = importlib.import_module(".".join(parts[:depth]))
        except ImportError:
            return hasattr(found, parts[depth - 1])
    return True


def gone(name: str) -> str | None:
    """The longest entry of ``GONE`` that a dotted name is, or lies in."""
    parts = name.split(".")
    for length in range(len(parts), 1, -1):
        if ".".join(parts[:length]) in CODEMODS:
            return ".".join(parts[:length])
    return None


def uses_of_gone(path: str, source: bytes) -> list[Use]:
    """The uses of what is gone, outside of compatibility code."""
    if not parses(source):
        return []
    tree = ast.parse(source)
    spared = compatibility_lines(tree)
    chosen = {bound for line, _, bound, _ in dotted_names(tree) if line in spared}
    return [
        Use(path, line, entry, bound, base)
        for line, name, bound, base in dotted_names(tree)
        if line not in spared and base not in chosen - {None, "jax"} and (entry := gone(name)) is not None
    ]


def compatibility_lines(tree: ast.AST) -> set[int]:
    """Lines of statements that choose between versions of JAX."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            caught = {
                name.id
                for handler in node.handlers
                for name in ast.walk(handler.type or ast.Name("Exception"))
                if isinstance(name, ast.Name)
            }
            spares = bool(caught & FORGIVING)
        elif isinstance(node, ast.If | ast.IfExp):
            spares = _asks_for_version(node.test)
        else:
            continue
        if spares:
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _asks_for_version(test: ast.expr) -> bool:
    words = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    words |= {node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute)}
    return bool(words & {"hasattr", "TYPE_CHECKING"}) or any("version" in word.lower() for word in words)


def measure_recall(row: Row, before: dict[str, bytes], after: dict[str, bytes], again: dict[str, Any]) -> None:
    """Sort the uses of what is gone into repaired, reported and missed."""
    reported: dict[str, set[tuple[str, int]]] = {}
    for file in again["files"]:
        lines = reported.setdefault(os.path.normpath(file["path"]), set())
        for finding in file["findings"]:
            lines.update((finding["codemod"], line) for line in range(finding["line"], finding["end_line"] + 1))
    for path, source in before.items():
        were = Counter(use.name for use in uses_of_gone(path, source))
        left = uses_of_gone(path, after[path])
        are = Counter(use.name for use in left)
        for name, count in were.items():
            row.recall[CODEMODS[name], "repaired"] += max(count - are[name], 0)
        for use in left:
            is_reported = _is_reported(use, after[path], reported.get(path, set()))
            row.recall[use.codemod, "reported" if is_reported else "missed"] += 1
            if not is_reported:
                row.missed.append(use)


def _is_reported(use: Use, source: bytes, reported: set[tuple[str, int]]) -> bool:
    """Whether a finding stands where the use is; for an import where its name is used; for a use where its codemod reports the import."""
    tree = ast.parse(source)
    anything = {line for _, line in reported}
    if use.line in anything:
        return True
    if use.bound is not None:
        return any(
            node.id == use.bound and node.lineno in anything for node in ast.walk(tree) if isinstance(node, ast.Name)
        )
    return use.base is not None and any(
        (use.codemod, line) in reported for line, _, bound, _ in dotted_names(tree) if bound == use.base
    )


if __name__ == "__main__":
    main()
