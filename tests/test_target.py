"""Which JAX the code must still run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfix.target import declared_jax, has, parse_target


@pytest.mark.parametrize(
    ("name", "text", "bound"),
    [
        (
            "pyproject.toml",
            "[project]\ndependencies = ['numpy', 'jax[cuda12]>=0.8.1,<0.11; python_version > \"3.9\"']",
            "0.8.1",
        ),
        ("pyproject.toml", "[project]\ndependencies = ['jax ~= 0.7']", "0.7"),
        ("pyproject.toml", "[project]\ndependencies = ['jax==0.6.*']", "0.6"),
        (
            "pyproject.toml",
            "[project]\ndependencies = ['jax>=0.9']\n[project.optional-dependencies]\nold = ['jax>=0.5']",
            "0.5",
        ),
        ("pyproject.toml", "[project]\ndependencies = ['jaxlib>=0.4', 'jaxtyping>=0.2', 'jax']", None),
        ("pyproject.toml", "[project]\ndependencies = ['jax<0.9', 'jax!=0.8']", None),
        ("pyproject.toml", "[project]\ndependencies = 'jax>=0.9'", None),
        ("pyproject.toml", "[project\njax", None),
        ("pyproject.toml", "[dependency-groups]\ndev = ['jax>=0.9', {include-group = 'x'}]", "0.9"),
        ("pyproject.toml", "[tool.poetry.dependencies]\njax = '^0.8'", "0.8"),
        ("pyproject.toml", "[tool.poetry.dependencies]\njax = {version = '>=0.8,<0.10', extras = ['cuda']}", "0.8"),
        (
            "pyproject.toml",
            "[tool.poetry.group.tpu.dependencies]\njax = [{version = '0.10.*'}, {version = '0.9.2'}]",
            "0.9.2",
        ),
        ("pyproject.toml", "[tool.poetry.dependencies]\njax = '*'", None),
        ("requirements.txt", "# jax>=0.1\nnumpy\nJAX[tpu] >= 0.7.0  # why\n-r other.txt\n", "0.7.0"),
        ("requirements-dev.txt", "jax==0.7.2 --hash=sha256:0\n", "0.7.2"),
        ("requirements.txt", "jax @ git+https://example.com/jax\n", None),
        ("setup.cfg", "[options]\ninstall_requires =\n  numpy\n  jax>=0.6\n", "0.6"),
        ("setup.cfg", "[options.extras_require]\nall =\n  jax>=0.6\n", "0.6"),
        ("setup.cfg", "jax", None),
    ],
)
def test_what_a_project_declares(tmp_path: Path, name: str, text: str, bound: str | None) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / name).write_text(text)
    assert declared_jax(str(tmp_path)) == bound


def test_the_nearest_folder_with_a_bound_decides_and_the_repository_ends_the_search(tmp_path: Path) -> None:
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/a/b").mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("jax>=0.1")
    assert declared_jax(str(tmp_path / "repo/a/b")) is None
    declared_jax.cache_clear()
    (tmp_path / "repo/pyproject.toml").write_text("[project]\ndependencies = ['jax>=0.8']")
    (tmp_path / "repo/a/pyproject.toml").write_text("[project]\ndependencies = ['numpy']")
    assert declared_jax(str(tmp_path / "repo/a/b")) == "0.8"
    declared_jax.cache_clear()
    (tmp_path / "repo/a/pyproject.toml").write_text("[project]\ndependencies = ['jax>=0.9']")
    assert declared_jax(str(tmp_path / "repo/a/b")) == "0.9"


@pytest.mark.parametrize(
    ("target", "needed", "answer"),
    [("0.8", None, True), ("0.10", "0.9", True), ("0.8", "0.8.0", True), ("0.8", "0.8.1", False)],
)
def test_versions_compare_as_numbers(target: str, needed: str | None, answer: bool) -> None:
    assert has(target, needed) is answer


@pytest.mark.parametrize(
    ("text", "words"),
    [("banana", "not a version"), ("12", "did you mean 0.12"), ("0.99", "newest known"), ("", "not a version")],
)
def test_an_impossible_target_is_told(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_target(text)


@pytest.mark.parametrize("text", ["0.8", "0.4.38", "0.12", "0.12.0.1"])
def test_a_possible_target_is_taken(text: str) -> None:
    assert parse_target(text) == text
