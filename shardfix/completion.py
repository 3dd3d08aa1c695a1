"""What a shell offers after an option: names of codemods and errors, versions of JAX. Asked for only when Tab is pressed."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["codemods", "pages", "versions"]

OLDEST_MINOR = 4
"""Of the JAX that is the oldest to migrate from."""


def codemods(incomplete: str) -> Iterator[tuple[str, str]]:
    """The codemods for the last place of a list with commas, each with the places before it, and what it finds."""
    before, comma, _ = incomplete.rpartition(",")
    named = before.split(",")
    for name, finds in _codemods():
        if name not in named:
            yield before + comma + name, finds


def pages(incomplete: str) -> Iterator[tuple[str, str]]:
    """What ``--explain`` has a page of, with a sentence on it."""
    from shardfix.tracebacks.known import table

    yield from _codemods()
    for error in table().errors:
        yield error.name, _short(error.title)


def versions(incomplete: str) -> Iterator[str]:
    """The minor versions of JAX that are known, the oldest first."""
    from shardfix.target import NEWEST_JAX

    major, _, newest = NEWEST_JAX.partition(".")
    return (f"{major}.{minor}" for minor in range(OLDEST_MINOR, int(newest) + 1))


def _codemods() -> Iterator[tuple[str, str]]:
    from shardfix.codemod import all_codemods
    from shardfix.manual import summary

    for name, codemod in all_codemods().items():
        yield name, _short(summary(codemod.manual_page()).partition(" (Found from")[0])


def _short(sentence: str) -> str:
    """One line in any terminal: zsh shows it beside the word, and takes backquotes for a command."""
    from textwrap import shorten

    return shorten(sentence.replace("`", ""), 60, placeholder=" ...")
