"""HTML that is put together from elements, so that nothing gets into it unescaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

__all__ = ["Markup", "element", "joined"]

UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, of which HTML allows few; those that turn the direction of writing, by which code can lie; and the
bytes of file names that are no text."""

VOID = frozenset({"br", "col", "input"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | int | bool | None) -> Markup:
    """An element.

    Args:
        name: its tag.
        children: what is in it; all that is not :class:`Markup` is escaped.
        attributes: underscores in names stand for hyphens, one at the end for nothing (``class_``); True is an attribute
            without a value, False and None are left out.
    """
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_escaped(str(value))}"')
        for key, value in attributes.items()
        if value is not False and value is not None
    )
    return Markup(f"<{name}{given}>" + ("" if name in VOID else f"{joined(children)}</{name}>"))


def joined(parts: Iterable[str], between: str = "") -> Markup:
    """The parts, one after the other; those that are not :class:`Markup` are escaped."""
    return Markup(between.join(part if isinstance(part, Markup) else _escaped(part) for part in parts))


def _escaped(text: str) -> str:
    """``text`` as it can stand in a page, with a sign for what would not be seen."""
    return html.escape(UNSEEN.sub(lambda match: _sign(ord(match[0])), text))


def _sign(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)
    return "\ufffd" if 0xD800 <= code < 0xE000 else f"[U+{code:04X}]"
