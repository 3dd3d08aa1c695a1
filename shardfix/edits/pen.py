"""Carries requests for edits out on the text of a module, splice by splice.

Positions, conflicts and parentheses are decided on the stdlib tree. LibCST comes in, only then imported, for the
expressions and import statements that change; it sees nothing of the file but these.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from shardfix.edits import (
    NAMED,
    DropImport,
    Edit,
    InsertDefinition,
    InsertStatement,
    KeywordToPositional,
    MoveImport,
    PositionalToKeyword,
    RemoveArgument,
    RemoveAs,
    RemoveStatement,
    RenameArgument,
    Replace,
    ReplaceComment,
    SetArgument,
    Wrap,
)
from shardfix.edits.imports import Importer, Postponement
from shardfix.edits.place import (
    HOLE,
    Grouping,
    Refusal,
    as_span,
    context_of,
    grouping_of,
    locate,
    needs_parentheses,
    newline_at,
)
from shardfix.edits.statements import (
    block_of,
    comment_splice,
    definition_place,
    indentation,
    indented,
    insertion_before,
    removal,
)

if TYPE_CHECKING:
    from shardfix.codemod import Fix
    from shardfix.edits.expressions import Replacement, Work, Wrapping
    from shardfix.semantics.module import Module

__all__ = ["Applied", "Splice", "apply", "carries_comments", "spliced"]

_ARGUMENT_EDITS = (SetArgument, RenameArgument, RemoveArgument, PositionalToKeyword, KeywordToPositional)
_FITTING_A_TARGET = (ast.Name, ast.Attribute, ast.Subscript)


@dataclass(frozen=True)
class Splice:
    """``text`` in the place of the characters from ``start`` to ``end`` of the original source."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Applied:
    """What came of the requests. Every fix is in exactly one of the three."""

    source: str
    applied: tuple[Fix, ...]
    postponed: tuple[Fix, ...]
    """Fixes that touch others; to be asked for anew on the new text."""
    refused: tuple[tuple[Fix, str], ...]
    """Fixes that cannot be carried out, with the reason."""
    splices: tuple[Splice, ...]


def apply(module: Module, fixes: Sequence[Fix]) -> Applied:
    """Carry out the fixes that do not stand in each other's way, each as a whole or not at all. Never raises."""
    session = _Session(module)
    applied: list[Fix] = []
    postponed: list[Fix] = []
    refused: list[tuple[Fix, str]] = []
    for fix in fixes:
        try:
            session.take(fix)
        except Postponement:
            postponed.append(fix)
        except Refusal as refusal:
            refused.append((fix, str(refusal)))
        except RecursionError:
            refused.append((fix, "the code is too deeply nested"))
        except Exception as error:  # a fault of ours or of LibCST's costs this fix alone
            refused.append((fix, f"{type(error).__name__}: {error}"))
        else:
            applied.append(fix)
    try:
        splices = session.splices()
    except Exception as error:
        reason = str(error) if isinstance(error, Refusal) else f"{type(error).__name__}: {error}"
        if len(applied) > 1:
            # One of them is at fault; alone each shows its own.
            first = apply(module, applied[:1])
            later = tuple(applied[1:])
            return Applied(first.source, first.applied, (*later, *postponed), (*refused, *first.refused), first.splices)
        return Applied(module.source, (), tuple(postponed), (*refused, *((fix, reason) for fix in applied)), ())
    return Applied(spliced(module.source, splices), tuple(applied), tuple(postponed), tuple(refused), splices)


def carries_comments(module: Module, fix: Fix, alone: Applied | None = None) -> bool:
    """Whether every comment in the code that ``fix`` changes is still there afterwards.

    ``alone`` is what :func:`apply` makes of the fix, if that is known. Comments to a linter or type checker that stand behind
    a removed import go with it and do not count.
    """
    if any(isinstance(edit, ReplaceComment) for edit in fix.edits):
        return True  # what goes is meant to go
    result = apply(module, [fix]) if alone is None else alone
    lost: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for splice in result.splices:
        old = module.source[splice.start : splice.end]
        before = _comments(old) if "#" in old else []
        lost.update(text for text in before if not (_is_import(old) and _is_pragma(text)))
        kept.update(_comments(splice.text) if "#" in splice.text else [])
    return not lost - kept  # a comment may move from one place to another


def _comments(text: str) -> list[str]:
    """The comments of a piece of code, which need not be whole."""
    found: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(f"({text}\n)", newline="").readline):
            if token.type == tokenize.COMMENT:
                found.append(token.string.rstrip())
    except (tokenize.TokenError, SyntaxError):
        return found
    return found


def _is_import(text: str) -> bool:
    return text.lstrip().startswith(("import ", "from ", "import\t", "from\t"))


def _is_pragma(comment: str) -> bool:
    words = comment.lstrip("#").strip().lower()
    return words.startswith(("noqa", "type: ignore", "type:ignore", "pylint:", "isort:", "ruff:", "pyright:", "mypy:"))


def spliced(source: str, splices: Sequence[Splice]) -> str:
    """``source`` with the splices, which come in its order and do not overlap, put in."""
    parts: list[str] = []
    position = 0
    for splice in splices:
        parts += [source[position : splice.start], splice.text]
        position = splice.end
    return "".join([*parts, source[position:]])


@dataclass(frozen=True)
class _Unit:
    """A stretch of text that one fix changes, and the requests for it. Equal units ask for the same."""

    start: int
    end: int
    edits: frozenset[Edit]
    kind: str
    """"expression", "insertion", "removal", "import", "definition", "as" or "comment"."""

    def meets(self, other: _Unit) -> bool:
        """Whether the two cannot be carried out in one pass."""
        kinds = {self.kind, other.kind}
        if kinds == {"import"}:
            return False  # the importer knows
        if kinds == {"insertion", "expression"} or kinds == {"definition", "expression"}:
            point, stretch = (self, other) if self.start == self.end else (other, self)
            return stretch.start < point.start < stretch.end
        return self.start <= other.end and other.start <= self.end

    def lies_in(self, other: _Unit) -> bool:
        """Whether the two share text."""
        return self.start < other.end and other.start < self.end


class _Session:
    """One run of :func:`apply`."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._importer = Importer(module)
        self._units: dict[_Unit, Splice | None] = {}
        self._definitions: dict[str, tuple[InsertDefinition, _Unit]] = {}

    def take(self, fix: Fix) -> None:
        """Carry out one fix, or raise with nothing changed."""
        if not fix.edits:
            raise Refusal("the fix has no edits")
        plan = self._importer.plan
        definitions = dict(self._definitions)
        try:
            new = self._carry_out(fix)
        except BaseException:
            self._importer.restore(plan)
            self._definitions = definitions
            raise
        self._units.update(new)

    def _carry_out(self, fix: Fix) -> dict[_Unit, Splice | None]:
        units, nodes = self._units_of(fix)
        for unit in units:
            if unit not in self._units and any(unit.meets(other) for other in self._units):
                raise Postponement
        for edit in fix.edits:
            if isinstance(edit, MoveImport):
                self._importer.move(edit)
            elif isinstance(edit, DropImport):
                self._importer.drop(edit)
        return {
            unit: self._splice(unit, nodes, fix) if unit not in self._units else self._units[unit] for unit in units
        }

    # Units

    def _units_of(self, fix: Fix) -> tuple[list[_Unit], dict[Edit, ast.AST]]:
        nodes: dict[Edit, ast.AST] = {}
        units: list[_Unit] = []
        within: list[tuple[int, int, Edit]] = []
        for edit in dict.fromkeys(fix.edits):
            match edit:
                case Replace() | Wrap():
                    node = locate(self._module, edit.at, ast.expr)
                    nodes[edit] = node
                    within.append((*self._range_around(node), edit))
                case _ if isinstance(edit, _ARGUMENT_EDITS):
                    nodes[edit] = locate(self._module, edit.at, ast.Call)
                    within.append((*self._module.span(nodes[edit]), edit))
                case InsertStatement() | RemoveStatement() | MoveImport() | DropImport():
                    statement = locate(self._module, edit.at, ast.stmt)
                    nodes[edit] = statement
                    units.append(self._statement_unit(edit, statement))
                case RemoveAs():
                    start, end = as_span(self._module, edit.at)
                    units.append(_Unit(start, end, frozenset([edit]), "as"))
                case ReplaceComment():
                    start, end, _ = comment_splice(self._module, edit.at, edit.text)
                    units.append(_Unit(start, end, frozenset([edit]), "comment"))
                case InsertDefinition():
                    nodes[edit] = self._definition_anchor(edit)
                    units.append(self._definition_unit(edit))
                case _:
                    raise Refusal(f"{type(edit).__name__} is no edit that the pen knows")
        units += _grouped(within)
        removed = [unit for unit in units if unit.kind == "removal"]
        for unit in units:
            if unit.kind != "removal" and any(unit.lies_in(other) for other in removed):
                raise Refusal("an edit lies within a statement that is removed")
        merged: dict[tuple[int, int, str], _Unit] = {}
        for unit in units:
            key = (unit.start, unit.end, unit.kind)
            known = merged.get(key)
            merged[key] = unit if known is None else _Unit(unit.start, unit.end, known.edits | unit.edits, unit.kind)
        return list(merged.values()), nodes

    def _range_around(self, node: ast.expr) -> tuple[int, int]:
        """The range that a replacement of ``node`` may change: its parentheses go with it."""
        parent = self._module.parent(node)
        if self._borrows_parentheses(node):
            return self._module.span(cast("ast.Call", parent))
        if isinstance(node, ast.Starred):
            raise Refusal(f"line {node.lineno}: a starred expression cannot be replaced by itself")
        if isinstance(node, ast.Tuple) and any(isinstance(item, ast.Slice) for item in node.elts):
            raise Refusal(f"line {node.lineno}: several indices are no expression of their own")
        group = grouping_of(self._module, node)
        return group.start, group.end

    def _statement_unit(self, edit: Edit, statement: ast.stmt) -> _Unit:
        start, end = self._module.span(statement)
        if isinstance(edit, InsertStatement):
            place, _, _ = insertion_before(self._module, statement, "pass")
            return _Unit(place, place, frozenset([edit]), "insertion")
        if isinstance(edit, RemoveStatement):
            start, end, _ = removal(self._module, statement)
            return _Unit(start, end, frozenset([edit]), "removal")
        return _Unit(start, end, frozenset(), "import")

    def _definition_anchor(self, edit: InsertDefinition) -> ast.stmt:
        """The statement of the module's body that holds the first use."""
        for statement in self._module.tree.body:
            if statement.lineno <= edit.at.line <= (statement.end_lineno or 0):
                return statement
            decorators = getattr(statement, "decorator_list", None)
            if decorators and decorators[0].lineno <= edit.at.line <= (statement.end_lineno or 0):
                return statement
        raise Refusal(f"line {edit.at.line}: there is no code at this position")

    def _definition_unit(self, edit: InsertDefinition) -> _Unit:
        known = self._definitions.get(edit.name)
        place = definition_place(self._module, self._definition_anchor(edit))
        if known is not None:
            if known[0].code != edit.code:
                raise Postponement
            if known[1].start <= place.offset:
                return known[1]
            raise Postponement
        unit = _Unit(place.offset, place.offset, frozenset([edit]), "definition")
        self._definitions[edit.name] = (edit, unit)
        return unit

    # Splices

    def _splice(self, unit: _Unit, nodes: dict[Edit, ast.AST], fix: Fix) -> Splice | None:
        edits = [edit for edit in dict.fromkeys(fix.edits) if edit in unit.edits]
        match unit.kind:
            case "expression":
                return self._expression(unit, edits, nodes)
            case "insertion":
                statement = nodes[edits[0]]
                assert isinstance(statement, ast.stmt)
                codes = [self._spelled(edit.code, statement) for edit in edits if isinstance(edit, InsertStatement)]
                newline = newline_at(self._module.source, unit.start)
                code = newline.join(codes)
                if any(isinstance(edit, RemoveStatement) and nodes[edit] is statement for edit in fix.edits):
                    end = self._module.span(statement)[1]  # it takes the place of the statement, which goes with it
                    return Splice(unit.start, end, indented(code, indentation(self._module, statement), newline))
                return Splice(*insertion_before(self._module, statement, code))
            case "removal":
                statement = nodes[edits[0]]
                assert isinstance(statement, ast.stmt)
                if any(isinstance(edit, InsertStatement) and nodes[edit] is statement for edit in fix.edits):
                    return None
                leaving = [
                    nodes[edit] for edit in fix.edits if isinstance(edit, RemoveStatement) and edit not in unit.edits
                ]
                block = block_of(self._module, statement)
                others = [
                    node for node in leaving if isinstance(node, ast.stmt) and any(node is item for item in block)
                ]
                return Splice(*removal(self._module, statement, others))
            case "comment":
                comment = edits[0]
                assert isinstance(comment, ReplaceComment)
                return Splice(*comment_splice(self._module, comment.at, comment.text))
            case "as":
                return Splice(unit.start, unit.end, "")
            case "definition":
                definition = edits[0]
                assert isinstance(definition, InsertDefinition)
                return self._definition(definition, nodes[definition])
        return None

    def _spelled(self, code: str, node: ast.AST, hole: str = "") -> str:
        """``code`` with the right spelling for each object that it names."""
        if NAMED.search(code + hole) is None:
            return code
        avoid = _names_bound_in(code + hole)
        return NAMED.sub(lambda found: self._importer.spell(found[1], node, avoid), code)

    def _definition(self, edit: InsertDefinition, anchor: ast.AST) -> Splice | None:
        assert isinstance(anchor, ast.stmt)
        module = self._module
        code = self._spelled(edit.code, anchor).strip("\r\n")
        existing = module.module_scope.bindings.get(edit.name)
        if existing:
            node = existing[0].node
            same = len(existing) == 1 and isinstance(node, ast.FunctionDef | ast.ClassDef)
            if same and ast.dump(node) == ast.dump(ast.parse(code).body[0]):
                if node.lineno >= anchor.lineno:  # type: ignore[attr-defined]
                    raise Refusal(f"{edit.name} is defined only after its first use")
                return None
            raise Refusal(f"the name {edit.name} is taken in this module")
        scope = module.scope_at(edit.at)
        if scope.lookup(edit.name) is not None or any(edit.name in other.globals for other in module.scopes.values()):
            raise Refusal(f"the name {edit.name} is taken where it is to be used")
        place = definition_place(module, anchor)
        newline = newline_at(module.source, place.offset)
        lines = newline.join(code.replace("\r\n", "\n").split("\n"))
        ast.parse(code)
        return Splice(place.offset, place.offset, place.before + lines + place.after)

    def _expression(self, unit: _Unit, edits: Sequence[Edit], nodes: dict[Edit, ast.AST]) -> Splice:
        from shardfix.edits.expressions import Work, carry_out

        module = self._module
        works: dict[ast.AST, Work] = {}
        for edit in edits:
            node = nodes[edit]
            assert isinstance(node, ast.expr)
            if any(isinstance(ancestor, ast.JoinedStr) for ancestor in module.ancestors(node)):
                raise Refusal(f"line {node.lineno}: the code stands in an f-string")
            if isinstance(edit, Replace | Wrap) and not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                self._check_target(edit, node)
            start, end = module.span(node)
            work = works.setdefault(node, Work((start - unit.start, end - unit.start)))
            match edit:
                case Replace():
                    if work.replacement or work.arguments or work.wrapping:
                        raise Refusal(f"line {node.lineno}: two edits of the fix contradict each other")
                    work.replacement = self._replacement(edit, node)
                case Wrap():
                    if work.wrapping:
                        raise Refusal(f"line {node.lineno}: two edits of the fix contradict each other")
                    work.wrapping = self._wrapping(edit, node)
                case SetArgument():
                    code = self._spelled(edit.code, node)
                    _check_expression(code)
                    work.arguments.append(SetArgument(edit.at, edit.name, code))
                case _:
                    work.arguments.append(edit)
        self._check_nothing_lost(edits, nodes, works)
        text = module.source[unit.start : unit.end]
        new = carry_out(text, list(works.values()), newline_at(module.source, unit.start))
        _check_expression(new)
        return Splice(unit.start, unit.end, new)

    def _check_target(self, edit: Replace | Wrap, node: ast.expr) -> None:
        code = edit.code if isinstance(edit, Replace) else f"{edit.before}{HOLE}{edit.after}"
        try:
            fits = isinstance(ast.parse(NAMED.sub(HOLE, code), mode="eval").body, _FITTING_A_TARGET)
        except SyntaxError:
            fits = False
        if not fits:
            raise Refusal(f"line {node.lineno}: a value is stored or deleted here, not read")

    def _check_nothing_lost(
        self, edits: Iterable[Edit], nodes: dict[Edit, ast.AST], works: dict[ast.AST, Work]
    ) -> None:
        """Refuse if an edit lies in code that another of the same fix replaces or removes."""
        gone: list[ast.AST] = []
        for edit in edits:
            node = nodes[edit]
            if isinstance(edit, Replace):
                gone.append(node)
            elif isinstance(edit, SetArgument) and isinstance(node, ast.Call):
                gone += [keyword.value for keyword in node.keywords if keyword.arg == edit.name]
            elif isinstance(edit, RemoveArgument) and isinstance(node, ast.Call):
                if isinstance(edit.name, str):
                    gone += [keyword.value for keyword in node.keywords if keyword.arg == edit.name]
                else:
                    gone += node.args[edit.name : edit.name + 1]
        for node in works:
            around = set(map(id, self._module.ancestors(node)))
            for lost in gone:
                if id(lost) in around or (lost is node and works[node].replacement is None):
                    raise Refusal("an edit lies within code that another edit of the fix replaces")

    def _replacement(self, edit: Replace, node: ast.expr) -> Replacement:
        from shardfix.edits.expressions import Replacement

        code = self._spelled(edit.code, node)
        context = context_of(self._module, node)
        group = grouping_of(self._module, node)
        start, end = self._outline(node, group)
        needed = self._needs_parentheses(context, code, start, end)
        if not group.pairs:
            return Replacement(code, needed, False)
        start, end = self._module.span(node)
        laid_out = "\n" in (gap := self._gaps(group.start, start, end, group.end)) or "\r" in gap
        wanted = not self._needs_parentheses(context, self._module.text(node), group.start, group.end)
        keep = needed or laid_out or wanted or group.pairs > 1
        return Replacement(code, False, keep)

    def _wrapping(self, edit: Wrap, node: ast.expr) -> Wrapping:
        from shardfix.edits.expressions import Wrapping

        whole = self._spelled(f"{edit.before}{HOLE}{edit.after}", node)
        before, hole, after = whole.partition(HOLE)
        if not hole:
            raise Refusal("the code around the expression is not an expression")
        group = grouping_of(self._module, node)
        text = self._module.text(node)
        inner = needs_parentheses(f"({before}{HOLE}{after}\n)", text)
        outer = self._needs_parentheses(
            context_of(self._module, node), whole.replace(HOLE, "x"), *self._outline(node, group)
        )
        if not group.pairs:
            return Wrapping(before, after, inner, outer, False)
        start, end = self._module.span(node)
        gap = self._gaps(group.start, start, end, group.end)
        strip = not inner and group.pairs == 1 and not gap.strip("()") and "\n" not in text and "\r" not in text
        return Wrapping(before, after, False, outer, strip)

    def _outline(self, node: ast.expr, group: Grouping) -> tuple[int, int]:
        """The range that new code takes the place of."""
        borrowed = 1 if self._borrows_parentheses(node) else 0
        return group.start + borrowed, group.end - borrowed

    def _borrows_parentheses(self, node: ast.expr) -> bool:
        """Whether ``node`` is the generator in ``f(x for x in y)``, whose range holds the parentheses of the call."""
        parent = self._module.parent(node)
        return (
            isinstance(parent, ast.Call)
            and isinstance(node, ast.GeneratorExp)
            and (node.end_lineno, node.end_col_offset) == (parent.end_lineno, parent.end_col_offset)
        )

    def _gaps(self, outer_start: int, start: int, end: int, outer_end: int) -> str:
        return self._module.source[outer_start:start] + self._module.source[end:outer_end]

    def _needs_parentheses(self, context: str, code: str, start: int, end: int) -> bool:
        """Whether code from ``start`` to ``end`` needs parentheses, to keep its meaning or apart from its neighbours."""
        source = self._module.source
        left, right = source[start - 1 : start] if start else "", source[end : end + 1]
        glued = (_is_wordlike(left) and _is_wordlike(code[:1])) or (_is_wordlike(right) and _is_wordlike(code[-1:]))
        return glued or needs_parentheses(context, code)

    def splices(self) -> tuple[Splice, ...]:
        """All changes, in the order of the text; none overlaps another."""
        edited = [splice for splice in self._units.values() if splice is not None]
        imports = [
            Splice(*lines)
            for lines in self._importer.splices([(splice.start, splice.end, splice.text) for splice in edited])
        ]
        # At one place imports come before definitions, so that these may use them.
        ordered = _joined(sorted([*imports, *edited], key=lambda splice: (splice.start, splice.end)))
        for first, second in itertools.pairwise(ordered):
            if second.start < first.end:
                raise Refusal("the edits of the fix overlap")
        return tuple(splice for splice in ordered if self._module.source[splice.start : splice.end] != splice.text)


def _joined(ordered: Sequence[Splice]) -> list[Splice]:
    """The splices with one made of each removed line and what is put in after it: a definition behind the last import."""
    result: list[Splice] = []
    for splice in ordered:
        last = result[-1] if result else None
        is_within = last is not None and splice.start == splice.end and last.start < splice.start < last.end
        if last is None or not is_within or last.text:
            result.append(splice)
            continue
        newline = re.match(r"\r\n|\r|\n|", splice.text)
        after = splice.text[newline.end() :] if newline is not None else splice.text
        result[-1] = Splice(last.start, splice.start, after if last.start else after.lstrip("\r\n"))
    return result


def _grouped(within: Sequence[tuple[int, int, Edit]]) -> list[_Unit]:
    """The outermost ranges, each with all edits that lie in it."""
    units: list[_Unit] = []
    for start, end, edit in sorted(within, key=lambda item: (item[0], -item[1])):
        if units and start < units[-1].end:
            last = units[-1]
            units[-1] = _Unit(last.start, max(last.end, end), last.edits | {edit}, last.kind)
        else:
            units.append(_Unit(start, end, frozenset([edit]), "expression"))
    return units


def _is_wordlike(character: str) -> bool:
    return bool(character) and (character.isalnum() or character in "_\"'")


def _check_expression(code: str) -> None:
    try:
        ast.parse(f"({code}\n)", mode="eval")
    except (SyntaxError, ValueError) as error:
        raise Refusal(f"the new code is not an expression: {code}") from error


def _names_bound_in(code: str) -> frozenset[str]:
    """The names that the code of an edit binds itself (parameters of a lambda, variables of a comprehension)."""
    try:
        tree = ast.parse(NAMED.sub(HOLE, code).strip())
    except (SyntaxError, ValueError):
        return frozenset()
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    return frozenset(bound | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)})
