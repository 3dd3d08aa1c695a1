"""Every fixture: what shardfix makes of it, and whether JAX agrees.

``fixtures/<codemod>/<case>.py`` is a program, and ``<case>.diff`` beside it the change that shardfix makes to it with all
codemods on (``pytest --regenerate`` writes it anew). A case named ``keep_*`` is right as it is: no finding, no change.
Modules that a case imports lie in a folder of its name, and stand beside it when it is run.

Comments at the head of a case say more, as TOML::

    # fixture: fails = "add at least one (singleton) axis to them"   what JAX says of the program as it stands
    # fixture: warns = "jax.experimental.shard_map is deprecated"    the same where it only warns
    # fixture: findings = ["rank0-outputs:12"]                       the findings, all of them, with their lines
    # fixture: args = ["--unsafe"]                                   further options
    # fixture: jax = ">=0.11"                                        the JAX versions that it is run on
    # fixture: without = ["alias"]                                   twins that mean something else

Each program is run on the installed JAX: the input must fail or warn as it says (or else run), the output must run clean.
Twins of each (other newlines, a byte-order mark, tabs, other names for what is imported) must be changed alike.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import io
import json
import shutil
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from jax_process import JaxProcess, Program
from packaging.specifiers import SpecifierSet

FOLDER = Path(__file__).parent / "fixtures"
MARK = "# fixture:"
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Case:
    """A fixture and what its head says of it."""

    path: Path
    fails: str = ""
    warns: str = ""
    findings: tuple[str, ...] | None = None
    args: tuple[str, ...] = ()
    jax: str = ""
    without: tuple[str, ...] = ()

    @classmethod
    def at(cls, path: Path) -> Case:
        lines = path.read_text().splitlines()
        head = tomllib.loads("\n".join(line.removeprefix(MARK).strip() for line in lines if line.startswith(MARK)))
        unknown = head.keys() - cls.__dataclass_fields__.keys()
        assert not unknown, f"{path}: no such key: {unknown}"
        return cls(path, **{key: tuple(value) if isinstance(value, list) else value for key, value in head.items()})

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def keep(self) -> bool:
        return self.path.stem.startswith("keep_")

    @property
    def source(self) -> bytes:
        return self.path.read_bytes()

    @property
    def snapshot(self) -> Path:
        return self.path.with_suffix(".diff")


CASES = [Case.at(path) for path in sorted(FOLDER.glob("*/*.py"))]
each_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


@dataclass(frozen=True)
class Change:
    """What ``shardfix --write`` makes of a program."""

    source: bytes
    findings: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture
def change(tmp_path: Path, shardfix_command: Callable[..., Any]) -> Callable[..., Change]:
    """Runs shardfix on a program, in a folder with all that the case has beside it."""

    def run(case: Case, source: bytes) -> Change:
        path = set_up(case, source, tmp_path / "work")
        done = shardfix_command("--write", "--output-format", "json", *case.args, path)
        assert done.code in (0, 1), done.err
        findings = [finding for file in json.loads(done.out)["files"] for finding in file["findings"]]
        return Change(path.read_bytes(), findings)

    return run


def set_up(case: Case, source: bytes, folder: Path) -> Path:
    """Write ``source`` as the program of ``case``; its path."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / ".git").mkdir(parents=True)  # the search for a declared JAX ends here
    if case.path.with_suffix("").is_dir():
        shutil.copytree(case.path.with_suffix(""), folder, dirs_exist_ok=True)
    path = folder / case.path.name
    path.write_bytes(source)
    return path


# What shardfix makes of it


def diff(before: bytes, after: bytes) -> str:
    lines = (data.decode().splitlines(keepends=True) for data in (before, after))
    return "".join(list(difflib.unified_diff(*lines, n=2))[2:])


@each_case
def test_the_change_is_that_of_the_snapshot(
    case: Case, change: Callable[..., Change], pytestconfig: pytest.Config
) -> None:
    changed = change(case, case.source)
    made = diff(case.source, changed.source)
    ast.parse(changed.source)
    if pytestconfig.getoption("--regenerate"):
        case.snapshot.write_text(made)
    assert case.snapshot.exists(), "no snapshot yet: run pytest --regenerate, and read what it writes"
    assert made == case.snapshot.read_text()
    found = [f"{finding['codemod']}:{finding['line']}" for finding in changed.findings]
    if case.keep:
        assert found == []
        assert made == ""
    else:
        assert found != []
    if case.findings is not None:
        assert found == list(case.findings)


@each_case
def test_a_second_run_changes_nothing(case: Case, change: Callable[..., Change]) -> None:
    once = change(case, case.source)
    twice = change(case, once.source)
    assert twice.source == once.source
    assert not any(finding["fixed"] for finding in twice.findings)
    assert len(twice.findings) <= len([finding for finding in once.findings if not finding["fixed"]])


# What JAX makes of it


@pytest.fixture(scope="session")
def jax_process() -> Iterator[JaxProcess]:
    process = JaxProcess()
    yield process
    process.close()


@pytest.fixture
def run(jax_process: JaxProcess, tmp_path: Path, pytestconfig: pytest.Config) -> Callable[[Case, bytes], Program]:
    """Runs a program on JAX, or remembers what came of the very same one on the same JAX."""
    assert pytestconfig.cache is not None
    memory = pytestconfig.cache.mkdir("programs")

    def run(case: Case, source: bytes) -> Program:
        path = set_up(case, source, tmp_path / "run")
        beside = [one.read_bytes() for one in sorted(path.parent.rglob("*.py")) if one != path]
        key = repr((source, beside, case.path.name, version("jax"), version("jaxlib"), sys.version))
        known = memory / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
        if not known.exists():
            done = jax_process.run(path)
            known.write_text(json.dumps([done.code, done.output]))
        return Program(*json.loads(known.read_text()))

    return run


@each_case
def test_jax_agrees(case: Case, change: Callable[..., Change], run: Callable[[Case, bytes], Program]) -> None:
    if case.jax and not SpecifierSet(case.jax).contains(version("jax"), prereleases=True):
        pytest.skip(f"for jax {case.jax}")
    before = run(case, case.source)
    if case.fails:
        assert before.code != 0, "it runs, though it is said to fail"
        assert case.fails in before.output
    else:
        assert before.code == 0, before.output
    if case.warns:
        assert "Warning" in before.output
        assert case.warns in before.output
    if case.keep:
        assert not case.fails
        assert not case.warns
        return
    changed = change(case, case.source)
    if changed.source != case.source:
        after = run(case, changed.source)
        assert after.code == 0, after.output
        assert not case.warns or case.warns not in after.output
        assert "DeprecationWarning" not in after.output


# Twins


def with_tabs(source: str) -> str:
    """The same with a tab for each four blanks that a line begins with, outside of strings."""
    inside: set[int] = set()
    start = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":
            start = token.start[0]
        elif kind in ("STRING", "FSTRING_END"):
            inside.update(range((start or token.start[0]) + 1, token.end[0] + 1))
            start = 0
    lines = source.split("\n")
    for number, line in enumerate(lines, 1):
        blanks = len(line) - len(line.lstrip(" "))
        if number not in inside:
            lines[number - 1] = "\t" * (blanks // 4) + " " * (blanks % 4) + line[blanks:]
    return "\n".join(lines)


def imported_names(source: str) -> set[str]:
    """The names that top-level imports of JAX bind, but for those that something else binds or spells as well."""
    tree = ast.parse(source)
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names.update(
                alias.asname or alias.name
                for alias in node.names
                if alias.name.split(".")[0] == "jax" and (alias.asname or alias.name == "jax")
            )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jax" and node.level == 0:
            names.update(alias.asname or alias.name for alias in node.names if alias.name != "*")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and node not in tree.body:
            names -= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Import):
            names -= {alias.name.split(".")[0] for alias in node.names if "." in alias.name and not alias.asname}
        elif isinstance(node, ast.arg):
            names.discard(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.discard(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.discard(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.discard(node.value)
    return names


def with_aliases(source: str, names: set[str]) -> str:
    """The same with other names for what is imported under ``names``."""
    edits: list[tuple[int, int, int, str]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id in names:
            edits.append((node.lineno, node.col_offset, node.end_col_offset or 0, other(node.id)))
        elif isinstance(node, ast.alias) and (node.asname or node.name) in names:
            text = f"{node.name} as {other(node.asname or node.name)}"
            edits.append((node.lineno, node.col_offset, node.end_col_offset or 0, text))
    lines = source.encode().split(b"\n")
    for line, start, end, text in sorted(edits, reverse=True):
        lines[line - 1] = lines[line - 1][:start] + text.encode() + lines[line - 1][end:]
    return b"\n".join(lines).decode()


def other(name: str) -> str:
    return f"{name}_"


def text_twin(change_text: Callable[[str], str]) -> Callable[[bytes, bytes], tuple[bytes, bytes]]:
    return lambda before, after: (change_text(before.decode()).encode(), change_text(after.decode()).encode())


def alias_twin(before: bytes, after: bytes) -> tuple[bytes, bytes]:
    names = imported_names(before.decode())
    return with_aliases(before.decode(), names).encode(), with_aliases(after.decode(), names).encode()


TWINS: dict[str, Callable[[bytes, bytes], tuple[bytes, bytes]]] = {
    "crlf": lambda before, after: (before.replace(b"\n", b"\r\n"), after.replace(b"\n", b"\r\n")),
    "cr": lambda before, after: (before.replace(b"\n", b"\r"), after.replace(b"\n", b"\r")),
    "bom": lambda before, after: (BOM + before, BOM + after),
    "tabs": text_twin(with_tabs),
    "alias": alias_twin,
}


@pytest.mark.parametrize("twin", TWINS)
@each_case
def test_twins_are_changed_alike(case: Case, twin: str, change: Callable[..., Change]) -> None:
    if twin in case.without:
        pytest.skip("the head of the fixture says so")
    changed = change(case, case.source)
    before, after = TWINS[twin](case.source, changed.source)
    of_twin = change(case, before)
    assert of_twin.source.decode().splitlines() == after.decode().splitlines()
    assert of_twin.source == after
    assert [(one["codemod"], one["line"]) for one in of_twin.findings] == [
        (one["codemod"], one["line"]) for one in changed.findings
    ]
