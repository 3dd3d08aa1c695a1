"""The lines of a text, as Python counts them: they end in CR LF, CR or LF."""

from __future__ import annotations

import bisect
import re
from functools import cached_property

__all__ = ["Lines"]

NEWLINE = re.compile("\r\n|\r|\n")


class Lines:
    """Where the lines of ``source`` are."""

    def __init__(self, source: str) -> None:
        self.source = source

    @cached_property
    def texts(self) -> list[str]:
        """The lines, without their ends."""
        return NEWLINE.split(self.source)

    @cached_property
    def ends(self) -> list[str]:
        """What each line ends in; the last in nothing."""
        return [*(match[0] for match in NEWLINE.finditer(self.source)), ""]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of the character at ``offset``."""
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in NEWLINE.finditer(self.source))]
