"""Edits of whole statements: what a person would type, with the indentation, semicolons and line ends of the place."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix.edits.place import Refusal, newline_at, start_of

if TYPE_CHECKING:
    from shardfix.codemod import Range
    from shardfix.semantics.module import Module

__all__ = [
    "DefinitionPlace",
    "Lines",
    "block_of",
    "definition_place",
    "insertion_after",
    "insertion_before",
    "is_header_statement",
    "line_end",
    "removal",
    "starts_line",
]

Lines = tuple[int, int, str]
"""A splice: start, end, text."""

_REST_OF_LINE = re.compile(r"[ \t\f]*;?[ \t\f]*(#[^\r\n]*)?")
_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANK_LINE = re.compile(r"[ \t\f]*(\r\n|\r|\n)")


def _line_start(source: str, offset: int) -> int:
    return max(source.rfind("\n", 0, offset), source.rfind("\r", 0, offset)) + 1


def start_offset(module: Module, node: ast.stmt) -> int:
    """Where the text of the statement starts; the ``@`` of its first decorator, if it has one."""
    start = module.offset(*start_of(node))
    if getattr(node, "decorator_list", None):
        start = module.source.rindex("@", 0, start)
    return start


def starts_line(module: Module, node: ast.stmt) -> bool:
    """Whether nothing but indentation stands before the statement in its line (nor a backslash in the line before)."""
    start = start_offset(module, node)
    first = _line_start(module.source, start)
    before = module.source[:first].rstrip("\r\n")
    return not module.source[first:start].strip(" \t\f") and not (first and before.endswith("\\"))


def indentation(module: Module, node: ast.stmt) -> str:
    """The white space before the statement in its line."""
    start = start_offset(module, node)
    return module.source[_line_start(module.source, start) : start].rpartition("\f")[2]


def block_of(module: Module, node: ast.stmt) -> list[ast.stmt]:
    """The list of statements that ``node`` belongs to."""
    parent = module.parent(node)
    for _, value in ast.iter_fields(parent) if parent else ():
        if isinstance(value, list) and any(item is node for item in value):
            return value
    raise Refusal(f"line {node.lineno}: the statement has no block")


def _is_elif(module: Module, node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and module.source.startswith("elif", start_offset(module, node))


def _parsed(code: str) -> list[ast.stmt]:
    try:
        return ast.parse(code).body
    except (SyntaxError, ValueError) as error:
        raise Refusal(f"the new code is not a statement: {code}") from error


def _is_one_liner(code: str) -> bool:
    compound = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.AsyncFor, ast.While, ast.With)
    body = _parsed(code)
    return "\n" not in code.strip() and not isinstance(body[0] if body else None, (*compound, ast.Try, ast.Match))


def indented(code: str, indent: str, newline: str) -> str:
    """``code`` with ``indent`` before each line but the first, blank lines and the inside of strings excepted."""
    inside: set[int] = set()
    for statement in _parsed(code):
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None:
                inside.update(range(node.lineno + 1, node.end_lineno + 1))
    lines = code.strip("\r\n").replace("\r\n", "\n").split("\n")
    first, *others = enumerate(lines, start=1)
    return first[1] + "".join(
        newline + (text if not text.strip() or number in inside else indent + text) for number, text in others
    )


def insertion_before(module: Module, node: ast.stmt, code: str) -> Lines:
    """``code`` in lines of its own before ``node``, or in its line where it shares that with others.

    Raises:
        Refusal: several lines cannot stand there, or nothing can (before an ``elif``).
    """
    if _is_elif(module, node):
        raise Refusal(f"line {node.lineno}: nothing can be inserted before an elif")
    start = start_offset(module, node)
    newline = newline_at(module.source, start)
    if starts_line(module, node):
        indent = indentation(module, node)
        return start, start, indented(code, indent, newline) + newline + indent
    if not _is_one_liner(code):
        raise Refusal(f"line {node.lineno}: the statement shares its line with others")
    return start, start, code.strip() + "; "


def last_of_line(module: Module, node: ast.stmt) -> ast.stmt:
    """The last statement of the block in the (logical) line that ``node`` ends in."""
    block = block_of(module, node)
    index = next(index for index, item in enumerate(block) if item is node)
    while index + 1 < len(block) and block[index + 1].lineno == block[index].end_lineno:
        index += 1
    return block[index]


def line_end(module: Module, node: ast.stmt) -> int:
    """The offset of the end of the line that the statement ends in, its comment included, the line end not."""
    end = module.span(last_of_line(module, node))[1]
    found = _LINE_END.search(module.source, end)
    return found.start() if found else len(module.source)


def insertion_after(module: Module, node: ast.stmt, code: str) -> Lines:
    """``code`` in lines of its own after ``node``; behind a semicolon where more than imports follows in its line."""
    block = block_of(module, node)
    index = next(index for index, item in enumerate(block) if item is node)
    following = block[index + 1] if index + 1 < len(block) else None
    same_line = (
        following is not None
        and following.lineno == node.end_lineno
        and not isinstance(following, ast.Import | ast.ImportFrom)
    )
    if same_line or not starts_line(module, block_of(module, node)[0]):
        if not _is_one_liner(code):
            raise Refusal(f"line {node.lineno}: the statement shares its line with others")
        end = module.span(node)[1]
        return end, end, "; " + code.strip()
    end = line_end(module, node)
    newline = newline_at(module.source, module.span(node)[0])
    first = block_of(module, node)[0]
    indent = indentation(module, node if starts_line(module, node) else first)
    return end, end, newline + indent + indented(code, indent, newline)


def removal(module: Module, node: ast.stmt, leaving: list[ast.stmt] | None = None) -> Lines:
    """Takes ``node`` out with its line; ``pass`` takes its place where nothing else is left in the block.

    Args:
        leaving: the other statements of the block that go too.
    """
    if _is_elif(module, node):
        raise Refusal(f"line {node.lineno}: an elif cannot be removed by itself")
    block = block_of(module, node)
    start, end = start_offset(module, node), module.span(node)[1]
    index = next(index for index, item in enumerate(block) if item is node)
    gone = [node, *(leaving or ())]
    stays = [item for item in block if not any(item is other for other in gone)]
    if not stays and block[0] is node and not isinstance(module.parent(node), ast.Module):
        return start, end, "pass"
    following = block[index + 1] if index + 1 < len(block) else None
    if following is not None and following.lineno == node.end_lineno:
        return start, start_offset(module, following), ""
    if not starts_line(module, node):
        if index == 0:
            return start, end, "pass"
        return module.span(block[index - 1])[1], end, ""
    rest = _REST_OF_LINE.match(module.source, end)
    end = rest.end() if rest else end
    found = _LINE_END.match(module.source, end)
    if found is None and end < len(module.source):
        return start, module.span(node)[1], "pass"
    end = found.end() if found else end
    start = _line_start(module.source, start)
    opens = not any(item is stays[0] for item in block[:index]) if stays else True
    return start, _skip_blank_lines(module.source, start, end, opens), ""


def _skip_blank_lines(source: str, start: int, end: int, opens: bool) -> int:
    """Where to go on when the lines from ``start`` to ``end`` go, so that their blank lines do not add up.

    ``opens`` says whether they are the first of their block, which begins with no blank line.
    """
    before = 0
    lines = _LINE_END.split(source[max(0, start - 400) : start])[:-1]
    while before < len(lines) and not lines[-1 - before].strip():
        before += 1
    if start == 0 or (opens and lines and not lines[-1].lstrip().startswith("#")):
        before = len(source)
    while before:
        blank = _BLANK_LINE.match(source, end)
        if blank is None:
            break
        end = blank.end()
        before -= 1
    return end


def is_header_statement(node: ast.stmt) -> bool:
    """A docstring or a ``__future__`` import: what must stay first."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__" and not node.level
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@dataclass(frozen=True)
class DefinitionPlace:
    """Where a new function goes, with the line ends around it."""

    offset: int
    before: str
    after: str


def definition_place(module: Module, use: ast.stmt) -> DefinitionPlace:
    """The place for a new function: after the imports at the head of the module, and before ``use``, a statement of its body."""
    body = module.tree.body
    limit = next(index for index, item in enumerate(body) if item is use)
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    limit = next((index for index, item in enumerate(body[:limit]) if isinstance(item, definitions)), limit)
    heads = [index for index, item in enumerate(body[:limit]) if _is_head(item)]
    if not heads:
        start = start_offset(module, body[0])
        newline = newline_at(module.source, start)
        return DefinitionPlace(start, "", newline * 3)
    anchor = last_of_line(module, body[heads[-1]])
    if any(anchor is item for item in body[limit:]):
        raise Refusal(f"line {use.lineno}: the code shares its line with an import")
    offset = line_end(module, anchor)
    newline = newline_at(module.source, offset)
    blank = 0
    position = offset
    while (found := _BLANK_LINE.match(module.source, position)) is not None:
        blank += 1
        position = found.end()
    missing = max(0, 3 - blank) if module.source[position:].strip() else 0
    return DefinitionPlace(offset, newline * 3, newline * missing)


def _is_head(node: ast.stmt) -> bool:
    """A docstring, an import, or a conditional statement that does nothing but import."""
    if is_header_statement(node) or isinstance(node, ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.If):
        return all(map(_is_head, [*node.body, *node.orelse]))
    if isinstance(node, ast.Try):
        handled = [inner for handler in node.handlers for inner in handler.body]
        return any(map(_is_head, node.body)) and all(
            _is_head(inner) or isinstance(inner, ast.Assign | ast.Pass)
            for inner in [*node.body, *handled, *node.orelse, *node.finalbody]
        )
    return False


def comment_splice(module: Module, place: Range, text: str) -> tuple[int, int, str]:
    """What puts ``text`` in the place of a comment: where the change begins and ends, and the new text."""
    start, end = module.span(place)
    source = module.source
    if source[start : start + 1] != "#":
        raise Refusal(f"line {place.line}: there is no comment at this position")
    if text:
        return start, end, text
    if source[end : end + 1] not in ("", "\r", "\n"):  # more of the comment follows, and moves up
        blanks = len(source[end:]) - len(source[end:].lstrip(" \t"))
        return start, end + blanks, ""
    before = source[:start].rstrip(" \t\f")
    if before and before[-1] not in "\r\n":
        return len(before), end, ""
    newline = "\r\n" if source.startswith("\r\n", end) else source[end : end + 1]
    return len(before), end + len(newline), ""
