"""Comma-separated lists and their layout: call arguments and imported names, one a line or many, with their comments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import libcst as cst

__all__ = ["Series", "Whitespace", "has_comment", "has_newline"]

Whitespace = cst.BaseParenthesizableWhitespace
Item = TypeVar("Item", cst.Arg, cst.ImportAlias)


def has_newline(space: Whitespace) -> bool:
    """Whether the next thing starts a new line (after a line end, or a backslash)."""
    return isinstance(space, cst.ParenthesizedWhitespace) or (
        isinstance(space, cst.SimpleWhitespace) and ("\n" in space.value or "\r" in space.value)
    )


def has_comment(space: Whitespace) -> bool:
    return isinstance(space, cst.ParenthesizedWhitespace) and (
        space.first_line.comment is not None or any(line.comment is not None for line in space.empty_lines)
    )


def _without_comments(space: Whitespace) -> Whitespace:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    first = cst.TrailingWhitespace(cst.SimpleWhitespace(""), None, space.first_line.newline)
    return space.with_changes(first_line=first, empty_lines=())


def _join(before: Whitespace, after: Whitespace) -> Whitespace:
    """The space left by an item that has ``before`` in front and ``after`` behind, neither at an end of the list."""
    if isinstance(before, cst.ParenthesizedWhitespace) and isinstance(after, cst.ParenthesizedWhitespace):
        comments = (line for line in after.empty_lines if line.comment is not None)
        return before.with_changes(empty_lines=(*before.empty_lines, *comments), last_line=after.last_line)
    if isinstance(after, cst.ParenthesizedWhitespace):
        return after  # the line goes on without the item: the comment at its end is the line's
    return before if has_newline(before) else after


@dataclass
class Series(Generic[Item]):
    """A list as it is laid out: ``before`` the first item, and ``after`` each item, behind its comma if it has one."""

    items: list[Item]
    before: Whitespace
    after: list[Whitespace]
    trailing_comma: bool

    @property
    def one_a_line(self) -> bool:
        """Whether every item starts a line of its own (the first may stand behind the bracket)."""
        between = self.after[:-1]
        return all(map(has_newline, between)) if between else has_newline(self.before)

    def _separator(self) -> Whitespace:
        if not self.one_a_line:
            return cst.SimpleWhitespace(" ")
        return _without_comments(self.after[0] if len(self.items) > 1 else self.before)

    def insert(self, index: int, item: Item) -> None:
        """Put ``item`` at ``index``, on a line of its own if the others have theirs."""
        if not self.items:
            self._insert_first(item)
            return
        separator = self._separator()
        if index == len(self.items):
            closing = self.after[-1]
            if not self.one_a_line:
                self.after[-1:] = [separator, closing]
            elif isinstance(closing, cst.ParenthesizedWhitespace):
                last_line = separator.last_line if isinstance(separator, cst.ParenthesizedWhitespace) else separator
                ends = closing.with_changes(empty_lines=(), last_line=last_line)
                first = cst.TrailingWhitespace(cst.SimpleWhitespace(""), None, closing.first_line.newline)
                self.after[-1:] = [ends, closing.with_changes(first_line=first)]
            else:
                self.after[-1:] = [separator, closing]
        else:
            previous = self.after[index - 1] if index else self.before
            if isinstance(previous, cst.ParenthesizedWhitespace) and isinstance(separator, cst.ParenthesizedWhitespace):
                # What stands in lines above the next item belongs to that.
                separator = separator.with_changes(empty_lines=previous.empty_lines)
                previous = previous.with_changes(empty_lines=())
                if index:
                    self.after[index - 1] = previous
                else:
                    self.before = previous
            self.after.insert(index, separator)
        self.items.insert(index, item)

    def _insert_first(self, item: Item) -> None:
        self.items.append(item)
        closing = self.before
        if isinstance(closing, cst.ParenthesizedWhitespace):
            deeper = cst.SimpleWhitespace(closing.last_line.value + "    ")
            self.before = closing.with_changes(last_line=deeper)
            self.after = [_without_comments(closing)]
            self.trailing_comma = True
        else:
            self.before = cst.SimpleWhitespace("")
            self.after = [cst.SimpleWhitespace("")]

    def remove(self, index: int) -> None:
        """Take the item out, with the line and the comment that are its own."""
        before = self.after[index - 1] if index else self.before
        after = self.after[index]
        joined = _join(before, after)
        if len(self.items) == 1:
            joined = joined if has_comment(joined) else cst.SimpleWhitespace("")
            self.trailing_comma = False
        elif index == 0 and not isinstance(before, cst.ParenthesizedWhitespace):
            joined = after if has_comment(after) else before
        elif index == 0 and not isinstance(after, cst.ParenthesizedWhitespace):
            joined = before
        elif index == len(self.items) - 1 and not isinstance(after, cst.ParenthesizedWhitespace):
            joined = before if has_comment(before) else after
        if index:
            self.after[index - 1] = joined
        else:
            self.before = joined
        del self.items[index], self.after[index]

    def move_to_front(self, index: int) -> None:
        """Make the item the first; its comment goes along where every item has a line of its own."""
        order = [index, *range(index), *range(index + 1, len(self.items))]
        slots = self.after
        if all(isinstance(space, cst.ParenthesizedWhitespace) for space in slots):
            self.after = [
                slot.with_changes(first_line=slots[old].first_line) for slot, old in zip(slots, order, strict=True)
            ]
        self.items = [self.items[old] for old in order]

    def commas(self) -> list[tuple[Item, cst.Comma | cst.MaybeSentinel, Whitespace]]:
        """Each item with its comma and, where it has none, the space behind it."""
        result: list[tuple[Item, cst.Comma | cst.MaybeSentinel, Whitespace]] = []
        for index, (item, after) in enumerate(zip(self.items, self.after, strict=True)):
            if index < len(self.items) - 1 or self.trailing_comma:
                old = item.comma
                space = old.whitespace_before if isinstance(old, cst.Comma) else cst.SimpleWhitespace("")
                result.append((item, cst.Comma(space, after), cst.SimpleWhitespace("")))
            else:
                result.append((item, cst.MaybeSentinel.DEFAULT, after))
        return result
