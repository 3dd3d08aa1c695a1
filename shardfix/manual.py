"""The manual page of a codemod, taken apart: its first paragraph, and the indented text under each heading."""

from __future__ import annotations

import textwrap

__all__ = ["HEADINGS", "sections", "summary"]

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
