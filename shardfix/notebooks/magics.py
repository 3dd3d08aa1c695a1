"""The lines of a notebook that are IPython's and not Python's, in words that Python can parse, and back.

A magic becomes a call of a name that nothing binds, on as many lines, with the names that it mentions as arguments: what
it does is unknown, and what it uses is used.
"""

from __future__ import annotations

import ast
import itertools
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Magics", "Mask", "unmasked"]

BLANKS = re.compile(r"[ \t\f]*")
MAY_HOLD_MAGIC = re.compile(r"^[ \t]*(?:[%!?,;/]|pip|conda|mamba|micromamba|uv)|\?[ \t]*\r?$|=[ \t]*[%!]", re.MULTILINE)
"""A quick look: most cells have none."""
TOKEN = re.compile(
    r"""(?P<string>'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\\r\n])*'|"(?:\\.|[^"\\\r\n])*")
    |(?P<comment>\#[^\r\n]*)|(?P<open>[([{])|(?P<close>[)\]}])|(?P<joined>\\(?:\r\n|\r|\n))|(?P<newline>\r\n|\r|\n)|.""",
    re.DOTALL | re.VERBOSE,
)
PHYSICAL_LINES = r"(?:[^\r\n]*\\(?:\r\n|\r|\n))*[^\r\n]*"
"""To the end of a line, further lines included that a backslash joins to it."""

LINE = re.compile(
    rf"(?:[%!?,;/]|(?:pip3?|conda|mamba|micromamba|uv)[ \t]+(?:install|uninstall|create|update|add|pip)\b){PHYSICAL_LINES}"
)
"""A line that begins as none of Python does; ``pip install`` needs no ``%``."""
HELP = re.compile(r"%{0,2}[^\W\d][\w.*]*(?:\[\w+\])?\?{1,2}[ \t]*(?=[\r\n]|$)")
ASSIGNED = re.compile(rf"(?P<target>[^\W\d][\w.,\[\]* \t]*=[ \t]*)(?P<magic>[%!]{PHYSICAL_LINES})")
TIMED = re.compile(r"%(?P<magic>time|timeit|prun)[ \t]+(?:-\w+[ \t]+(?:\d+[ \t]+)?)*(?=(?P<code>[^\r\n\s-][^\r\n]*))")
"""Magics that run what follows as it stands."""
CELL = re.compile(r"\s*%%(?P<magic>\w*)[^\r\n]*")
CELLS_OF_PYTHON = frozenset({"capture", "debug", "prun", "time"})
"""Cell magics whose cell runs as any other; ``%%timeit`` keeps what it binds to itself."""

NAME = re.compile(r"(?<![\w.%-])[^\W\d]\w*")
WORDS_ONLY = re.compile(
    r"%(?:autoreload|cd|conda|config|env|load_ext|mamba|matplotlib|pip|pylab|reload_ext|set_env|tensorflow_version|uv)\b"
)
"""Magics that take no names of Python."""
EXPANDED = re.compile(r"\$[^\W\d]\w*|\{[^{}]*\}")
"""What IPython puts into a command of the shell."""


@dataclass(frozen=True)
class Mask:
    """One magic."""

    written: str
    """As it stands in the cell."""
    read: str
    """What stands for it; there is no other like it in the notebook."""


class Magics:
    """The magics of one notebook.

    Args:
        placeholder: what the names that stand for them begin with; nothing else in the notebook holds it.
    """

    def __init__(self, placeholder: str) -> None:
        self._names = (f"{placeholder}_{number}__" for number in itertools.count())

    def mask(self, source: str) -> tuple[str, tuple[Mask, ...]]:
        """The cell ``source`` as Python, with as many lines, and the masks in their order."""
        if not MAY_HOLD_MAGIC.search(source):
            return source, ()
        head = CELL.match(source)
        if head is None:
            return self._masked(source, _line_magics(source))
        if head["magic"] in CELLS_OF_PYTHON:
            rest = [(start, end) for start, end in _line_magics(source) if start > head.end()]
            return self._masked(source, [head.span(), *rest])
        return self._masked(source, [(0, len(source))])

    def _masked(self, source: str, places: list[tuple[int, int]]) -> tuple[str, tuple[Mask, ...]]:
        pieces: list[str] = []
        masks: list[Mask] = []
        done = 0
        for start, end in places:
            masks.append(self._mask(source[start:end], prefix=end < len(source) and source[end] not in "\r\n"))
            pieces += source[done:start], masks[-1].read
            done = end
        return "".join([*pieces, source[done:]]), tuple(masks)

    def _mask(self, written: str, *, prefix: bool) -> Mask:
        if prefix:
            return Mask(written, f"{next(self._names)}; ")
        lines = "".join(re.findall(r"\r\n|\r|\n", written))
        return Mask(written, f"{next(self._names)}({', '.join(_mentioned(written))}{lines})")


def _mentioned(magic: str) -> list[str]:
    """The names of Python that a magic may use."""
    is_command = magic[0] == "!" or (magic[0].isalpha() and "?" not in magic) or WORDS_ONLY.match(magic)
    code = " ".join(EXPANDED.findall(magic)) if is_command else magic
    return [name for name in dict.fromkeys(NAME.findall(code)) if not keyword.iskeyword(name)]


def _line_magics(source: str) -> list[tuple[int, int]]:
    """Where the magics of a cell are that do not take all of it."""
    found: list[tuple[int, int]] = []
    position, depth, begins = 0, 0, True
    while position < len(source):
        if begins:
            begins = False
            position = BLANKS.match(source, position).end()  # type: ignore[union-attr]  # it always matches
            place = _magic_at(source, position)
            if place is not None:
                found.append(place)
                position = place[1]
                continue
        token = TOKEN.match(source, position)
        if token is None:
            break
        depth = max(0, depth + (token.lastgroup == "open") - (token.lastgroup == "close"))
        begins = token.lastgroup == "newline" and not depth
        position = token.end()
    return found


def _magic_at(source: str, position: int) -> tuple[int, int] | None:
    """Where the magic is of the statement that begins at ``position``."""
    timed = TIMED.match(source, position)
    if timed and _is_statement(timed["code"], expression=timed["magic"] == "timeit"):
        return timed.span()
    for pattern in (HELP, LINE):
        if match := pattern.match(source, position):
            return match.span()
    assigned = ASSIGNED.match(source, position)
    return assigned.span("magic") if assigned else None


def _is_statement(code: str, *, expression: bool) -> bool:
    try:
        ast.parse(code, mode="eval" if expression else "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def unmasked(text: str, masks: Iterable[Mask]) -> str | None:
    """``text`` with each magic as it was; None where one of them is not there any more."""
    for mask in masks:
        before, found, after = text.partition(mask.read)
        if not found or mask.read in after:
            return None
        text = before + mask.written + after
    return text
