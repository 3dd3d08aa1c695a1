"""Random edits on random code: what the pen writes means what the request says, and touches nothing else."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter

import pytest
from edits_helpers import at
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from shardfix.codemod import Fix, Range
from shardfix.edits import (
    Edit,
    PositionalToKeyword,
    RemoveArgument,
    RenameArgument,
    Replace,
    SetArgument,
    Wrap,
)
from shardfix.edits.pen import apply
from shardfix.semantics.module import Module

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
SLOW = settings(
    max_examples=3000,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)

# Random code. Space within brackets may hold line ends and comments.

loose = st.sampled_from(["", "", "", " ", "\n    ", "  # é\n\t", "\\\n", "\t", "\x0c "])
names = st.sampled_from(
    ["a", "b", "é", "jnp.sum", "x.y.z", "'s'", "'# no'", "1", "2.5", "f'{q}'", "None", '"""m\nn"""']
)


def bracketed(left: str, right: str, inner: st.SearchStrategy[str], count: int = 4) -> st.SearchStrategy[str]:
    items = st.lists(st.tuples(loose, inner, loose), min_size=0, max_size=count)
    return st.tuples(items, st.booleans(), loose).map(
        lambda parts: (
            left
            + ",".join("".join(item) for item in parts[0])
            + ("," + parts[2] if parts[1] and parts[0] else "")
            + right
        )
    )


def arguments(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    kinds = st.tuples(
        st.lists(inner, max_size=2),
        st.lists(inner.map(lambda code: f"k={code}"), max_size=1),
        st.lists(inner.map(lambda code: f"l = {code}"), max_size=1),
        st.lists(inner.map(lambda code: f"**({code})"), max_size=1),
    )

    @st.composite
    def build(draw: st.DrawFn) -> str:
        items = [item for group in draw(kinds) for item in group]
        text = ""
        for index, item in enumerate(items):
            last = index == len(items) - 1
            text += draw(loose) + item + draw(loose) + ("" if last and draw(st.booleans()) else ",")
        return "(" + text + (draw(loose) if items else "") + ")"

    return build()


def expressions() -> st.SearchStrategy[str]:
    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        grouped = st.tuples(loose, inner, loose).map(lambda parts: f"({parts[0]}{parts[1]}{parts[2]})")
        return st.one_of(
            grouped,
            st.tuples(inner, st.sampled_from([" + ", " * ", "**", " and ", " < ", " - "]), inner).map("".join),
            st.tuples(st.sampled_from(["-", "not ", "~"]), inner).map("".join),
            st.tuples(st.sampled_from(["f", "g.h", "(lambda: f)"]), arguments(inner)).map("".join),
            st.tuples(grouped, st.sampled_from([".real", "[0]", "[None, 1:2]"])).map("".join),
            st.tuples(inner, inner, inner).map(lambda parts: "({} if {} else {})".format(*parts)),
            inner.map(lambda code: f"(lambda p, q=1: {code})"),
            inner.map(lambda code: f"f(w for w in ({code}) if w)"),
            inner.map(lambda code: f"[w for w in ({code})]"),
            inner.map(lambda code: f"f(v := {code})"),
            bracketed("[", "]", inner),
            inner.map(lambda code: f"{{'k': {code}, **b}}"),
        )

    return st.recursive(names, extend, max_leaves=8)


templates = st.sampled_from(
    [
        "x = {0}",
        "x: {1} = {0}",
        "{0}",
        "@f({0})\n@(g)\ndef h(p={1}) -> {0}:\n    return {1}",
        "def h():\n\treturn({0})\n",
        "if {0}:\n    y = {1}; z = {0}\nelse: pass",
        "with ({0}) as q, {1}: pass",
        "for q in {0}:\n    q({1})",
        "async def h():\n    return await ({0})",
        "def h():\n    y = yield {0}\n    assert {1}, ({0})",
        "class A(B, k={0}):\n    # {{}}\n    x = {1},",
        "while ({0}): x += {1}",
    ]
)


@st.composite
def modules(draw: st.DrawFn) -> Module:
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        parts.append(draw(templates).format(draw(expressions()), draw(expressions())))
        parts.append(draw(st.sampled_from(["", "", "  # end", "\n\x0c", "\n\n"])) + "\n")
    source = "".join(parts).replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"])))
    try:
        return Module(source)
    except SyntaxError:
        assume(False)
        raise


# Random requests, and what they mean on the stdlib tree.

codes = st.sampled_from(
    ["n", "m + n", "m or n", "lambda: n", "-1", "m, n", "m if n else o", "f(n)", "(yield)", "m < n", "'t'"]
)
wraps = st.sampled_from(
    [("", "[None]"), ("jnp.array([", "])"), ("lambda *r: ", "(*r)"), ("-", ""), ("f(", ", 1)"), ("", " + 1")]
)


@st.composite
def edits(draw: st.DrawFn, module: Module) -> Edit:
    nodes = [
        node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.expr)
        and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        and not isinstance(node, ast.Slice | ast.Starred)
        and not any(isinstance(ancestor, ast.JoinedStr) for ancestor in module.ancestors(node))
    ]
    node = draw(st.sampled_from(nodes))
    place = Range.of(node)
    kind = draw(st.integers(0, 6 if isinstance(node, ast.Call) else 1))
    match kind:
        case 0:
            return Replace(place, draw(codes))
        case 1:
            return Wrap(place, *draw(wraps))
        case 2:
            return SetArgument(place, draw(st.sampled_from(["k", "new"])), draw(codes))
        case 3:
            return RenameArgument(place, "k", "renamed")
        case 4:
            return RemoveArgument(place, draw(st.sampled_from(["k", "l", 0, 1])))
    return PositionalToKeyword(place, ((draw(st.integers(0, 1)), "named"),))


class Meaning(ast.NodeTransformer):
    """Carries edits out on the stdlib tree. Each is known by its range."""

    def __init__(self, requests: list[Edit]) -> None:
        self.requests = {(edit.at, isinstance(edit, Replace | Wrap)): edit for edit in requests}
        self.done = 0

    def visit(self, node: ast.AST) -> ast.AST:
        place = Range.of(node) if isinstance(node, ast.expr) else None
        if not isinstance(node, ast.JoinedStr):  # Python 3.11 gives the parts of an f-string the place of the whole
            node = self.generic_visit(node)
        if place is not None and isinstance(node, ast.Call) and (place, False) in self.requests:
            self.done += 1
            self.arguments(node, self.requests.pop((place, False)))
        if place is not None and (place, True) in self.requests:
            self.done += 1
            edit = self.requests.pop((place, True))
            if isinstance(edit, Replace):
                return ast.parse(f"({edit.code})", mode="eval").body
            assert isinstance(edit, Wrap)
            whole = ast.parse(f"({edit.before}HOLE{edit.after})", mode="eval")
            return Fill(node).visit(whole).body
        return node

    def arguments(self, call: ast.Call, edit: Edit) -> None:
        match edit:
            case SetArgument():
                value = ast.parse(f"({edit.code})", mode="eval").body
                old = [keyword for keyword in call.keywords if keyword.arg == edit.name]
                if old:
                    old[0].value = value
                else:
                    place = next((i for i, item in enumerate(call.keywords) if item.arg is None), len(call.keywords))
                    call.keywords.insert(place, ast.keyword(edit.name, value))
            case RenameArgument():
                next(item for item in call.keywords if item.arg == edit.old).arg = edit.new
            case RemoveArgument():
                if isinstance(edit.name, int):
                    del call.args[edit.name]
                else:
                    call.keywords = [item for item in call.keywords if item.arg != edit.name]
            case PositionalToKeyword():
                for index, name in edit.names:
                    call.keywords.insert(0, ast.keyword(name, call.args.pop(index)))


class Fill(ast.NodeTransformer):
    def __init__(self, node: ast.AST) -> None:
        self.node = node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.node if node.id == "HOLE" else node


def comments(source: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source, newline="").readline)
    return Counter(token.string.rstrip("\r\n") for token in tokens if token.type == tokenize.COMMENT)


def check(data: st.DataObject) -> None:
    """One fix of random edits: compare the text with what the edits mean on the tree."""
    module = data.draw(modules())
    requests = data.draw(st.lists(edits(module), min_size=1, max_size=3, unique_by=lambda edit: edit.at))
    fix = Fix(tuple(requests))
    result = apply(module, [fix])
    if result.refused:
        assert result.source == module.source
        reason = result.refused[0][1]
        assert any(
            words in reason
            for words in (
                "has no",
                "follow",
                "twice",
                "replaces",
                "f-string",
                "no expression of its own",
                "no other expression",
                "several indices are no expression",
            )
        ), (reason, module.source)
        return
    assert result.applied == (fix,)
    spans = [module.span(edit.at) for edit in requests]
    for splice in result.splices:
        inside = [span for span in spans if splice.start <= span[0] and span[1] <= splice.end]
        around = module.source[splice.start : min(start for start, _ in inside)]
        assert set("".join(line.partition("#")[0] for line in around.splitlines())) <= set(
            "f( \t\r\n\f\\"
        )  # f: a generator borrows its parentheses
    meaning = Meaning(requests)
    expected = meaning.visit(ast.parse(module.source))
    assert meaning.done == len(requests)
    assert ast.dump(ast.parse(result.source)) == ast.dump(expected), result.source
    if all(isinstance(edit, Wrap | RenameArgument | PositionalToKeyword) for edit in requests):
        assert comments(result.source) == comments(module.source)
    assert apply(Module(result.source), []).source == result.source


@QUICK
@given(st.data())
def test_the_text_means_what_was_asked_for(data: st.DataObject) -> None:
    check(data)


@pytest.mark.slow
@SLOW
@given(st.data())
def test_the_text_means_what_was_asked_for_at_length(data: st.DataObject) -> None:
    check(data)


@QUICK
@given(st.data())
def test_renaming_there_and_back_keeps_every_byte(data: st.DataObject) -> None:
    module = data.draw(modules())
    calls = [
        node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and any(k.arg == "k" for k in node.keywords)
    ]
    assume(calls)
    call = data.draw(st.sampled_from(calls))
    there = apply(module, [Fix((RenameArgument(Range.of(call), "k", "z"),))])
    assume(there.applied)
    renamed = Module(there.source)
    again = at(renamed, renamed.source[module.span(call)[0] : module.span(call)[1]], ast.Call)
    assert apply(renamed, [Fix((RenameArgument(again, "z", "k"),))]).source == module.source


@QUICK
@given(st.data())
def test_fixes_applied_one_by_one_or_together_give_the_same(data: st.DataObject) -> None:
    module = data.draw(modules())
    fixes = [
        Fix((edit,)) for edit in data.draw(st.lists(edits(module), min_size=2, max_size=4, unique_by=lambda e: e.at))
    ]
    together = apply(module, fixes)
    assert len(together.applied) + len(together.postponed) + len(together.refused) == len(fixes)
    alone = [splice for fix in together.applied for splice in apply(module, [fix]).splices]
    assert tuple(sorted(alone, key=lambda splice: splice.start)) == together.splices
