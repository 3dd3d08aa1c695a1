"""What is installed: every package, with its data, and nothing under a name that others use."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import shardfix
from shardfix.codemod import all_codemods, broken_codemods

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PROJECT["tool"]["setuptools"]["packages"]
FOLDERS = PROJECT["tool"]["setuptools"]["package-dir"]


def test_every_package_is_listed_and_is_the_one_in_this_folder() -> None:
    homes = {"shardfix": ROOT / "shardfix", "shardfix.codemods": ROOT / "codemods"}
    present = {
        ".".join((name, *path.parent.relative_to(home).parts)): path.parent
        for name, home in homes.items()
        for path in home.rglob("*.py")
    }
    assert set(PACKAGES) == set(present)
    for name, folder in present.items():
        assert Path(importlib.import_module(name).__path__[0]).resolve() == folder.resolve()


def test_no_top_level_package_but_shardfix(tmp_path: Path) -> None:
    assert {name.split(".")[0] for name in (*PACKAGES, *FOLDERS)} == {"shardfix"}
    elsewhere = subprocess.run(
        [sys.executable, "-c", "import codemods"], cwd=tmp_path, capture_output=True, check=False
    )
    assert b"ModuleNotFoundError" in elsewhere.stderr


def test_every_codemod_can_be_imported_and_says_what_it_is() -> None:
    assert broken_codemods() == {}
    for name, codemod in all_codemods().items():
        assert name == codemod.codemod_name()
        summary = codemod.manual_page().partition("\n")[0]
        assert 10 < len(summary) <= 120, name
        assert codemod.triggers or codemod.evidence, name


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"]["attr"] == "shardfix.__version__"
    assert f"## {shardfix.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_license_is_the_one_that_is_declared() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert (ROOT / "LICENSE").read_text().lstrip().startswith("Apache License")
