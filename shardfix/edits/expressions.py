"""Carries out edits within one expression on its LibCST nodes. Imported only where there is something to carry out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from shardfix.edits import (
    Edit,
    KeywordToPositional,
    PositionalToKeyword,
    RemoveArgument,
    RenameArgument,
    SetArgument,
)
from shardfix.edits.place import HOLE, Refusal
from shardfix.edits.series import Series

__all__ = ["Replacement", "Work", "Wrapping", "carry_out"]

Span = tuple[int, int]


@dataclass(frozen=True)
class Replacement:
    """New code for a node, with the decisions that its place asks for."""

    code: str
    parenthesise: bool
    keep_parentheses: bool
    """Whether the parentheses that stand around the old node stay."""


@dataclass(frozen=True)
class Wrapping:
    """Code around a node; parentheses around the node itself (``inner``) and around the whole (``outer``)."""

    before: str
    after: str
    inner: bool
    outer: bool
    strip: bool
    """Whether the parentheses that stand around the node go: they did nothing but group."""


@dataclass
class Work:
    """What is to be done to the node at ``span`` (character offsets from the start of the unit, as ast gives it)."""

    span: Span
    replacement: Replacement | None = None
    wrapping: Wrapping | None = None
    arguments: list[Edit] = field(default_factory=list)


def carry_out(text: str, works: Sequence[Work], newline: str) -> str:
    """The text of an expression with the work done; every byte that no work concerns stays.

    Raises:
        Refusal: an edit does not fit the code that stands there.
    """
    config = cst.PartialParserConfig(default_newline=newline)
    source = f"({text})"  # line ends within are of no account between parentheses
    module = cst.parse_module(source, config)
    if module.code != source:
        raise Refusal("LibCST does not give this code back as it stands")
    root = cast("cst.Expr", cast("cst.SimpleStatementLine", module.body[0]).body[0]).value
    spans = MetadataWrapper(module, unsafe_skip_copy=True).resolve(ByteSpanPositionProvider)
    bare = root.with_changes(lpar=root.lpar[1:], rpar=root.rpar[:-1])

    wanted = {(_bytes(text, work.span[0]), _bytes(text, work.span[1])): work for work in works}
    found: dict[int, Work] = {}
    for node, place in spans.items():
        if isinstance(node, cst.BaseExpression):
            same = bare if node is root else node
            span = _ast_span(module, same, place.start - 1, place.start + place.length - 1)
            _assign(found, same, wanted.get(span))
            borrower = _generator_alone(same)
            if borrower is not None:
                space = len(module.code_for_node(cast("cst.Call", same).whitespace_before_args).encode())
                inner = spans[borrower]
                _assign(found, borrower, wanted.get((inner.start - space - 2, span[1])))
    if len(found) != len(wanted):
        raise Refusal("LibCST has no expression of its own at this position")
    carrier = _Carrier(found, config)
    return module.code_for_node(cast("cst.BaseExpression", bare.visit(carrier)))


def _assign(found: dict[int, Work], node: cst.BaseExpression, work: Work | None) -> None:
    """Give the work to the node, unless one further out (met first) has it."""
    if work is not None and all(work is not other for other in found.values()):
        found[id(node)] = work


def _generator_alone(node: cst.BaseExpression) -> cst.GeneratorExp | None:
    """The generator in ``f(x for x in y)``, which borrows the parentheses of the call; ast counts these as its own."""
    if isinstance(node, cst.Call) and len(node.args) == 1:
        value = node.args[0].value
        if isinstance(value, cst.GeneratorExp) and not value.lpar:
            return value
    return None


def _bytes(text: str, offset: int) -> int:
    return offset if text.isascii() else len(text[:offset].encode())


def _ast_span(module: cst.Module, node: cst.BaseExpression, start: int, end: int) -> Span:
    """The byte range that :mod:`ast` gives the node: tuples and generators include their own parentheses."""
    if isinstance(node, cst.Tuple | cst.GeneratorExp) and node.lpar:
        start -= len(module.code_for_node(node.lpar[-1].whitespace_after).encode()) + 1
        end += len(module.code_for_node(node.rpar[0].whitespace_before).encode()) + 1
    return start, end


def _own_parentheses(node: cst.BaseExpression) -> int:
    return 1 if isinstance(node, cst.Tuple | cst.GeneratorExp) and node.lpar else 0


class _Carrier(cst.CSTTransformer):
    """The one transformer: does each node's work when all work within the node is done."""

    def __init__(self, works: dict[int, Work], config: cst.PartialParserConfig) -> None:
        super().__init__()
        self._works = works
        self._config = config

    def on_visit(self, node: cst.CSTNode) -> bool:
        return True

    def on_leave(self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT) -> cst.CSTNodeT:
        work = self._works.get(id(original_node))
        if work is None:
            return updated_node
        node = cast("cst.BaseExpression", updated_node)
        if work.replacement:
            node = self._replaced(node, work.replacement)
        if work.arguments:
            if not isinstance(node, cst.Call):
                raise Refusal("there is no call at this position")
            node = self._with_arguments(node, work.arguments)
        if work.wrapping:
            if isinstance(node, cst.GeneratorExp) and not node.lpar:
                node = _parenthesised(node)
            node = self._wrapped(node, work.wrapping)
        return cast("cst.CSTNodeT", node)

    def _parse(self, code: str) -> cst.BaseExpression:
        return cst.parse_expression(code, self._config)

    def _replaced(self, node: cst.BaseExpression, replacement: Replacement) -> cst.BaseExpression:
        new = self._parse(replacement.code)
        if replacement.parenthesise:
            new = _parenthesised(new)
        if replacement.keep_parentheses:
            own = _own_parentheses(node)
            outer_left, outer_right = node.lpar[: len(node.lpar) - own], node.rpar[own:]
            new = new.with_changes(lpar=[*outer_left, *new.lpar], rpar=[*new.rpar, *outer_right])
        return new

    def _wrapped(self, node: cst.BaseExpression, wrapping: Wrapping) -> cst.BaseExpression:
        if wrapping.strip:
            own = _own_parentheses(node)
            node = node.with_changes(lpar=node.lpar[len(node.lpar) - own :], rpar=node.rpar[:own])
        if wrapping.inner:
            node = _parenthesised(node)
        around = self._parse(f"{wrapping.before}{HOLE}{wrapping.after}")
        whole = cast("cst.BaseExpression", around.visit(_Filler(node)))
        return _parenthesised(whole) if wrapping.outer else whole

    def _with_arguments(self, call: cst.Call, edits: Sequence[Edit]) -> cst.Call:
        arguments = list(call.args)
        if len(arguments) == 1:
            arguments = [_guarded(arguments[0])]
        after = [
            argument.comma.whitespace_after if isinstance(argument.comma, cst.Comma) else argument.whitespace_after_arg
            for argument in arguments
        ]
        trailing_comma = bool(arguments) and isinstance(arguments[-1].comma, cst.Comma)
        current = _Arguments(Series(arguments, call.whitespace_before_args, after, trailing_comma), self._parse)
        for edit in edits:
            current.do(edit)
        current.check()
        args = [
            argument.with_changes(comma=comma, whitespace_after_arg=space)
            for argument, comma, space in current.series.commas()
        ]
        return call.with_changes(args=args, whitespace_before_args=current.series.before)


def _guarded(argument: cst.Arg) -> cst.Arg:
    """A generator that is alone in its call borrows the call's parentheses; give it its own."""
    if isinstance(argument.value, cst.GeneratorExp) and not argument.value.lpar:
        return argument.with_changes(value=_parenthesised(argument.value))
    return argument


class _Arguments:
    """The arguments of one call while edits are made; every edit names them as they were in the original."""

    def __init__(self, series: Series[cst.Arg], parse: Callable[[str], cst.BaseExpression]) -> None:
        self.series = series
        self._parse = parse
        self._named = {argument.keyword.value: argument for argument in series.items if argument.keyword}
        self._positional: dict[int, cst.Arg] = {}
        for argument in series.items:
            if argument.star == "*":
                break  # what stands behind has no index that is known
            if argument.keyword is None and not argument.star:
                self._positional[len(self._positional)] = argument

    def do(self, edit: Edit) -> None:
        match edit:
            case SetArgument():
                self._set(edit.name, self._parse(edit.code), edit.code)
            case RenameArgument():
                name = cast("cst.Name", self._argument(edit.old).keyword)
                self._change(edit.old, keyword=name.with_changes(value=edit.new))
            case RemoveArgument():
                self.series.remove(self._index(self._argument(edit.name)))
            case PositionalToKeyword():
                for index, keyword in edit.names:
                    argument = self._argument(index)
                    self._change(index, **_as_keyword(keyword, argument.value))
            case KeywordToPositional():
                index = self._index(self._argument(edit.name))
                self._change(edit.name, keyword=None, equal=cst.MaybeSentinel.DEFAULT)
                self.series.move_to_front(index)
            case _:
                raise Refusal(f"{type(edit).__name__} is no edit of an argument")

    def _argument(self, name: str | int) -> cst.Arg:
        found = self._positional.get(name) if isinstance(name, int) else self._named.get(name)
        if found is None:
            what = f"positional argument {name}" if isinstance(name, int) else f"argument {name}="
            raise Refusal(f"the call has no {what}")
        return found

    def _index(self, argument: cst.Arg) -> int:
        for index, item in enumerate(self.series.items):
            if item is argument:
                return index
        raise Refusal("an argument is changed and removed at once")

    def _change(self, name: str | int, **changes: object) -> None:
        old = self._argument(name)
        new = old.with_changes(**changes)
        self.series.items[self._index(old)] = new
        if isinstance(name, int):
            self._positional[name] = new
        else:
            self._named[name] = new

    def _set(self, name: str, value: cst.BaseExpression, code: str) -> None:
        if _needs_parentheses_as_argument(value):
            value = _parenthesised(value)
        if name in self._named:
            self._change(name, value=value)
            return
        items = self.series.items
        place = next((index for index, item in enumerate(items) if item.star == "**"), len(items))
        argument = cst.Arg(value, cst.Name(name), equal=_equals(items))
        self.series.insert(place, argument)
        self._named[name] = argument

    def check(self) -> None:
        """Refuse what Python would: a keyword twice, a positional argument behind a keyword."""
        seen: set[str] = set()
        for argument in self.series.items:
            if argument.keyword is not None:
                if argument.keyword.value in seen:
                    raise Refusal(f"the call would have the argument {argument.keyword.value}= twice")
                seen.add(argument.keyword.value)
            elif (seen and not argument.star) or (argument.star == "*" and "**" in seen):
                raise Refusal("a positional argument would follow a keyword argument")
            elif argument.star == "**":
                seen.add("**")


def _equals(arguments: Sequence[cst.Arg]) -> cst.AssignEqual:
    """The ``=`` as the other keyword arguments have it."""
    for argument in arguments:
        if isinstance(argument.equal, cst.AssignEqual):
            equal = argument.equal
            if all(
                isinstance(space, cst.SimpleWhitespace) for space in (equal.whitespace_before, equal.whitespace_after)
            ):
                return equal
    return cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _as_keyword(name: str, value: cst.BaseExpression) -> dict[str, object]:
    if _needs_parentheses_as_argument(value):
        value = _parenthesised(value)
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return {"keyword": cst.Name(name), "equal": equal, "value": value}


def _needs_parentheses_as_argument(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.NamedExpr | cst.Tuple | cst.GeneratorExp | cst.Yield) and not value.lpar


def _parenthesised(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[cst.LeftParen(), *node.lpar], rpar=[*node.rpar, cst.RightParen()])


class _Filler(cst.CSTTransformer):
    """Puts a node where the hole is."""

    def __init__(self, node: cst.BaseExpression) -> None:
        super().__init__()
        self._node = node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self._node if original_node.value == HOLE else updated_node
