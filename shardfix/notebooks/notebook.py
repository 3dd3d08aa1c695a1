"""Jupyter notebooks: the code cells as one program, and what becomes of it put back into the JSON.

Of the file only the lines of code that change are written anew; every other byte, of the outputs, the indentation, the
order of the keys, the way characters are escaped, stays as it is.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate
from typing import Any

from shardfix.documents import Document, parsed, syntax_problem
from shardfix.files import FileProblem
from shardfix.lines import NEWLINE, Lines
from shardfix.notebooks.json_sources import JsonSource, members, sources
from shardfix.notebooks.magics import Magics, Mask, unmasked
from shardfix.outcomes import InCell, ReportedFinding

__all__ = ["Cell", "Notebook"]

NEWEST_FORMAT = 4
NAMED_LINE = re.compile(r"\bline (\d+)\b")
"""How messages name a line of the file that they are about."""
BOM = "\ufeff"
BORDER = "# --- cell"
"""What a line between two cells of the program begins with."""
PLACEHOLDER = "__magic"
WORD = re.compile(r"\w+|\W")
MOST_WORDS = 2_000
"""A line of more is written anew as a whole: to compare them takes the square of their number."""


@dataclass(frozen=True)
class Cell:
    """One cell of code."""

    number: int
    """Its place among all cells of the notebook, from 1."""
    source: str
    """As it is written."""
    code: str
    """The same without magics."""
    masks: tuple[Mask, ...]
    json: JsonSource = field(repr=False)
    """The same in the file."""


@dataclass(frozen=True)
class Notebook(Document):
    """A notebook in format 4. Cells of another kernel than Python's are no code."""

    json: str = field(repr=False)
    cells: tuple[Cell, ...]
    border: str = BORDER
    """What only lines between cells begin with."""

    @classmethod
    def of(cls, data: bytes) -> Notebook:
        """The notebook whose file holds ``data``.

        Raises:
            FileProblem: it is not JSON, or not a notebook, or in a format that is not known.
        """
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise FileProblem(f"cannot be decoded as {error.encoding}: {error.reason}", line) from None
        begin = len(BOM) if text.startswith(BOM) else 0
        try:
            content = json.loads(text[begin:])
        except json.JSONDecodeError as error:
            raise FileProblem(f"not a notebook: no JSON ({error.msg})", error.lineno) from None
        except RecursionError:
            raise FileProblem("not a notebook: JSON that is nested too deeply") from None
        written = list(_code_of(text, begin, content))
        together = "\n".join(source.value for _, source in written)
        magics = Magics(_absent(PLACEHOLDER, together))
        cells = [Cell(number, source.value, *magics.mask(source.value), source) for number, source in written]
        return cls(text, tuple(cells), _absent(BORDER, together))

    @cached_property
    def text(self) -> str:
        return self._joined(cell.code for cell in self.cells)

    @cached_property
    def shown(self) -> str:
        return self._joined(cell.source for cell in self.cells)

    def _joined(self, sources: Iterable[str]) -> str:
        pieces: list[str] = []
        for cell, source in zip(self.cells, sources, strict=True):
            if pieces:
                pieces.append(f"\n{self.border} {cell.number}\n")
            pieces.append(source)
        return "".join(pieces)

    def check(self) -> None:
        for cell in self.cells:
            try:
                parsed(cell.code)
            except SyntaxError as error:
                wrong, line = syntax_problem(error), min(error.lineno or 1, len(Lines(cell.source).texts))
            except ValueError as error:
                wrong, line = f"cannot be parsed: {error}", 1
            else:
                continue
            place = f"cell {cell.number}, line {line}"
            raise FileProblem(f"{wrong} ({place})", self._line_in_file(cell, line))

    def located(self, findings: Iterable[ReportedFinding]) -> tuple[ReportedFinding, ...]:
        return tuple(
            replace(
                finding,
                message=self._with_cells(finding.message),
                reason=self._with_cells(finding.reason),
                in_cell=self._place(finding),
            )
            for finding in findings
        )

    def _with_cells(self, sentence: str) -> str:
        """``sentence`` with the lines of the program that it names as lines of cells."""
        return NAMED_LINE.sub(lambda match: self._line_of_cell(int(match[1])), sentence)

    def _line_of_cell(self, line: int) -> str:
        cell, first = self._cell_at(line)
        return f"line {line - first + 1} of cell {cell.number}"

    def _cell_at(self, line: int) -> tuple[Cell, int]:
        """The cell that a line of the program is in, and the line that this cell begins at."""
        index = max(0, bisect.bisect_right(self._first_lines, line) - 1)
        return self.cells[index], self._first_lines[index]

    def line_of_program(self, cell: Cell, line: int) -> int:
        """The line of the program that a line of a cell, from 1, has become."""
        return self._first_lines[self.cells.index(cell)] + line - 1

    def _place(self, finding: ReportedFinding) -> InCell:
        cell, first = self._cell_at(finding.line)
        before = first - 1
        line = finding.line - before
        return InCell(
            cell.number,
            line,
            self._column(finding.line, finding.column),
            finding.end_line - before,
            self._column(finding.end_line, finding.end_column),
            self._line_in_file(cell, line),
            finding.message,
        )

    @cached_property
    def _first_lines(self) -> list[int]:
        """The line of the program that each cell begins at."""
        return [1, *(number + 1 for number, line in enumerate(self._texts, 1) if line.startswith(self.border))]

    def _column(self, line: int, column: int) -> int:
        """A column of the program as one of the cell: a magic may stand before it."""
        read, written = self._texts[line - 1], self._shown_texts[line - 1]
        return column if read == written else max(1, column - len(read) + len(written))

    @cached_property
    def _texts(self) -> list[str]:
        return Lines(self.text).texts

    @cached_property
    def _shown_texts(self) -> list[str]:
        return Lines(self.shown).texts

    def _line_in_file(self, cell: Cell, line: int) -> int:
        starts = [0, *(match.end() for match in NEWLINE.finditer(cell.source))]
        return self.json.count("\n", 0, cell.json.offset_of(starts[line - 1])) + 1

    def with_text(self, text: str) -> bytes:
        pieces: list[str] = []
        done = 0
        for cell, code in zip(self.cells, self._codes_in(text), strict=True):
            if code == cell.code:
                continue
            source = unmasked(_without_new_end(code, cell.code), cell.masks)
            if source is None:
                raise FileProblem(f"not repaired: the repair would change a magic command (cell {cell.number})")
            new = cell.json.edited(_edits(cell.source, source), ascii_only=self.json.isascii())
            pieces += self.json[done : cell.json.start], new
            done = cell.json.end
        return "".join([*pieces, self.json[done:]]).encode()

    def _codes_in(self, text: str) -> list[str]:
        """The cells of a program that was made from this one."""
        numbers = [str(cell.number) for cell in self.cells[1:]]
        pieces = re.split(rf"^{re.escape(self.border)} (\d+)\n", text, flags=re.MULTILINE)
        if pieces[1::2] != numbers:
            raise FileProblem("not repaired: a repair would join two cells")
        *codes, last = pieces[0::2]
        return [*(code.removesuffix("\n") for code in codes), last]


def _code_of(text: str, begin: int, content: Any) -> Iterator[tuple[int, JsonSource]]:
    """The source of each cell of Python, with the number of the cell."""
    if not isinstance(content, dict) or not isinstance(version := content.get("nbformat"), int):
        raise FileProblem("not a notebook: JSON without nbformat")
    if version < NEWEST_FORMAT:
        hint = "`jupyter nbconvert --to notebook --inplace` brings it up to date"
        raise FileProblem(f"a notebook in format {version}, which is too old; {hint}")
    if version > NEWEST_FORMAT:
        raise FileProblem(f"a notebook in format {version}, which is not known")
    if not isinstance(content.get("cells"), list):
        raise FileProblem("not a notebook: it has no list of cells")
    if _language(content.get("metadata")) not in ("python", "ipython", "python3"):
        return
    for number, (cell, source) in enumerate(sources(text, members(text, begin)["cells"]), 1):
        if not isinstance(cell, dict) or "cell_type" not in cell:
            raise FileProblem(f"not a notebook: cell {number} has no type")
        if cell["cell_type"] == "code":
            if source is None:
                raise FileProblem(f"not a notebook: cell {number} has no source")
            yield number, source


def _language(metadata: Any) -> str:
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        value = metadata.get(key) if isinstance(metadata, dict) else None
        if isinstance(value, dict) and isinstance(value.get(name), str):
            return str(value[name]).lower()
    return "python"


def _absent(word: str, text: str) -> str:
    """``word``, made longer until ``text`` does not hold it."""
    while word in text:
        word += word[-1]
    return word


def _without_new_end(new: str, old: str) -> str:
    """A cell whose last line had no end still has none."""
    return new if old.endswith(("\r", "\n")) else new.rstrip("\r\n")


def _edits(old: str, new: str) -> Iterator[tuple[int, int, str]]:
    """What turns ``old`` into ``new``: whole lines that come or go, and parts of lines that change; the first edit first."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = list(accumulate(map(len, before), initial=0))
    for tag, first, last, new_first, new_last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        pairs = min(last - first, new_last - new_first)
        for place in range(pairs):
            yield from _changed_parts(starts[first + place], before[first + place], after[new_first + place])
        rest = starts[first + pairs], starts[last], "".join(after[new_first + pairs : new_last])
        if rest[0] < rest[1] or rest[2]:
            yield rest


def _changed_parts(start: int, old: str, new: str) -> Iterator[tuple[int, int, str]]:
    """What turns a line into another, word by word."""
    before, after = WORD.findall(old), WORD.findall(new)
    if max(len(before), len(after)) > MOST_WORDS:
        yield start, start + len(old), new
        return
    starts = list(accumulate(map(len, before), initial=start))
    for tag, first, last, new_first, new_last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            yield starts[first], starts[last], "".join(after[new_first:new_last])
