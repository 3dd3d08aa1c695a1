"""The documentation: pages made from the code are up to date, and what the others show is so."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from jax_process import JaxProcess

from shardfix.cli import app
from shardfix.codemod import all_codemods
from shardfix.configuration import schema
from shardfix.manual import HEADINGS, sections, summary

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SHARDFIX = [sys.executable, "-m", "shardfix"]
PAGES = [path for path in sorted(DOCS.glob("*.md")) if path.name not in ("codemods.md", "errors.md")]


@pytest.mark.parametrize("name", ["readme_table", "codemods_page", "cli_page", "errors_page", "schema"])
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


@pytest.mark.slow
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


def commands(page: Path) -> list[str]:
    """The commands of shardfix that the page shows, without comments."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    lines += re.findall(r"`(shardfix [^`]+)`", page.read_text())
    found = [re.sub(r"\s+#.*", "", line).strip() for line in lines]
    return [line for line in found if line.startswith("shardfix ") and "NAME" not in line and "FILE" not in line]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.stem)
def test_options_that_a_page_names_are_there(page: Path) -> None:
    command: Any = __import__("typer").main.get_command(app)
    known = {name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]} | {"--help"}
    ours = re.findall(r"shardfix (-[^`\n|;>]*)", page.read_text())
    named = {word for line in ours for word in re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", line.partition('"')[0])}
    assert named <= known, named - known


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "shardfix").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m shardfix "$@"\n')
    (tmp_path / "bin" / "shardfix").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    for line in commands(page):
        if "--interactive" in line or "--run" in line:
            continue  # in test_review.py and test_rerun.py
        work = tmp_path / "work"
        subprocess.run(["rm", "-rf", work], check=True)
        subprocess.run(["cp", "-r", ROOT / "examples", work], check=True)
        for folder in ("src", "examples"):
            subprocess.run(["cp", "-r", ROOT / "examples", work / folder], check=True)
        (work / "err.txt").write_text("ValueError: something else\n")
        done = subprocess.run(line, shell=True, cwd=work, env=environment, capture_output=True, text=True, check=False)
        assert "Traceback (most recent" not in done.stderr
        trouble = "--traceback" in line or "git apply" in line
        assert done.returncode in (0, 1) or trouble, f"{line}: {done.stderr}"


def test_the_configuration_that_is_shown_is_right() -> None:
    (text,) = blocks(DOCS / "everyday.md", "toml")
    jsonschema.validate(tomllib.loads(text)["tool"]["shardfix"], schema(all_codemods()))


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


@pytest.mark.slow
def test_the_site_builds(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_codemod_package_of_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    page = (DOCS / "writing-a-codemod.md").read_text()
    project = tmp_path / "acme-codemods"
    for name, text in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        path = (tmp_path if name == "train.py" else project) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    installed = tmp_path / "installed"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        installed,
    ]
    subprocess.run([*pip, project], check=True)
    (tmp_path / ".git").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*SHARDFIX, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    done = run("--select", "all-sum", "train.py")
    (shown,) = re.findall(r"<!-- output -->\n```diff\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert done.stdout == shown, done.stderr
    assert "acme.all_sum" in run("--explain", "all-sum").stdout
    assert "all-sum" in run("--list").stdout
