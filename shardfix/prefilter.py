"""Which files can hold a finding at all: one regular expression over bytes, asked before anything is decoded or parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardfix.codemod import Codemod

__all__ = ["Prefilter", "may_find"]


class Prefilter:
    """The union of the triggers of ``codemods``.

    Raises:
        ValueError: a trigger is not a regular expression.
    """

    def __init__(self, codemods: Iterable[type[Codemod]]) -> None:
        triggers: dict[bytes, None] = {}
        for codemod in codemods:
            for trigger in codemod.triggers:
                try:
                    re.compile(trigger)
                except re.error as error:
                    raise ValueError(f"{codemod.codemod_name()}: trigger {trigger!r}: {error}") from None
                triggers[trigger] = None
        self._pattern = _of_triggers(tuple(triggers)) if triggers else None

    def passes(self, data: bytes) -> bool:
        """Whether one of the codemods may find something in ``data``."""
        return self._pattern is not None and self._pattern.search(data) is not None


def may_find(codemod: type[Codemod], data: bytes) -> bool:
    """Whether that codemod may find something in ``data``."""
    return _of_triggers(codemod.triggers).search(data) is not None if codemod.triggers else False


@cache
def _of_triggers(triggers: tuple[bytes, ...]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(b"(?:%b)" % trigger for trigger in triggers))
