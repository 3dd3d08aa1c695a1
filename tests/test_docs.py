"""The documentation: pages made from the code are up to date, and what the others show is so."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from jax_process import JaxProcess
from repository import ROOT, copy_repository

from shardfix import edits
from shardfix.cli import app
from shardfix.codemod import all_codemods
from shardfix.configuration import schema
from shardfix.manual import HEADINGS, sections, summary
from shardfix.semantics.calls import Call
from shardfix.semantics.module import Module

DOCS = ROOT / "docs"
TEXTS = [*sorted(DOCS.glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("name", ["readme_table", "codemods_page", "cli_page", "errors_page", "schema", "demo"])
def test_what_is_made_from_the_code_is_up_to_date(name: str) -> None:
    script = ROOT / "scripts" / f"generate_{name}.py"
    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0, f"run {script.name}"


# Manual pages


@pytest.mark.parametrize("name", all_codemods())
def test_a_manual_page_has_its_headings(name: str) -> None:
    page = all_codemods()[name].manual_page()
    assert summary(page).endswith((".", ".)"))
    headings = [heading for heading in sections(page) if heading in HEADINGS]
    assert headings == [heading for heading in HEADINGS if heading in headings]
    assert {"Why", "Before", "After"} <= set(headings)


@pytest.fixture(scope="module")
def jax_process() -> Iterator[JaxProcess]:
    process = JaxProcess()
    yield process
    process.close()


WITHOUT_TRACEBACK = [name for name, codemod in all_codemods().items() if codemod.triggers]


@pytest.mark.parametrize("name", WITHOUT_TRACEBACK)
def test_the_example_of_a_manual_page_is_repaired_as_it_says_and_runs(
    name: str, tmp_path: Path, shardfix_command: Callable[..., Any], jax_process: JaxProcess
) -> None:
    page = sections(all_codemods()[name].manual_page())
    program = tmp_path / "program.py"
    program.write_text(page["Before"])
    (tmp_path / ".git").mkdir()
    others = [] if name == "unused-suppressions" else ["--ignore", "unused-suppressions"]
    done = shardfix_command("--write", "--unsafe", "--output-format", "json", *others, program)
    if program.read_text() != page["After"]:  # then it must be for the author to choose, and is told
        assert program.read_text() == page["Before"]
        findings = [finding for file in json.loads(done.out)["files"] for finding in file["findings"]]
        assert [finding["safety"] for finding in findings if finding["codemod"] == name] == ["manual"]
        program.write_text(page["After"])
    ran = jax_process.run(program)
    assert ran.code == 0, ran.output


# The other pages


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def shown_in(page: Path) -> Iterator[str]:
    """The commands that the page shows, in blocks and in sentences."""
    for block in blocks(page, "sh"):
        yield from (re.sub(r"\s+#.*", "", line) for line in block.splitlines())
    for block in blocks(page, "console"):
        yield from (line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ "))
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`((?:shardfix|python|pytest|for|pip|git) [^`]+)`", prose)


OF_PACKAGE = ("pip install ./acme-codemods", "shardfix --select all-sum train.py")
"""What docs/writing-a-codemod.md shows of the package that it builds."""
PLACEHOLDERS = {
    "FILE:LINE": "train.py:30",
    "FILE": "err.txt",
    "NAME": "pvary",
    "FOLDER": "examples",
    "COMMAND": '"python train.py"',
    "my_codemod": "pvary",
}
IN_THE_REPOSITORY = (
    "python -m venv",
    "python benchmarks/",
    "python scripts/",
    "pytest",
    "for page in",
    "pip install '.",
)


def filled_in(line: str) -> str:
    """A command with something in the place of each placeholder."""
    for placeholder, meant in PLACEHOLDERS.items():
        line = line.replace(placeholder, meant)
    return line


COMMANDS = [
    line
    for line in dict.fromkeys(filled_in(line) for page in TEXTS for line in shown_in(page))
    if line not in OF_PACKAGE
]


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.stem)
def test_options_that_a_page_names_are_there(page: Path) -> None:
    command: Any = __import__("typer").main.get_command(app)
    known = {name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]} | {"--help"}
    ours = re.findall(r"shardfix (-[^`\n|;>]*)", page.read_text())
    named = {word for line in ours for word in re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", line.partition('"')[0])}
    assert named <= known, named - known


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """In which ``shardfix`` and ``python`` are those of this environment, and home is empty."""
    home = tmp_path_factory.mktemp("home")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}


def bash(line: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", f"{line}\nexit $?"]  # without the last the shell would be replaced by the command
    return subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A repository that has what the pages name: programs, folders of them, and the log of one that failed."""
    project = tmp_path_factory.mktemp("shown") / "project"
    shutil.copytree(ROOT / "examples", project)
    for folder in ("src", "repo", "examples"):
        shutil.copytree(ROOT / "examples", project / folder)
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    assert bash("python train.py 2> err.txt", project, environment).returncode == 1
    return project


def interact(line: str, folder: Path, environment: dict[str, str]) -> str:
    """A review in which the first repair is accepted, and then the rest left; the last line."""
    pexpect = pytest.importorskip("pexpect")
    child = pexpect.spawn("bash", ["-c", line], cwd=folder, env=environment, encoding="utf-8", timeout=60)
    for answer in ("y", "q"):
        child.expect(r"Apply this repair \[.*\]\? ")
        child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 1
    return str(child.before)


@pytest.mark.parametrize("line", [line for line in COMMANDS if not line.startswith(IN_THE_REPOSITORY)])
def test_what_a_page_tells_users_to_run_runs(
    line: str, project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    work = tmp_path / "work"
    shutil.copytree(project, work)
    (work / "err.txt").write_text((project / "err.txt").read_text().replace(str(project), str(work)))
    if "--interactive" in line:
        assert "1 accepted; " in interact(line, work, environment)
        return
    done = bash(line, work, environment)
    assert done.returncode in ((0,) if "git apply" in line else (0, 1)), done.stderr
    if "shardfix" in line and "--run" not in line:
        assert "Traceback (most recent" not in done.stderr
    if "--run" in line:
        assert "It passes" in done.stderr
    if "--traceback" in line:
        assert done.stdout.startswith("--- a/train.py")


@pytest.mark.parametrize(
    ("line", "output"),
    [
        re.match(r"\$ (.*)\n((?:.*\n)*)", block).groups()  # type: ignore[union-attr]
        for page in TEXTS
        for block in blocks(page, "console")
        if not block.splitlines()[-1].startswith("$ ")
    ],
)
def test_what_a_command_is_shown_to_print_it_prints(line: str, output: str, environment: dict[str, str]) -> None:
    assert bash(line, ROOT, environment).stdout == output


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith(IN_THE_REPOSITORY)])
def test_what_a_page_tells_contributors_to_run_runs(line: str, environment: dict[str, str], tmp_path: Path) -> None:
    """In a copy of what git knows of, and with a few tests where all would run."""
    copy_repository(tmp_path)
    few = ["tests/test_packaging.py"] if "venv" in line else ["tests/test_fixtures.py", "-k", "pvary"]
    if line.startswith("pip"):
        line = f"python -m venv .venv && .venv/bin/{line} --quiet"
    done = bash(line, tmp_path, {**environment, "PYTEST_ADDOPTS": " ".join(few)})
    assert done.returncode in ((0, 1) if "shardfix" in line else (0,)), done.stdout + done.stderr


@pytest.mark.parametrize("program", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_an_example_fails_and_runs_when_it_is_repaired(
    program: Path, tmp_path: Path, shardfix_command: Callable[..., Any], jax_process: JaxProcess
) -> None:
    copy = tmp_path / program.name
    shutil.copy(program, copy)
    assert jax_process.run(copy).code == 1
    assert shardfix_command("--write", copy).code == 0
    ran = jax_process.run(copy)
    assert ran.code == 0, ran.output


def test_the_configuration_that_is_shown_is_right() -> None:
    text, *_ = blocks(DOCS / "everyday.md", "toml")
    jsonschema.validate(tomllib.loads(text)["tool"]["shardfix"], schema(all_codemods()))


def test_the_hook_that_is_shown_works(tmp_path: Path, environment: dict[str, str]) -> None:
    pytest.importorskip("pre_commit")
    hook, workflow = map(yaml.safe_load, blocks(DOCS / "everyday.md", "yaml"))
    shutil.copy(ROOT / "examples" / "train.py", tmp_path)
    (tmp_path / ".pre-commit-config.yaml").write_text(yaml.safe_dump(hook))
    assert bash("git init -q && git add .", tmp_path, environment).returncode == 0
    done = bash("python -m pre_commit run --all-files", tmp_path, environment)
    assert done.returncode == 1
    assert "train.py:14:61: string-shardings" in done.stdout
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    assert workflow["steps"][-1]["with"].keys() <= inputs.keys()


def test_codemods_that_the_pages_name_are_there() -> None:
    text = (DOCS / "migrating.md").read_text()
    column = [row.split("|")[4] for row in text.splitlines() if row.startswith("| ") and "shardfix" in row]
    named = {name for cell in column for name in re.findall(r"`([a-z0-9-]+)`", cell)}
    assert named
    assert named <= all_codemods().keys()


def test_the_site_lists_every_page() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = {page for entry in site["nav"] for value in entry.values() for page in _pages(value)}
    assert listed == {path.name for path in DOCS.glob("*.md")}


def _pages(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, list):
        for item in entry:
            for value in item.values():
                yield from _pages(value)


def test_the_site_builds(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_codemod_package_of_the_page_does_what_the_page_says(tmp_path: Path, environment: dict[str, str]) -> None:
    page = DOCS / "writing-a-codemod.md"
    text = page.read_text()
    for name, content in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        path = (tmp_path if name == "train.py" else tmp_path / "acme-codemods") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / ".git").mkdir()
    installed = str(tmp_path / "installed")
    environment = {**environment, "PYTHONPATH": installed}
    install, show = OF_PACKAGE
    assert [line for line in shown_in(page) if line in OF_PACKAGE] == [install, show]
    done = bash(f"{install} --quiet --no-deps --target {installed}", tmp_path, environment)
    assert done.returncode == 0, done.stderr
    done = bash(show, tmp_path, environment)
    (shown,) = re.findall(r"<!-- output -->\n```diff\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert done.stdout == shown, done.stderr
    assert "acme.all_sum" in bash("shardfix --explain all-sum", tmp_path, environment).stdout
    assert "all-sum" in bash("shardfix --list", tmp_path, environment).stdout
    other = tmp_path / "other.py"  # what the codemod may not repair: a partial, and arguments that are not in view
    other.write_text(
        "from functools import partial\nimport acme\n\nf = partial(acme.all_sum, axis='i')\n\n\n"
        "def step(*x, **rest):\n    return f(x), partial(acme.all_sum)(x, axis='i'), acme.all_sum(*x), acme.all_sum(x, **rest)\n"
    )
    assert bash("shardfix --select all-sum other.py", tmp_path, environment).stdout == ""
    (excerpt,) = blocks(ROOT / "README.md", "python")
    assert excerpt in text


def test_the_page_on_codemods_names_what_there_is() -> None:
    page = (DOCS / "writing-a-codemod.md").read_text()
    for name in edits.__all__:
        kind = getattr(edits, name)
        if isinstance(kind, type) and kind is not edits.Edit:
            assert f"`{name}({', '.join(field.name for field in fields(kind))})`" in page
    for owner, kind in (("module", Module), ("call", Call)):
        named = set(re.findall(rf"`{owner}\.(\w+)", page))
        assert named
        assert {name for name in named if not hasattr(kind, name)} == set()
