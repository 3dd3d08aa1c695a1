"""What an editor is told of a text: from what was found in it to values of the Language Server Protocol.

Nothing here knows of a connection. Positions of the protocol count lines from 0, and columns in the code units that the
client asked for, which are UTF-16 unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from lsprotocol import types

from shardfix import manual
from shardfix.codemod import Safety, all_codemods
from shardfix.fixer import Result
from shardfix.lines import Lines
from shardfix.outcomes import ReportedFinding
from shardfix.patch import grouped_opcodes
from shardfix.suppressions import with_ignores

__all__ = ["FIX_ALL", "Analysis", "code_actions", "diagnostics", "hover", "text_edits"]

FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.shardfix"
SOURCE = "shardfix"


@dataclass(frozen=True)
class Analysis:
    """What was found in a text."""

    uri: str
    source: str
    result: Result
    encoding: str = types.PositionEncodingKind.Utf16
    """What the columns of positions count in."""

    @cached_property
    def lines(self) -> Lines:
        return Lines(self.source)

    def position(self, line: int, column: int) -> types.Position:
        """The position of a character, given by line and column from 1."""
        return types.Position(line - 1, _units(self.lines.texts[line - 1][: column - 1], self.encoding))

    def range_of(self, finding: ReportedFinding) -> types.Range:
        """Where ``finding`` stands."""
        end = self.position(finding.end_line, finding.end_column)
        return types.Range(self.position(finding.line, finding.column), end)

    def span(self, start: int, end: int) -> types.Range:
        """The range of the characters from ``start`` to ``end`` of the text."""
        return types.Range(*(self.position(*self.lines.position(offset)) for offset in (start, end)))

    def at(self, place: types.Range) -> list[ReportedFinding]:
        """The findings that ``place`` touches."""
        return [finding for finding in self.result.findings if _touch(self.range_of(finding), place)]


def _units(text: str, encoding: str) -> int:
    """How long ``text`` is to the client."""
    if encoding == types.PositionEncodingKind.Utf32:
        return len(text)
    if encoding == types.PositionEncodingKind.Utf8:
        return len(text.encode(errors="surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _touch(one: types.Range, other: types.Range) -> bool:
    return one.start <= other.end and other.start <= one.end


# Diagnostics


def diagnostics(analysis: Analysis) -> list[types.Diagnostic]:
    """One for each finding."""
    return [_diagnostic(analysis, finding) for finding in analysis.result.findings]


def _diagnostic(analysis: Analysis, finding: ReportedFinding) -> types.Diagnostic:
    lines = [f"{finding.message} [{finding.safety}]", *_reasons(finding)]
    return types.Diagnostic(
        range=analysis.range_of(finding),
        message="\n".join(lines),
        severity=types.DiagnosticSeverity.Warning,
        code=finding.codemod,
        source=SOURCE,
    )


def _reasons(finding: ReportedFinding) -> Iterator[str]:
    """Why there is no safe repair, and what there is to choose from."""
    if finding.reason and not finding.fixed:
        yield finding.reason
    yield from (f"- {choice}" for choice in finding.choices)


# Code actions


def code_actions(analysis: Analysis, place: types.Range, only: Sequence[str] | None = None) -> list[types.CodeAction]:
    """What can be done at ``place``: the repairs of the findings there, all repairs of the file, and to ignore a finding.

    Args:
        analysis: of the text that the client has.
        place: where its cursor or selection is.
        only: the kinds that are asked for, each with all that are of its kind; None for all.
    """
    here = analysis.at(place)
    actions = [*_repairs(analysis, here), *_all_repairs(analysis), *_suppressions(analysis, here)]
    return [action for action in actions if only is None or any(_is_of_kind(action, kind) for kind in only)]


def _is_of_kind(action: types.CodeAction, kind: str) -> bool:
    return not kind or ((action.kind or "") + ".").startswith(kind + ".")


def _repairs(analysis: Analysis, findings: Iterable[ReportedFinding]) -> Iterator[types.CodeAction]:
    """The repairs, each once: findings may share one."""
    repairable = sorted((finding for finding in findings if finding.changes), key=_first_change)
    for changes, shared in groupby(repairable, lambda finding: finding.changes):
        same = list(shared)
        unsafe = any(finding.safety is not Safety.SAFE for finding in same)
        edits = [types.TextEdit(analysis.span(change.start, change.end), change.text) for change in changes]
        title = same[0].fix or f"repair what {same[0].codemod} found"
        yield _action(
            analysis,
            f"shardfix{' (unsafe)' if unsafe else ''}: {title}",
            types.CodeActionKind.QuickFix,
            edits,
            same,
            preferred=not unsafe,
        )


def _first_change(finding: ReportedFinding) -> list[tuple[int, int, str]]:
    return [(change.start, change.end, change.text) for change in finding.changes]


def _all_repairs(analysis: Analysis) -> Iterator[types.CodeAction]:
    """What ``--write`` would do to the file."""
    repaired = [finding for finding in analysis.result.findings if finding.fixed]
    edits = text_edits(analysis, analysis.result.source)
    if edits:
        yield _action(analysis, "shardfix: all repairs of this file that the settings allow", FIX_ALL, edits, repaired)


def _suppressions(analysis: Analysis, findings: Iterable[ReportedFinding]) -> Iterator[types.CodeAction]:
    available = all_codemods()
    for name, group in groupby(sorted(findings, key=lambda finding: finding.codemod), lambda finding: finding.codemod):
        if not available[name].judges_suppressions:
            same = list(group)
            edits = text_edits(analysis, with_ignores(analysis.source, same))
            yield _action(analysis, f"shardfix: ignore {name} here", types.CodeActionKind.QuickFix, edits, same)


def _action(
    analysis: Analysis,
    title: str,
    kind: str,
    edits: Sequence[types.TextEdit],
    findings: Iterable[ReportedFinding],
    preferred: bool = False,
) -> types.CodeAction:
    return types.CodeAction(
        title=title,
        kind=kind,
        edit=types.WorkspaceEdit(changes={analysis.uri: edits}),
        diagnostics=[_diagnostic(analysis, finding) for finding in findings],
        is_preferred=preferred or None,
    )


def text_edits(analysis: Analysis, after: str) -> list[types.TextEdit]:
    """What turns the text into ``after``, by lines."""
    before, new = (list(map(str.__add__, lines.texts, lines.ends)) for lines in (analysis.lines, Lines(after)))
    edits = []
    for group in grouped_opcodes(before, new):
        for tag, start, end, new_start, new_end in group:
            if tag != "equal":
                place = types.Range(_line_start(analysis, start), _line_start(analysis, end))
                edits.append(types.TextEdit(place, "".join(new[new_start:new_end])))
    return edits


def _line_start(analysis: Analysis, line: int) -> types.Position:
    """Where a line, counted from 0, begins; the one behind the last begins at the end."""
    texts = analysis.lines.texts
    if line < len(texts):
        return types.Position(line, 0)
    return analysis.position(len(texts), len(texts[-1]) + 1)


# Hover


def hover(analysis: Analysis, position: types.Position) -> types.Hover | None:
    """The findings at ``position`` and the manual pages of their codemods."""
    found = analysis.at(types.Range(position, position))
    if not found:
        return None
    parts = [
        "\n".join([f"**{finding.codemod}**: {finding.message} *({finding.safety})*", "", *_reasons(finding)])
        for finding in found
    ]
    available = all_codemods()
    parts += [manual.markdown(available[name]) for name in dict.fromkeys(finding.codemod for finding in found)]
    content = types.MarkupContent(types.MarkupKind.Markdown, "\n\n---\n\n".join(part.strip() for part in parts))
    return types.Hover(content, analysis.range_of(found[0]))
