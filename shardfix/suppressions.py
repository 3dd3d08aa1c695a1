"""Comments that keep findings back: ``# shardfix: ignore``, ``# shardfix: ignore[renames, pvary]``, ``# shardfix: skip-file``.

A comment holds for the statement, or the header of the block, on whose lines it stands, and for any finding that covers
its line; on a line of its own between statements it holds for the next one.
"""

from __future__ import annotations

import ast
import bisect
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from shardfix.codemod import Finding, Range
from shardfix.lines import Lines

if TYPE_CHECKING:
    from shardfix.outcomes import ReportedFinding
    from shardfix.semantics.module import Module

__all__ = ["Suppression", "Suppressions", "UnusedSuppression", "with_ignores"]

MARK = "shardfix:"
COMMENT = re.compile(r"#\s*shardfix:\s*(?P<word>ignore|skip-file)\b(?:\s*\[(?P<names>[^\]#]*)\])?[^#]*")
ALL = ""
"""In the place of a name: all codemods."""


@dataclass(frozen=True)
class Suppression:
    """One comment that ignores findings."""

    range: Range
    """From its ``#`` to its end, which is the next ``#`` on the line or the end of the line."""
    names: tuple[str, ...]
    """The codemods whose findings are kept back; :data:`ALL` alone for all of them."""
    lines: tuple[int, int]
    """The first and the last line of the statement that it holds for."""

    def hides(self, finding: Finding) -> str | None:
        """The name under which it keeps ``finding`` back; None where it does not."""
        first, last = self.lines
        place = finding.range
        if first <= place.line <= last or place.line <= self.range.line <= place.end_line:
            return next((name for name in self.names if name in (ALL, finding.codemod)), None)
        return None


@dataclass(frozen=True)
class UnusedSuppression:
    """A comment of which a part, or all, keeps nothing back."""

    suppression: Suppression
    unused: tuple[str, ...]
    """Those of its names that keep nothing back."""

    @property
    def rest(self) -> str:
        """The comment without what is unused; empty where nothing is left."""
        left = [name for name in self.suppression.names if name not in self.unused]
        return f"# {MARK} ignore[{', '.join(left)}]" if left else ""


@dataclass
class Suppressions:
    """The comments of one text, as its tree and tokens have them."""

    skip_file: bool = False
    suppressions: list[Suppression] = field(default_factory=list)

    @classmethod
    def of(cls, module: Module) -> Suppressions:
        """Those of ``module``; it is looked at token by token only if its text has the mark."""
        found = cls()
        if MARK not in module.source:
            return found
        layout = _Layout(module.source, module.tree)
        for line, column, text in layout.comments:
            for match in COMMENT.finditer(text):
                if match["word"] == "skip-file":
                    found.skip_file = True
                    continue
                place = layout.range(line, column + match.start(), column + match.start() + len(match[0].rstrip()))
                given = [name.strip().replace("_", "-") for name in (match["names"] or ALL).split(",")]
                names = tuple(dict.fromkeys(filter(None, given))) or (ALL,)
                found.suppressions.append(Suppression(place, names, layout.held_by(line)))
        return found


@dataclass(frozen=True)
class _Layout:
    """Where the statements and the comments of a text are."""

    source: str
    tree: ast.Module

    @cached_property
    def lines(self) -> list[str]:
        return Lines(self.source).texts

    @cached_property
    def statements(self) -> list[tuple[int, int]]:
        """First and last line of each simple statement and of each header of a block, in order."""
        return sorted({_lines_of(node) for node in ast.walk(self.tree) if isinstance(node, ast.stmt)})

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        return list(tokenize.generate_tokens(io.StringIO("\n".join(self.lines)).readline))

    @property
    def comments(self) -> Iterator[tuple[int, int, str]]:
        """Line, column in characters, and text of each comment that has the mark."""
        for token in self.tokens:
            if token.type == tokenize.COMMENT and MARK in token.string:
                yield *token.start, token.string

    @cached_property
    def open_lines(self) -> frozenset[int]:
        """The lines that a comment may be put at the end of."""
        return frozenset(token.start[0] for token in self.tokens if token.type in (tokenize.NEWLINE, tokenize.NL))

    def around(self, line: int) -> tuple[int, int] | None:
        """The lines of the statement or header that ``line`` is of."""
        index = bisect.bisect_right(self.statements, (line, len(self.lines) + 1)) - 1
        if index >= 0 and self.statements[index][0] <= line <= self.statements[index][1]:
            return self.statements[index]
        return None

    def held_by(self, line: int) -> tuple[int, int]:
        """The lines that a comment at ``line`` holds for."""
        around = self.around(line)
        if around:
            return around
        index = bisect.bisect_right(self.statements, (line, 0))
        return self.statements[index] if index < len(self.statements) else (line, line)

    def range(self, line: int, start: int, end: int) -> Range:
        """The characters from ``start`` to ``end`` of a line."""
        text = self.lines[line - 1]
        return Range(line, len(text[:start].encode()), line, len(text[:end].encode()))


def _lines_of(statement: ast.stmt) -> tuple[int, int]:
    first = min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", []))])
    inner = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not inner:
        return first, statement.end_lineno or first
    body = inner[0].pattern if isinstance(inner[0], ast.match_case) else inner[0]
    decorators = getattr(body, "decorator_list", [])
    return first, max(statement.lineno, min([body.lineno, *(node.lineno for node in decorators)]) - 1)


def with_ignores(source: str, findings: Iterable[ReportedFinding]) -> str:
    """``source`` with a comment at each of ``findings`` that keeps it back.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as :func:`ast.parse`.
    """
    layout = _Layout(source, ast.parse(source))
    wanted: dict[int, list[str]] = {}
    for finding in findings:
        first, last = layout.around(finding.line) or (finding.line, finding.end_line)
        lines = [*range(finding.line, last + 1), *range(first, finding.line)]
        line = next((line for line in lines if line in layout.open_lines), last)
        names = wanted.setdefault(line, [])
        if finding.codemod not in names:
            names.append(finding.codemod)
    by_line = Lines(source)
    texts = list(by_line.texts)
    for line, names in wanted.items():
        texts[line - 1] = _with_ignore(texts[line - 1], names)
    return "".join(text + end for text, end in zip(texts, by_line.ends, strict=True))


def _with_ignore(line: str, names: list[str]) -> str:
    for match in COMMENT.finditer(line):
        if match["names"] is not None:
            start, end = match.span("names")
            known = [name.strip() for name in match["names"].split(",") if name.strip()]
            return line[:start] + ", ".join(dict.fromkeys([*known, *names])) + line[end:]
    return f"{line.rstrip()}  # {MARK} ignore[{', '.join(names)}]"
