"""What is installed: every package, with its data, and nothing under a name that others use."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from repository import ROOT, copy_repository, tracked

import shardfix
from shardfix.codemod import all_codemods, broken_codemods

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


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a wheel and of the source distribution that it was made from."""
    source = tmp_path_factory.mktemp("source")
    copy_repository(source)
    folder = tmp_path_factory.mktemp("distributions")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, source], capture_output=True, check=True)
    return folder


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package_and_nothing_else(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    homes = (("shardfix/", "shardfix/"), ("codemods/", "shardfix/codemods/"))
    wanted = {
        home + name.removeprefix(folder) for folder, home in homes for name in tracked() if name.startswith(folder)
    }
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == wanted


@pytest.mark.slow
def test_the_source_distribution_installs_in_a_fresh_environment(distributions: Path, tmp_path: Path) -> None:
    (source,) = distributions.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        assert {name.split("/")[0] for name in archive.getnames()} == {f"shardfix-{shardfix.__version__}"}
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    bin = tmp_path / "venv" / "bin"
    subprocess.run([bin / "python", "-m", "pip", "install", "--quiet", source], check=True)

    def output(*command: str | Path) -> str:
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert output(bin / "shardfix", "--version") == f"shardfix {shardfix.__version__}\n"
    assert len(output(bin / "shardfix", "--list").splitlines()) == len(all_codemods())
    assert "rank0-outputs" in output(bin / "shardfix", "--check", "--exit-zero", ROOT / "examples")
    own = "import importlib.metadata as m; print(m.distribution('shardfix').read_text('top_level.txt').split())"
    assert output(bin / "python", "-c", own) == "['shardfix']\n"
