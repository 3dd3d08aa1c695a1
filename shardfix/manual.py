"""The manual page of a codemod, taken apart: its first paragraph, and the indented text under each heading."""

from __future__ import annotations

import difflib
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardfix.codemod import Codemod

__all__ = ["HEADINGS", "markdown", "sections", "summary"]

HEADINGS = ("What JAX says", "Why", "Before", "After", "When it does not fix")
"""The headings of a page, in order; a codemod adds others only for what these have no room for."""


def summary(page: str) -> str:
    """The first paragraph, in one line."""
    return " ".join(page.partition("\n\n")[0].split())


def sections(page: str) -> dict[str, str]:
    """The text under each heading, with its indentation taken away and a newline at its end."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in page.partition("\n\n")[2].splitlines():
        if line and not line.startswith(" "):
            heading = line
        elif heading:
            found.setdefault(heading, []).append(line)
    return {name: textwrap.dedent("\n".join(lines)).strip("\n") + "\n" for name, lines in found.items()}


CODE = frozenset({"What JAX says", "What shardfix says", "Before", "After"})
"""The headings under which text stands that is no prose."""


def markdown(codemod: type[Codemod]) -> str:
    """The manual page as Markdown, with the example as a diff."""
    page = codemod.manual_page()
    found = sections(page)
    parts = [summary(page)]
    if versions := _versions(codemod):
        parts.append(f"*{versions}*")
    for heading, body in found.items():
        if heading == "After":
            continue  # shown with what was before
        if heading == "Before" and "After" in found:
            parts += ["**The repair**", f"```diff\n{_diff(body, found['After'])}```"]
        elif heading in CODE:
            parts += [f"**{heading}**", f"```text\n{body}```"]
        else:
            parts += [f"**{heading}**", body.rstrip()]
    return "\n\n".join(parts) + "\n"


def _versions(codemod: type[Codemod]) -> str:
    words = {
        "Deprecated in JAX": codemod.deprecated,
        "removed in JAX": codemod.removed,
        "what replaces it is there since JAX": codemod.replacement_since,
    }
    sentence = ", ".join(f"{word} {version}" for word, version in words.items() if version)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), n=100)
    return "".join([*lines][3:])
