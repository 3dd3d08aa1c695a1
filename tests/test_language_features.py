"""What an editor is told, without an editor: positions, edits, actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol.types import CodeActionKind, Position, PositionEncodingKind, Range

from shardfix.api import fix_source
from shardfix.editor.features import FIX_ALL, Analysis, code_actions, diagnostics, hover, text_edits
from shardfix.fixer import Result

if TYPE_CHECKING:
    from lsprotocol import types

URI = "file:///train.py"


def offset(source: str, position: Position) -> int:
    """The character of ``source`` at a position in UTF-16, by the rules of the protocol."""
    start = 0
    for _ in range(position.line):
        ends = [source.find(end, start) for end in ("\r\n", "\n", "\r")]
        first = min(end for end in ends if end >= 0)
        start = first + (2 if source.startswith("\r\n", first) else 1)
    units = 0
    while units < position.character:
        units += 2 if ord(source[start]) > 0xFFFF else 1
        start += 1
    return start


def edited(source: str, edits: list[types.TextEdit]) -> str:
    """``source`` as an editor makes it."""
    for edit in sorted(edits, key=lambda edit: edit.range.start, reverse=True):
        source = source[: offset(source, edit.range.start)] + edit.new_text + source[offset(source, edit.range.end) :]
    return source


def analysed(source: str, encoding: str = PositionEncodingKind.Utf16) -> Analysis:
    return Analysis(URI, source, fix_source(source), encoding)


def everywhere(analysis: Analysis) -> Range:
    return Range(Position(0, 0), analysis.position(len(analysis.lines.texts), 1))


ASTRAL = "import jax\r\nx = ('\U0001f600é', '\f\u2028', jax.tree_map(abs, 1))\r\n"


@pytest.mark.parametrize(
    ("encoding", "start"),
    [(PositionEncodingKind.Utf16, 18), (PositionEncodingKind.Utf8, 23), (PositionEncodingKind.Utf32, 17)],
)
def test_columns_are_in_the_units_of_the_client(encoding: str, start: int) -> None:
    (found,) = diagnostics(analysed(ASTRAL, encoding))
    assert found.range == Range(Position(1, start), Position(1, start + len("jax.tree_map")))
    assert (found.code, found.source) == ("renames", "shardfix")
    assert found.message.endswith("[safe]")


def test_a_repair_behind_an_astral_character_lands_where_it_should() -> None:
    analysis = analysed(ASTRAL)
    place = diagnostics(analysis)[0].range
    repair = code_actions(analysis, Range(place.start, place.start))[0]
    assert (repair.kind, repair.is_preferred) == (CodeActionKind.QuickFix, True)
    assert edited(ASTRAL, repair.edit.changes[URI]) == ASTRAL.replace("tree_map", "tree.map")


TWO = "import jax\nfrom jax import lax\nx = jax.tree_map(abs, 1)\ny = lax.pvary(x, 'i')\n"


def test_kinds_that_are_asked_for() -> None:
    analysis = analysed(TWO)
    place = Range(Position(2, 6), Position(2, 6))

    def kinds(*only: str) -> list[str]:
        return ["" + (action.kind or "") for action in code_actions(analysis, place, only or None)]

    assert kinds() == ["quickfix", FIX_ALL, "quickfix"]
    assert kinds("") == kinds()
    assert kinds("source") == kinds("source.fixAll") == kinds(FIX_ALL) == [FIX_ALL]
    assert kinds("quickfix") == ["quickfix", "quickfix"]
    assert kinds("source.fixAll.ruff") == kinds("source.fix") == kinds("refactor") == []


def test_all_repairs_make_what_the_command_line_makes() -> None:
    analysis = analysed(TWO)
    (repair,) = code_actions(analysis, Range(Position(0, 0), Position(0, 0)), [FIX_ALL])
    after = edited(TWO, repair.edit.changes[URI])
    assert after == fix_source(TWO).source != TWO
    assert len(repair.diagnostics) == 2
    assert code_actions(analysed(after), everywhere(analysis)) == []


def test_an_unsafe_repair_says_so_and_is_not_among_all() -> None:
    source = "import jax\nmesh = jax.make_mesh((8,), ('x',))\nwith mesh:\n    jax.jit(f)(x)\n"
    analysis = analysed(source)
    unsafe = [finding for finding in analysis.result.findings if finding.safety == "unsafe"]
    assert unsafe
    actions = code_actions(analysis, everywhere(analysis))
    titles = [
        action.title for action in actions if action.kind == CodeActionKind.QuickFix and "ignore" not in action.title
    ]
    assert titles
    assert all(title.startswith("shardfix (unsafe): ") for title in titles)
    assert not any(action.is_preferred for action in actions)
    assert not [action for action in actions if action.kind == FIX_ALL]


def test_findings_that_share_a_repair_have_one_action() -> None:
    source = "from jax.experimental.pjit import pjit\nf = pjit(g)\nh = pjit(g)\n"
    analysis = analysed(source)
    changes = {finding.changes for finding in analysis.result.findings if finding.changes}
    actions = code_actions(analysis, everywhere(analysis), ["quickfix"])
    repairs = [action for action in actions if "ignore" not in action.title]
    assert len(repairs) == len(changes) >= 1
    assert sum(len(action.diagnostics) for action in repairs) == len(analysis.result.findings)


def test_a_finding_can_be_ignored() -> None:
    analysis = analysed(TWO)
    place = Range(Position(3, 5), Position(3, 5))
    ignore = code_actions(analysis, place, ["quickfix"])[-1]
    assert ignore.title == "shardfix: ignore pvary here"
    after = edited(TWO, ignore.edit.changes[URI])
    assert after == TWO.replace("'i')\n", "'i')  # shardfix: ignore[pvary]\n")
    assert {finding.codemod for finding in fix_source(after).findings} == {"renames"}


def test_a_comment_that_ignores_nothing_cannot_be_ignored() -> None:
    analysis = analysed("import jax\nx = jax.tree.map(abs, 1)  # shardfix: ignore[renames]\n")
    assert [finding.codemod for finding in analysis.result.findings] == ["unused-suppressions"]
    assert not [one for one in code_actions(analysis, everywhere(analysis)) if "ignore unused" in one.title]


def test_hover_explains() -> None:
    analysis = analysed(TWO)
    shown = hover(analysis, Position(3, 6))
    assert shown is not None
    assert shown.range == diagnostics(analysis)[1].range
    text = shown.contents.value
    assert text.startswith("**pvary**: ")
    assert "**The repair**\n\n```diff\n" in text
    assert hover(analysis, Position(0, 0)) is None


TEXTS = st.text(st.sampled_from("ab\U0001f600é\f\u2028\r\n\n"), max_size=12)


@given(TEXTS, TEXTS)
@settings(deadline=None, max_examples=300)
def test_edits_turn_one_text_into_the_other(before: str, after: str) -> None:
    assert edited(before, text_edits(Analysis(URI, before, Result((), before)), after)) == after
