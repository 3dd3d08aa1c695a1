"""The table of recognised errors, ``errors.toml``, as plain data."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["KnownError", "Pattern", "Table", "explain", "table"]


@dataclass(frozen=True)
class Pattern:
    """One way in which an error shows itself; the named groups are fields of the evidence."""

    type: re.Pattern[str]
    """Against the whole class name of the exception."""
    message: re.Pattern[str]
    """Against the start of its message, white space collapsed."""
    item: re.Pattern[str] | None
    """Found in the message once for each place that is at fault."""
    frame: re.Pattern[str] | None
    """Found in the source of the innermost frames, where the message alone does not decide."""
    fields: tuple[tuple[str, str], ...]
    """Fields that the match itself settles."""


@dataclass(frozen=True)
class KnownError:
    """One recognised error."""

    name: str
    """Short and stable: the ``kind`` of the evidence, and the argument of ``--explain``."""
    title: str
    says: str
    """The words by which JAX reports it."""
    means: str
    """What it means, in a paragraph for somebody who meets it for the first time."""
    summary: tuple[str, ...]
    """Sentences about the case at hand, with ``{fields}``, the most telling first."""
    repairs: tuple[str, ...]
    patterns: tuple[Pattern, ...]


@dataclass(frozen=True)
class Table:
    """All recognised errors, in the order in which they are tried."""

    errors: tuple[KnownError, ...]
    internal_functions: frozenset[str]
    """Names of JAX's own functions that its messages put in the place of the user's."""
    since: Mapping[str, str]
    """The JAX version that brought a name."""

    def get(self, name: str) -> KnownError | None:
        """The error of that name."""
        return next((error for error in self.errors if error.name == name), None)


@cache
def table() -> Table:
    """The table, read once."""
    data = tomllib.loads(files(__package__).joinpath("errors.toml").read_text(encoding="utf-8"))
    errors = tuple(map(_known_error, data["error"]))
    return Table(errors, frozenset(data["internal_functions"]), data["since"])


def _known_error(entry: Mapping[str, Any]) -> KnownError:
    return KnownError(
        name=entry["name"],
        title=entry["title"],
        says=entry["says"],
        means=" ".join(entry["means"].split()),
        summary=tuple(entry["summary"]),
        repairs=tuple(entry["repairs"]),
        patterns=tuple(map(_pattern, entry["match"])),
    )


def _pattern(entry: Mapping[str, Any]) -> Pattern:
    def compiled(key: str) -> re.Pattern[str] | None:
        return re.compile(entry[key]) if key in entry else None

    return Pattern(
        re.compile(entry["type"]),
        re.compile(entry["message"]),
        compiled("item"),
        compiled("frame"),
        tuple(entry.get("fields", {}).items()),
    )


def explain(error: KnownError, codemods: Sequence[str] = (), width: int = 88) -> str:
    """The manual page of an error, as plain text; ``codemods`` are the names of those that act on it."""

    def paragraph(text: str, indent: str = "", first: str | None = None) -> str:
        start = indent if first is None else first
        return textwrap.fill(
            text, width, initial_indent=start, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )

    parts = [
        f"{error.name}: {error.title}",
        "JAX says\n" + paragraph(error.says, "    "),
        "It means\n" + paragraph(error.means, "    "),
        "Repairs\n" + "\n".join(paragraph(repair, "      ", "    - ") for repair in error.repairs),
    ]
    if codemods:
        parts.append("Codemods\n" + paragraph(", ".join(codemods), "    "))
    return "\n\n".join(parts) + "\n"
