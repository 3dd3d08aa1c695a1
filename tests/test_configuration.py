"""``[tool.shardfix]``: what it may say, what is said of what is wrong, and who wins."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

import shardfix
from shardfix import configuration
from shardfix.codemod import all_codemods

Command = Callable[..., "conftest.Run"]  # type: ignore[name-defined]  # noqa: F821

PUZZLE = "old\nrisky\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    return tmp_path


def configure(text: str, folder: str = ".") -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    Path(folder, "pyproject.toml").write_text(f"[tool.shardfix]\n{text}\n")


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def found(command: Command, *arguments: object) -> list[str]:
    done = command("--check", *arguments)
    assert done.code in (0, 1), done.err
    return [line.partition(": ")[0] for line in done.out.decode().splitlines()]


@pytest.mark.usefixtures("sample")
class TestWhoWins:
    def test_the_nearest_file_holds_for_each_folder(self, here: Path, shardfix_command: Command) -> None:
        write("a.py", PUZZLE)
        write("sub/deep/b.py", PUZZLE)
        write("other/c.py", PUZZLE)
        configure("unsafe = true")
        configure("ignore = ['sample-codemod']", "sub")
        Path("other/pyproject.toml").write_text("[project]\nname = 'shardfix-user'\n")
        assert found(shardfix_command) == ["a.py:1:1", "a.py:2:1", "other/c.py:1:1", "other/c.py:2:1"]
        assert b"+bold" in shardfix_command("other").out

    def test_the_search_ends_at_the_root_of_the_repository(self, here: Path, shardfix_command: Command) -> None:
        configure("ignore = ['sample-codemod']")
        write("inner/a.py", "old\n")
        Path("inner/.git").mkdir()
        assert found(shardfix_command) == ["inner/a.py:1:1"]

    def test_the_command_line_wins(self, here: Path, shardfix_command: Command) -> None:
        configure("ignore = ['sample-codemod']\nunsafe = ['sample-codemod']")
        write("a.py", PUZZLE)
        assert found(shardfix_command) == []
        assert b"+bold" in shardfix_command("--select", "sample_codemod").out
        assert b"+bold" not in shardfix_command("--select", "sample-codemod", "--no-unsafe").out

    def test_isolated_reads_no_file(self, here: Path, shardfix_command: Command) -> None:
        configure("nonsense = 1")
        write("a.py", "old\n")
        assert shardfix_command("--check").code == 2
        assert found(shardfix_command, "--isolated") == ["a.py:1:1"]

    def test_a_target_in_the_file_holds(self, here: Path, shardfix_command: Command) -> None:
        write("a.py", "young\n")
        assert b"+grown" in shardfix_command().out
        configure("target-jax = '0.10'")
        done = shardfix_command()
        assert done.out == b""
        assert "the code must run on 0.10" in done.err
        assert b"+grown" in shardfix_command("--target-jax", "0.12").out

    def test_standard_input_is_configured_by_the_path_it_is_taken_from(
        self, here: Path, shardfix_command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import io

        configure("ignore = ['sample-codemod']", "sub")
        for path, code in (("sub/a.py", 0), ("a.py", 1)):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"old\n")))
            assert shardfix_command("--check", "-", "--stdin-filename", path).code == code


@pytest.mark.usefixtures("sample")
class TestFiles:
    def test_per_file_ignores_are_patterns_from_the_folder_of_the_file(
        self, here: Path, shardfix_command: Command
    ) -> None:
        configure("per-file-ignores = { 'tests/*.py' = ['sample-codemod'], '**/made_*' = ['sample-codemod'] }")
        for path in ("a.py", "tests/b.py", "tests/deep/c.py", "pkg/made_d.py"):
            write(path, "old\n")
        assert found(shardfix_command) == ["a.py:1:1", "tests/deep/c.py:1:1"]

    def test_excluded_files_and_folders_are_passed_over_unless_named(
        self, here: Path, shardfix_command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        configure("exclude = ['legacy/', '*_pb2.py']")
        for path in ("a.py", "legacy/b.py", "pkg/c_pb2.py"):
            write(path, "old\n")
        assert found(shardfix_command) == ["a.py:1:1"]
        assert found(shardfix_command, "pkg/c_pb2.py") == ["pkg/c_pb2.py:1:1"]
        assert found(shardfix_command, "--force-exclude", "a.py", "pkg/c_pb2.py", "legacy/b.py") == ["a.py:1:1"]
        monkeypatch.chdir(here / "pkg")
        assert found(shardfix_command) == []

    def test_files_of_a_folder_cost_one_look(
        self, here: Path, shardfix_command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looks: list[str] = []
        read = configuration.read
        monkeypatch.setattr(configuration, "read", lambda path, available: looks.append(path) or read(path, available))
        for number in range(50):
            write(f"pkg/m{number}.py", "old\n")
        assert len(found(shardfix_command)) == 50
        assert sorted(looks) == [str(here / "pkg/pyproject.toml"), str(here / "pyproject.toml")]


WRONG = {
    "selct = []": "tool.shardfix.selct: unknown key; did you mean 'select'?",
    "select = ['rank0-output']": "tool.shardfix.select: unknown codemod 'rank0-output'; did you mean 'rank0-outputs'?",
    "select = 'pvary'": "tool.shardfix.select: must be a list of strings",
    "per-file-ignores = []": (
        'tool.shardfix.per-file-ignores: must be a table of patterns, such as { "tests/*" = ["renames"] }'
    ),
    "per-file-ignores = { 'a.py' = ['pvari'] }": (
        "tool.shardfix.per-file-ignores.\"a.py\": unknown codemod 'pvari'; did you mean 'pvary'?"
    ),
    "exclude = [1]": "tool.shardfix.exclude: must be a list of strings",
    "target-jax = 0.8": 'tool.shardfix.target-jax: must be a version in quotes, such as "0.8"',
    "target-jax = 'new'": "tool.shardfix.target-jax: 'new' is not a version of JAX; write it like 0.12",
    "unsafe = 'all'": "tool.shardfix.unsafe: must be true, false or a list of codemods",
    "unsafe = ['pvari']": "tool.shardfix.unsafe: unknown codemod 'pvari'; did you mean 'pvary'?",
    "rank0-style = 'keepdim'": (
        "tool.shardfix.rank0-style: must be one of auto, keepdims, index; did you mean 'keepdims'?"
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_told_with_file_key_and_the_nearest_right_word(
    here: Path, shardfix_command: Command, text: str
) -> None:
    configure(text, "pkg")
    write("pkg/a.py", "old\n")
    done = shardfix_command()
    assert (done.code, done.out, done.err) == (2, b"", f"shardfix: pkg/pyproject.toml: {WRONG[text]}\n")


def test_broken_toml_is_told_if_it_speaks_of_shardfix(here: Path, shardfix_command: Command) -> None:
    write("a.py", "fine\n")
    Path("pyproject.toml").write_text("[tool.black\n")
    assert shardfix_command().code == 0
    Path("pyproject.toml").write_text("[tool.shardfix\n")
    done = shardfix_command()
    assert done.code == 2
    assert done.err.startswith("shardfix: pyproject.toml: Expected ']'")


def test_show_settings_is_toml_that_says_where_each_comes_from(here: Path, shardfix_command: Command) -> None:
    configure(
        "select = ['pvary', 'renames']\nper-file-ignores = { 'b.py' = ['renames'] }\ntarget-jax = '0.9'\nexclude = ['*_pb2.py']"
    )
    write("a.py", "")
    write("b.py", "")
    done = shardfix_command("--show-settings", "--unsafe", "a.py", "b.py")
    assert done.code == 0
    assert done.out.decode().splitlines() == [
        f"# a.py (configuration: {here / 'pyproject.toml'})",
        "[tool.shardfix]",
        'select = ["pvary", "renames"]  # pyproject.toml',
        "unsafe = true  # command line",
        'target-jax = "0.9"  # pyproject.toml',
        'rank0-style = "auto"  # default',
        'exclude = ["*_pb2.py"]  # pyproject.toml',
        'per-file-ignores = {"b.py" = ["renames"]}  # pyproject.toml',
        "",
        f"# b.py (configuration: {here / 'pyproject.toml'})",
        "[tool.shardfix]",
        'select = ["pvary"]  # pyproject.toml',
        "unsafe = true  # command line",
        'target-jax = "0.9"  # pyproject.toml',
        'rank0-style = "auto"  # default',
        'exclude = ["*_pb2.py"]  # pyproject.toml',
        'per-file-ignores = {"b.py" = ["renames"]}  # pyproject.toml',
    ]
    settings = tomllib.loads(shardfix_command("--show-settings", "a.py").out.decode())["tool"]["shardfix"]
    jsonschema.validate(settings, schema())


def schema() -> dict[str, object]:
    return json.loads((Path(shardfix.__file__).parent / "schema.json").read_text())  # type: ignore[no-any-return]


def test_the_schema_is_what_the_reader_knows() -> None:
    jsonschema.Draft7Validator.check_schema(schema())
    script = Path(__file__).parent.parent / "scripts" / "generate_schema.py"
    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0, (
        "run scripts/generate_schema.py"
    )


@pytest.mark.parametrize("text", [text for text in WRONG if "'new'" not in text] + ["target-jax = 'new'"])
def test_the_schema_refuses_what_the_reader_refuses(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), schema())


def test_the_schema_takes_what_the_reader_takes() -> None:
    text = """
    select = ["pvary"]
    ignore = []
    exclude = ["legacy/"]
    target-jax = "0.8.2"
    unsafe = ["pvary"]
    rank0-style = "index"
    per-file-ignores = { "tests/*" = ["renames"] }
    """
    jsonschema.validate(tomllib.loads(text), schema())
    assert all_codemods().keys() >= {"pvary", "renames"}
