"""One text: passes, choice of fixes, and what is told of it."""

from __future__ import annotations

import ast
import dataclasses
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from sample_codemod import SAFE, SampleCodemod

from shardfix.codemod import Fix, Range, Safety
from shardfix.edits import Replace, pen
from shardfix.edits.pen import Splice
from shardfix.fixer import Result, fix
from shardfix.outcomes import ReportedFinding
from shardfix.semantics.project import Project
from shardfix.settings import Settings

if TYPE_CHECKING:
    from shardfix.semantics.module import Module


def fixed(source: str, settings: Settings | None = None, *codemods: type[SampleCodemod]) -> Result:
    return fix(source, "a.py", settings or Settings(), Project(), codemods or (SampleCodemod,))


def only(result: Result) -> ReportedFinding:
    (finding,) = result.findings
    return finding


def test_a_safe_fix_is_applied_and_told() -> None:
    result = fixed("x = 1\r\nyé = 'é'; y = old\r\n")
    assert result.source == "x = 1\r\nyé = 'é'; y = new\r\n"
    assert result.failures == ()
    assert only(result) == ReportedFinding(
        "sample-codemod",
        2,
        15,
        2,
        18,
        "old is out of date",
        Safety.SAFE,
        fixed=True,
        fix="use new",
        changes=(Splice(21, 24, "new"),),
    )


def test_results_are_plain_values() -> None:
    result = fixed("old; puzzle")
    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_python_counts_them(newline: str) -> None:
    result = fixed(newline.join(["a", "b\x0c = '\x1c\x85\u2028'", "puzzle", ""]))
    assert (only(result).line, only(result).column) == (3, 1)


def test_the_second_pass_sees_what_the_first_made_and_reports_it_in_the_original_text() -> None:
    result = fixed("'''\n'''\nold\nx = (step2,\n     puzzle)\n")
    assert result.source == "'''\n'''\nnew\nx = (step0,\n     puzzle)\n"
    assert [(one.line, one.column, one.message, one.fixed) for one in result.findings] == [
        (3, 1, "old is out of date", True),
        (4, 6, "step2 is out of date", True),
        (4, 6, "step1 is out of date", True),
        (5, 6, "puzzle is out of date", False),
    ]


def test_equal_findings_of_one_line_stay_apart_and_those_of_later_passes_are_the_same() -> None:
    result = fixed("step2; puzzle, puzzle; old; step1, step1\n")
    assert result.source == "step0; puzzle, puzzle; new; step0, step0\n"
    assert [one.column for one in result.findings if "puzzle" in one.message] == [8, 16]
    assert len(result.findings) == 7


def test_manual_findings_carry_reason_and_choices() -> None:
    finding = only(fixed("puzzle"))
    assert (finding.safety, finding.fixed) == (Safety.MANUAL, False)
    assert finding.reason == "there are two ways"
    assert finding.choices == ("solve it", "leave it")


@pytest.mark.parametrize(
    ("unsafe", "source"),
    [
        (False, "risky"),
        (True, "bold"),
        (frozenset({"sample-codemod"}), "bold"),
        (frozenset({"another"}), "risky"),
        (frozenset(), "risky"),
    ],
)
def test_unsafe_fixes_wait_to_be_asked_for(unsafe: bool | frozenset[str], source: str) -> None:
    result = fixed("risky", Settings(unsafe=unsafe))
    assert result.source == source
    assert only(result).safety is Safety.UNSAFE
    assert only(result).fixed is (source == "bold")
    assert ("--unsafe" in only(result).reason) is (source == "risky")


@pytest.mark.parametrize(("target", "source"), [(None, "grown"), ("0.11", "grown"), ("0.10.2", "young")])
def test_a_fix_too_new_for_the_target_is_only_told(target: str | None, source: str) -> None:
    result = fixed("young", Settings(target_jax=target))
    assert result.source == source
    if source == "young":
        assert only(result).reason == "the repair needs JAX 0.11, and the code must run on 0.10.2"


def test_a_fix_that_breaks_the_text_is_dropped_alone() -> None:
    result = fixed("old\nbroken\nstep2")
    assert result.source == "new\nbroken\nstep0"
    broken = next(one for one in result.findings if "broken" in one.message)
    assert not broken.fixed
    assert "not an expression" in broken.reason


def test_a_text_that_does_not_parse_is_taken_back_fix_by_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(module: Module, fixes: Sequence[Fix]) -> pen.Applied:
        result = carry_out(module, fixes)
        bad = [one for one in result.applied if one.title == "use bad"]
        return dataclasses.replace(result, source=result.source + "(") if bad else result

    carry_out = pen.apply
    monkeypatch.setattr(pen, "apply", careless)
    monkeypatch.setitem(SAFE, "broken", "bad")
    result = fixed("old\nbroken\nstep2")
    assert result.source == "new\nbroken\nstep0"
    assert [one.message for one in result.findings if not one.fixed] == ["broken is out of date"]
    assert "cannot parse" in next(one.reason for one in result.findings if not one.fixed)


def test_a_codemod_that_crashes_costs_its_own_findings_only() -> None:
    class Another(SampleCodemod):
        def findings(self, module):  # type: ignore[no-untyped-def]
            return (found for found in super().findings(module) if "crash" not in found.message)

    class Calm(SampleCodemod):
        def findings(self, module):  # type: ignore[no-untyped-def]
            for node in module.nodes(ast.Name):
                if node.id == "old":
                    yield self.finding(node, "calm", fix=Fix((Replace(Range.of(node), "new"),)))

    result = fixed("old\ncrash\n", None, SampleCodemod, Calm)
    assert result.source == "new\ncrash\n"
    assert only(result).message == "calm"
    (failure,) = result.failures
    assert "LookupError: this is a test (sample_codemod.py:" in failure.reason


def test_a_fix_that_undoes_itself_is_dropped_and_told() -> None:
    result = fixed("swing\nold\n")
    assert result.source == "swing\nold\n"
    assert not any(one.fixed for one in result.findings)
    (failure,) = result.failures
    assert "sample-codemod" in failure.reason
    assert "come to rest" in failure.reason


def test_a_fix_that_never_ends_is_dropped_and_told() -> None:
    class Endless(SampleCodemod):
        triggers = (b"",)

        def findings(self, module):  # type: ignore[no-untyped-def]
            node = module.nodes(ast.Name)[0]
            yield self.finding(node, "longer", fix=Fix((Replace(Range.of(node), node.id + "x"),)))

    result = fixed("a", None, Endless)
    assert result.source == "a"
    assert "10 passes" in result.failures[0].reason


def test_the_project_sees_the_original_in_the_end() -> None:
    project = Project(sources={"a.py": "old"})
    fix("old", "a.py", Settings(), project, (SampleCodemod,))
    module = project.module_at("a.py")
    assert module is not None
    assert module.source == "old"


@pytest.mark.parametrize("source", ["def f(:\n", "x = 'é\n", "a\0b", "if 1:\nx\n"])
def test_what_cannot_be_parsed_raises_as_python_does(source: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        fixed(source)


def test_a_fix_that_loses_a_comment_is_demoted() -> None:
    class Careless(SampleCodemod):
        triggers = (b"",)

        def findings(self, module: Module):  # type: ignore[no-untyped-def]
            for node in module.nodes(ast.Tuple):
                yield self.finding(node, "a tuple", fix=Fix((Replace(Range.of(node), "new"),)))

    source = "x = (1,  # one\n     2)\n"
    finding = only(fixed(source, None, Careless))
    assert (finding.safety, finding.fixed) == (Safety.UNSAFE, False)
    assert "comment" in finding.reason
    assert fixed(source, Settings(unsafe=True), Careless).source == "x = new\n"


def test_the_settings_reach_the_codemods() -> None:
    seen = []

    class Curious(SampleCodemod):
        def findings(self, module):  # type: ignore[no-untyped-def]
            seen.append(self.settings)
            return iter(())

    settings = Settings(target_jax="0.9")
    fixed("old", settings, Curious)
    assert seen == [settings]
    assert dataclasses.is_dataclass(settings)
