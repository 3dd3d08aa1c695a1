"""Which files can hold a finding at all: the codemods' triggers, asked of the bytes before anything is decoded or parsed.

A regular expression is slow to say no. Most of the answers are given by the words that every match of it must hold, which
are looked for first; a word is looked for once in a text, whoever asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardfix.codemod import Codemod

__all__ = ["Prefilter", "may_find", "required_words"]

Words = frozenset[bytes]
LEADING_WORD = re.compile(rb"\\b([A-Za-z_]+)(?![A-Za-z_?*+{|])")
"""A word boundary and a word at the beginning of a trigger."""


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
                    _compiled(trigger)
                except re.error as error:
                    raise ValueError(f"{codemod.codemod_name()}: trigger {trigger!r}: {error}") from None
                triggers[trigger] = None
        self._triggers = tuple(map(_compiled, triggers))

    def passes(self, data: bytes) -> bool:
        """Whether one of the codemods may find something in ``data``."""
        text = _text(data)
        return any(trigger.fires(text) for trigger in self._triggers)


def may_find(codemod: type[Codemod], data: bytes) -> bool:
    """Whether that codemod may find something in ``data``."""
    text = _text(data)
    return any(_compiled(trigger).fires(text) for trigger in codemod.triggers)


class _Text:
    """A text and the answers it has given."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._words: dict[bytes, bool] = {}

    def holds(self, word: bytes) -> bool:
        known = self._words.get(word)
        if known is None:
            known = self._words[word] = word in self.data
        return known


@lru_cache(maxsize=2)
def _text(data: bytes) -> _Text:
    return _Text(data)


@dataclass(frozen=True)
class _Trigger:
    pattern: re.Pattern[bytes]
    required: tuple[Words, ...]
    """Of each of these sets every match holds one word."""
    is_word: bool
    """Whether the pattern is nothing but its word."""

    def fires(self, text: _Text) -> bool:
        for words in self.required:
            for word in words:
                if text.holds(word):
                    break
            else:
                return False
        return self.is_word or self.pattern.search(text.data) is not None


@cache
def _compiled(trigger: bytes) -> _Trigger:
    words = required_words(trigger)
    # A pattern that begins with letters is searched for far faster than one that begins with \b.
    faster = LEADING_WORD.sub(rb"\1(?<=\\b\1)", trigger, count=1) if LEADING_WORD.match(trigger) else trigger
    return _Trigger(re.compile(faster), words, is_word=words == (frozenset({trigger}),))


def required_words(pattern: bytes) -> tuple[Words, ...]:
    """Sets of words such that every match of ``pattern`` holds one of each."""
    from re import _parser  # type: ignore[attr-defined]  # it has no public name

    if re.compile(pattern).flags & re.IGNORECASE:
        return ()
    return tuple(dict.fromkeys(_required(_parser.parse(pattern))))


def _required(items: Iterable[tuple[Any, Any]]) -> Iterator[Words]:
    word = bytearray()
    for operator, argument in (*items, (None, None)):
        name = str(operator)
        if name == "LITERAL":
            word.append(argument)
            continue
        if word:
            yield frozenset({bytes(word)})
            word.clear()
        if name == "SUBPATTERN":
            yield from _required(argument[-1])
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and argument[0] > 0:
            yield from _required(argument[2])
        elif name == "BRANCH":
            yield from _required_of_either(argument[1])


def _required_of_either(branches: Sequence[Iterable[tuple[Any, Any]]]) -> Iterator[Words]:
    """Of each branch its longest words; nothing where one of them may match without any."""
    chosen: set[bytes] = set()
    for branch in branches:
        best = max(_required(branch), key=lambda words: min(map(len, words)), default=None)
        if best is None:
            return
        chosen |= best
    yield frozenset(chosen)
