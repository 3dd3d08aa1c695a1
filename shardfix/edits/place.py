"""Where an edit stands: the node of a range, the parentheses around it, and what a replacement needs to fit there."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from shardfix.codemod import Range
from shardfix.semantics.scopes import iter_children

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardfix.semantics.module import Module

__all__ = [
    "HOLE",
    "Grouping",
    "Refusal",
    "as_span",
    "context_of",
    "grouping_of",
    "locate",
    "needs_parentheses",
    "newline_at",
    "start_of",
]

Node = TypeVar("Node", bound=ast.AST)

HOLE = "__shardfix_hole__"
"""The name that stands for the code to come in a template."""

_COMMENT = re.compile(r"#[^\r\n]*")
_LINE_END = re.compile(r"\r\n|\r|\n")


class Refusal(Exception):
    """An edit that cannot be carried out; the message is the reason, in words for the user."""


def start_of(node: ast.AST) -> tuple[int, int]:
    """The line and column where ``node`` starts, its decorators included."""
    decorators = getattr(node, "decorator_list", None)
    first: ast.AST = decorators[0] if decorators else node
    return first.lineno, first.col_offset  # type: ignore[attr-defined]


def locate(module: Module, at: Range, kind: type[Node]) -> Node:
    """The outermost node of this type with exactly the range ``at``.

    Raises:
        Refusal: there is none, or it stands in an f-string.
    """
    stack: list[ast.AST] = [module.tree]
    while stack:
        for child in iter_children(stack.pop()):
            if hasattr(child, "lineno"):
                if isinstance(child, kind) and Range.of(child) == at:
                    return child
                around = Range(*start_of(child), child.end_lineno, child.end_col_offset)  # type: ignore[attr-defined]
                if not around.holds(at):
                    continue
                if isinstance(child, ast.JoinedStr):
                    raise Refusal(f"line {at.line}: the code stands in an f-string")
            stack.append(child)
    what = {ast.expr: "expression", ast.stmt: "statement"}.get(kind, kind.__name__.lower())
    raise Refusal(f"line {at.line}: there is no {what} at this position")


def newline_at(source: str, offset: int) -> str:
    """The line end in use around ``offset``: that of its line, else the first of the file, else ``\\n``."""
    found = _LINE_END.search(source, offset) or _LINE_END.search(source)
    return found.group() if found else "\n"


@dataclass(frozen=True)
class Grouping:
    """The parentheses that do nothing but group: ``pairs`` of them, from ``start`` to ``end`` (character offsets)."""

    start: int
    end: int
    pairs: int


def as_span(module: Module, place: Range) -> tuple[int, int]:
    """The stretch of ``as name`` behind the expression at ``place``, with the blanks before it.

    Raises:
        Refusal: the expression is no context of a ``with`` that binds it, or a comment stands in between.
    """
    context = locate(module, place, ast.expr)
    item = module.parent(context)
    if not isinstance(item, ast.withitem) or item.optional_vars is None:
        raise Refusal(f"line {place.line}: there is no `as` to remove")
    start, end = grouping_of(module, context).end, grouping_of(module, item.optional_vars).end
    if "#" in module.source[start:end]:
        raise Refusal(f"line {place.line}: a comment stands before the name")
    return start, end


def grouping_of(module: Module, node: ast.expr) -> Grouping:
    """The grouping parentheses around ``node``; none of a call's, a class's or a tuple's own."""
    start, end = module.span(node)
    parent = module.parent(node)
    while parent is not None and not hasattr(parent, "lineno"):
        parent = module.parent(parent)
    if parent is None:
        return Grouping(start, end, 0)
    lower, upper = module.span(parent)
    if node in getattr(parent, "decorator_list", ()):
        lower = max(module.source.rfind("\n", 0, start), module.source.rfind("\r", 0, start)) + 1
        upper = module.offset(parent.lineno, parent.col_offset)  # type: ignore[attr-defined]
    siblings = [module.span(sibling) for sibling in _positioned(parent) if sibling is not node]
    before = max([lower, *(stop for _, stop in siblings if stop <= start)])
    after = min([upper, *(begin for begin, _ in siblings if begin >= end)])

    opening = _run(module.source, range(start - 1, before - 1, -1), "(", _comments(module.source, before, start))
    closing = _run(module.source, range(end, after), ")", _comments(module.source, end, after))
    if isinstance(parent, ast.Call) and parent.func is not node:
        if before == module.span(parent.func)[1]:
            opening = opening[:-1]
        if closing and closing[-1] == upper - 1:
            closing = closing[:-1]
    if isinstance(parent, ast.ClassDef) and node in parent.bases:
        if node is parent.bases[0]:
            opening = opening[:-1]
        if node is parent.bases[-1] and not parent.keywords:
            closing = closing[:-1]
    pairs = min(len(opening), len(closing))
    return Grouping(opening[pairs - 1], closing[pairs - 1] + 1, pairs) if pairs else Grouping(start, end, 0)


def _positioned(node: ast.AST) -> Iterator[ast.AST]:
    for child in iter_children(node):
        if hasattr(child, "lineno"):
            yield child
        else:
            yield from _positioned(child)


def _comments(source: str, start: int, end: int) -> list[tuple[int, int]]:
    """The comments of a stretch that holds no strings."""
    return [found.span() for found in _COMMENT.finditer(source, start, end)]


def _run(source: str, offsets: range, parenthesis: str, comments: list[tuple[int, int]]) -> list[int]:
    """The offsets of the parentheses met before anything else but space, line ends and comments."""
    found: list[int] = []
    for offset in offsets:
        if any(start <= offset < end for start, end in comments):
            continue
        if source[offset] == parenthesis:
            found.append(offset)
        elif source[offset] not in " \t\f\r\n\\":
            break
    return found


def context_of(module: Module, node: ast.expr) -> str:
    """Code in which :data:`HOLE` stands as ``node`` stands in its parent.

    Raises:
        Refusal: nothing but what stands there can stand there.
    """
    parent = module.parent(node)
    if isinstance(parent, ast.expr):
        around = _with_hole(parent, node)
        if isinstance(around, ast.Tuple) and any(isinstance(item, ast.Slice) for item in around.elts):
            return ast.unparse(ast.Subscript(ast.Name("x", ast.Load()), around, ast.Load()))
        code = ast.unparse(around)
        if isinstance(parent, ast.Starred):
            return f"f({code})"
        return f"x[{code}]" if isinstance(parent, ast.Slice) else code
    if not isinstance(getattr(node, "ctx", None) or ast.Load(), ast.Load):
        return f"{HOLE} = x"
    match parent:
        case ast.Expr():
            return HOLE
        case ast.keyword():
            return f"f(x={HOLE})"
        case ast.comprehension():
            return f"[x for x in {HOLE}]" if node is parent.iter else f"[x for x in y if {HOLE}]"
        case ast.withitem():
            return f"with {HOLE} as x: pass" if parent.optional_vars else f"with {HOLE}: pass"
        case ast.arguments():
            return f"lambda x={HOLE}: x"
        case ast.arg():
            return f"def f(x: {HOLE}): pass"
        case ast.Return():
            return f"return {HOLE}"
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign() if node is parent.value:
            return f"x = {HOLE}"
        case ast.AnnAssign() if node is parent.annotation:
            return f"x: {HOLE}"
        case ast.For() | ast.AsyncFor() if node is parent.iter:
            return f"for x in {HOLE}: pass"
        case ast.If() | ast.While():
            return f"while {HOLE}: pass"
        case ast.Match():
            return f"match {HOLE}:\n case _: pass"
        case ast.FunctionDef() | ast.AsyncFunctionDef() if node is parent.returns:
            return f"def f() -> {HOLE}: pass"
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node in parent.decorator_list:
            return f"@{HOLE}\ndef f(): pass"
        case ast.ClassDef():
            return f"class A({HOLE}): pass"
        case ast.Raise() | ast.Assert() | ast.ExceptHandler():
            return f"assert x, {HOLE}"
    raise Refusal(f"line {node.lineno}: no other expression can stand here")


def _with_hole(parent: ast.expr, node: ast.expr) -> ast.expr:
    hole = ast.Name(HOLE, ast.Load())
    fields: dict[str, object] = {}
    for name, value in ast.iter_fields(parent):
        if isinstance(value, list):
            fields[name] = [hole if item is node else item for item in value]
        else:
            fields[name] = hole if value is node else value
    copy = type(parent).__new__(type(parent))
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def needs_parentheses(context: str, code: str) -> bool:
    """Whether ``code`` must stand in parentheses to mean the same in the place of :data:`HOLE`; decided by parsing both.

    Raises:
        Refusal: ``code`` is no expression.
    """
    bare = _parsed(context.replace(HOLE, code))
    grouped = _parsed(context.replace(HOLE, f"({code})"))
    if bare is None and grouped is None:
        raise Refusal(f"the replacement is not an expression: {code}")
    return grouped is not None and bare != grouped


def _parsed(code: str) -> str | None:
    try:
        return ast.dump(ast.parse(code))
    except (SyntaxError, ValueError):
        return None
