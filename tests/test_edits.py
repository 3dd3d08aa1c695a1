"""The pen: each request on code as people write it."""

from __future__ import annotations

import ast
import subprocess
import sys
import time

import pytest
from edits_helpers import at, carry_out, edit_of, edited, refusal

from shardfix.codemod import Fix, Range
from shardfix.edits import (
    DropImport,
    InsertDefinition,
    InsertStatement,
    KeywordToPositional,
    PositionalToKeyword,
    RemoveArgument,
    RemoveAs,
    RemoveStatement,
    RenameArgument,
    Replace,
    SetArgument,
    Wrap,
)
from shardfix.edits.pen import apply, carries_comments
from shardfix.semantics.module import Module


@pytest.mark.parametrize(
    ("source", "old", "new", "expected"),
    [
        ("x = a * b\n", "a", "c + d", "x = (c + d) * b\n"),
        ("x = a + b\n", "a", "c + d", "x = c + d + b\n"),
        ("x = b + a\n", "a", "c + d", "x = b + (c + d)\n"),
        ("x = a.b\n", "a", "1", "x = (1).b\n"),
        ("x = a.b\n", "a", "-c", "x = (-c).b\n"),
        ("x = a[0]\n", "a", "lambda: 0", "x = (lambda: 0)[0]\n"),
        ("x = -a\n", "a", "b ** c", "x = -b ** c\n"),
        ("x = a ** b\n", "a", "-c", "x = (-c) ** b\n"),
        ("x = f(a)\n", "a", "b if c else d", "x = f(b if c else d)\n"),
        ("x = f(*a)\n", "a", "b if c else d", "x = f(*b if c else d)\n"),
        ("x = a.b()\n", "a", "b if c else d", "x = (b if c else d).b()\n"),
        ("x = [y for y in a]\n", "a", "b if c else d", "x = [y for y in (b if c else d)]\n"),
        ("x = f(k=a)\n", "a", "(y := 1)", "x = f(k=(y := 1))\n"),
        ("x = f(k=a)\n", "a", "b, c", "x = f(k=(b, c))\n"),
        ("x = f(a)\n", "a", "b, c", "x = f((b, c))\n"),
        ("x = d[a]\n", "a", "b, c", "x = d[b, c]\n"),
        ("return_ = a\n", "a", "b, c", "return_ = b, c\n"),
        ("x = not a\n", "a", "b or c", "x = not (b or c)\n"),
        ("async def f():\n    return await a\n", "a", "b or c", "async def f():\n    return await (b or c)\n"),
        ("async def f():\n    return (await a).x\n", "await a", "b", "async def f():\n    return b.x\n"),
        ("x = (a)\n", "a", "b", "x = (b)\n"),
        ("x = (a + b) * c\n", "a + b", "d", "x = d * c\n"),
        ("x = (a + b) * c\n", "a + b", "d - e", "x = (d - e) * c\n"),
        ("x = [a]if(b)else c\n", "b", "d", "x = [a]if(d)else c\n"),
        ("x = [a]if b else c\n", "[a]", "d", "x = (d)if b else c\n"),
        ("def f():\n    return(a + b)\n", "a + b", "c", "def f():\n    return(c)\n"),
        ("x = f(y for y in z)\n", "(y for y in z)", "w", "x = f(w)\n"),
        ("@a.b\ndef f(): pass\n", "a.b", "c(d)", "@c(d)\ndef f(): pass\n"),
        ("@(a)\ndef f(): pass\n", "a", "c(d)", "@(c(d))\ndef f(): pass\n"),
        ("class A((B)): pass\n", "B", "C", "class A((C)): pass\n"),
        ("class A(B): pass\n", "B", "C", "class A(C): pass\n"),
        ("def f(a=(b), *, c: d = 1) -> e: pass\n", "b", "g", "def f(a=(g), *, c: d = 1) -> e: pass\n"),
        ("def f(a=(b), *, c: d = 1) -> e: pass\n", "d", "g", "def f(a=(b), *, c: g = 1) -> e: pass\n"),
        ("def f(a=(b), *, c: d = 1) -> e: pass\n", "e", "g", "def f(a=(b), *, c: d = 1) -> g: pass\n"),
        ("with a as b: pass\n", "a", "c(d)", "with c(d) as b: pass\n"),
        ("with (a as b, c): pass\n", "c", "d", "with (a as b, d): pass\n"),
        ("with a: pass\n", "a", "lambda: b", "with lambda: b: pass\n"),
        ("x = 'é', a\n", "a", "b", "x = 'é', b\n"),
        ("x = (\n    a  # why\n)\n", "a", "b", "x = (\n    b  # why\n)\n"),
        ("x = (  # why\n    a + b\n).c\n", "a + b", "d", "x = (  # why\n    d\n).c\n"),
        ("x = 1 if a else b\n", "a", "lambda: c", "x = 1 if (lambda: c) else b\n"),
        ("x = f(a)(b)\n", "f(a)", "lambda: c", "x = (lambda: c)(b)\n"),
        ("x = {**a}\n", "a", "b or c", "x = {**(b or c)}\n"),
        ("x = y[a:b]\n", "a", "c, d", "x = y[(c, d):b]\n"),
        ("x = a < b\n", "b", "c < d", "x = a < (c < d)\n"),
        ("def f():\n    yield a\n", "a", "b, c", "def f():\n    yield b, c\n"),
        ("x = a\\\n    + b\n", "a", "c", "x = c\\\n    + b\n"),
    ],
)
def test_replace_puts_parentheses_where_they_are_needed(source, old, new, expected):
    assert edited(source, (Replace, old, new)) == expected


@pytest.mark.parametrize(
    ("source", "old", "before", "after", "expected"),
    [
        ("x = a + b\n", "a + b", "", "[None]", "x = (a + b)[None]\n"),
        ("x = (a + b)\n", "a + b", "", "[None]", "x = (a + b)[None]\n"),
        ("x = (a + b).c\n", "a + b", "", "[None]", "x = (a + b)[None].c\n"),
        ("x = ((a + b))\n", "a + b", "", "[None]", "x = ((a + b))[None]\n"),
        ("x = a.b(c)\n", "a.b(c)", "", "[None]", "x = a.b(c)[None]\n"),
        (
            "async def f():\n    return await x\n",
            "await x",
            "",
            "[None]",
            "async def f():\n    return (await x)[None]\n",
        ),
        ("x = lambda: y\n", "lambda: y", "", "[None]", "x = (lambda: y)[None]\n"),
        ("x = a if b else c\n", "a if b else c", "", "[None]", "x = (a if b else c)[None]\n"),
        ("x = -y\n", "-y", "", "[None]", "x = (-y)[None]\n"),
        ("x = 1\n", "1", "", ".real", "x = (1).real\n"),
        ("x = 1\n", "1", "jnp.array([", "])", "x = jnp.array([1])\n"),
        ("x = a, b\n", "a, b", "f(", ")", "x = f((a, b))\n"),
        ("x = (a, b)\n", "(a, b)", "f(", ")", "x = f((a, b))\n"),
        ("x = f(y for y in z)\n", "(y for y in z)", "list(", ")", "x = f(list((y for y in z)))\n"),
        ("x = f(y for y in z)\n", "(y for y in z)", "jnp.array([", "])", "x = f(jnp.array([(y for y in z)]))\n"),
        ("f(y := 1)\n", "y := 1", "g([", "])", "f(g([y := 1]))\n"),
        ("f(y := 1)\n", "y := 1", "", "[None]", "f((y := 1)[None])\n"),
        ("x = y * (a + b)\n", "a + b", "g(", ")", "x = y * g(a + b)\n"),
        ("x = y * g\n", "g", "lambda *args: ", "(*args)[None]", "x = y * (lambda *args: g(*args)[None])\n"),
        ("h(g, 1)\n", "g", "lambda *args: ", "(*args)[None]", "h(lambda *args: g(*args)[None], 1)\n"),
        (
            "h(lambda: 0, 1)\n",
            "lambda: 0",
            "lambda *args: ",
            "(*args)[None]",
            "h(lambda *args: (lambda: 0)(*args)[None], 1)\n",
        ),
        (
            "def f():\n    return (\n        a  # one\n        + b  # two\n    )\n",
            "a  # one\n        + b",
            "",
            "[None]",
            "def f():\n    return (\n        a  # one\n        + b  # two\n    )[None]\n",
        ),
        (
            "x = [\n    a +  # one\n    b,\n]\n",
            "a +  # one\n    b",
            "g(",
            ")",
            "x = [\n    g(a +  # one\n    b),\n]\n",
        ),
        ("def f():\n    return(a)\n", "a", "g(", ")", "def f():\n    return(g(a))\n"),
    ],
)
def test_wrap_keeps_the_code_within(source, old, before, after, expected):
    assert edited(source, (Wrap, old, before, after)) == expected


CALL = "f(\n    a,\n    b=1,  # why\n    # about c\n    c=2,\n)"


@pytest.mark.parametrize(
    ("source", "call", "expected"),
    [
        ("f()\n", "f()", "f(k=v)\n"),
        ("f( )\n", "f( )", "f(k=v)\n"),
        ("f(a)\n", "f(a)", "f(a, k=v)\n"),
        ("f(a,)\n", "f(a,)", "f(a, k=v,)\n"),
        ("f(a, **kw)\n", "f(a, **kw)", "f(a, k=v, **kw)\n"),
        ("f(**kw)\n", "f(**kw)", "f(k=v, **kw)\n"),
        ("f(*args)\n", "f(*args)", "f(*args, k=v)\n"),
        ("f(a for a in b)\n", "f(a for a in b)", "f((a for a in b), k=v)\n"),
        ("f(k=1)\n", "f(k=1)", "f(k=v)\n"),
        ("f(a, k = 1, b = 2)\n", "f(a, k = 1, b = 2)", "f(a, k = v, b = 2)\n"),
        ("f(b = 2)\n", "f(b = 2)", "f(b = 2, k = v)\n"),
        (CALL, CALL, CALL[:-1] + "    k=v,\n)"),
        ("f(\n    a,\n    b\n)\n", "f(\n    a,\n    b\n)", "f(\n    a,\n    b,\n    k=v\n)\n"),
        ("f(\n    a,\n    b  # why\n)\n", "f(\n    a,\n    b  # why\n)", "f(\n    a,\n    b,  # why\n    k=v\n)\n"),
        ("f(a,\n  b)\n", "f(a,\n  b)", "f(a,\n  b,\n  k=v)\n"),
        ("f(\n    a, b\n)\n", "f(\n    a, b\n)", "f(\n    a, b, k=v\n)\n"),
        ("f(\n    a\n)\n", "f(\n    a\n)", "f(\n    a,\n    k=v\n)\n"),
        ("f(\n\ta,\n\t**kw,\n)\n", "f(\n\ta,\n\t**kw,\n)", "f(\n\ta,\n\tk=v,\n\t**kw,\n)\n"),
        (
            "f(\n\ta,\n\t# rest\n\t**kw,\n)\n",
            "f(\n\ta,\n\t# rest\n\t**kw,\n)",
            "f(\n\ta,\n\tk=v,\n\t# rest\n\t**kw,\n)\n",
        ),
        ("f(  # why\n)\n", "f(  # why\n)", "f(  # why\n    k=v,\n)\n"),
    ],
)
def test_set_argument_keeps_the_layout(source, call, expected):
    assert edited(source, (SetArgument, call, "k", "v")) == expected


@pytest.mark.parametrize(
    ("source", "call", "name", "expected"),
    [
        ("f(b=1)\n", "f(b=1)", "b", "f()\n"),
        ("f(b=1,)\n", "f(b=1,)", "b", "f()\n"),
        ("f(a, b=1)\n", "f(a, b=1)", "b", "f(a)\n"),
        ("f(a, b=1,)\n", "f(a, b=1,)", "b", "f(a,)\n"),
        ("f(a, b=1, c=2)\n", "f(a, b=1, c=2)", "b", "f(a, c=2)\n"),
        ("f(a, b=1)\n", "f(a, b=1)", 0, "f(b=1)\n"),
        (CALL, CALL, "b", "f(\n    a,\n    # about c\n    c=2,\n)"),
        (CALL, CALL, "c", "f(\n    a,\n    b=1,  # why\n    # about c\n)"),
        (CALL, CALL, 0, CALL.replace("    a,\n", "")),
        ("f(\n    a,\n    b=1\n)\n", "f(\n    a,\n    b=1\n)", "b", "f(\n    a\n)\n"),
        ("f(\n    a,  # first\n    b=1\n)\n", "f(\n    a,  # first\n    b=1\n)", "b", "f(\n    a  # first\n)\n"),
        ("f(\n    b=1,\n)\n", "f(\n    b=1,\n)", "b", "f()\n"),
        ("f(a, b=1,  # line\n  c=2)\n", "f(a, b=1,  # line\n  c=2)", "b", "f(a,  # line\n  c=2)\n"),
        ("f(a,\n  b=1, c=2)\n", "f(a,\n  b=1, c=2)", "b", "f(a,\n  c=2)\n"),
        ("f(a,\n  b=1)\n", "f(a,\n  b=1)", "b", "f(a)\n"),
        ("f(a,\n  b=1)\n", "f(a,\n  b=1)", 0, "f(b=1)\n"),
    ],
)
def test_remove_argument_takes_its_line(source, call, name, expected):
    assert edited(source, (RemoveArgument, call, name)) == expected


def test_rename_argument():
    assert edited("f(a, b = 1)\n", (RenameArgument, "f(a, b = 1)", "b", "c")) == "f(a, c = 1)\n"
    assert "twice" in refusal("f(b=1, c=2)\n", (RenameArgument, "f(b=1, c=2)", "b", "c"))
    assert "no argument d=" in refusal("f(b=1)\n", (RenameArgument, "f(b=1)", "d", "c"))
    assert "no argument d=" in refusal("f(**kw)\n", (RenameArgument, "f(**kw)", "d", "c"))


def test_positional_to_keyword():
    names = ((1, "mesh"), (2, "in_specs"))
    assert edited("f(a, m, s)\n", (PositionalToKeyword, "f(a, m, s)", names)) == "f(a, mesh=m, in_specs=s)\n"
    multi = "f(\n    a,\n    m,  # the mesh\n    (s),\n)"
    expected = "f(\n    a,\n    mesh=m,  # the mesh\n    in_specs=(s),\n)\n"
    assert edited(multi + "\n", (PositionalToKeyword, multi, names)) == expected
    assert edited("f(a, m := 1)\n", (PositionalToKeyword, "f(a, m := 1)", ((1, "mesh"),))) == "f(a, mesh=(m := 1))\n"
    assert "follow" in refusal("f(a, m, s)\n", (PositionalToKeyword, "f(a, m, s)", ((1, "mesh"),)))
    assert "positional argument 1" in refusal("f(a, *m)\n", (PositionalToKeyword, "f(a, *m)", ((1, "mesh"),)))
    assert "positional argument 1" in refusal("f(*a, m)\n", (PositionalToKeyword, "f(*a, m)", ((1, "mesh"),)))


def test_keyword_to_positional():
    assert edited("g(f=a, m=b)\n", (KeywordToPositional, "g(f=a, m=b)", "f")) == "g(a, m=b)\n"
    assert edited("g(m=b, f=a)\n", (KeywordToPositional, "g(m=b, f=a)", "f")) == "g(a, m=b)\n"
    source = "g(\n    m=b,  # mesh\n    f=a,  # function\n)"
    assert edited(source, (KeywordToPositional, source, "f")) == "g(\n    a,  # function\n    m=b,  # mesh\n)"


def test_edits_within_edits_of_one_fix():
    source = "y = shard_map(body, mesh, P('x'), check_rep=False)\n"
    call = source[4:-1]
    assert edited(
        source,
        (Replace, "shard_map", "jax.shard_map"),
        (Wrap, "body", "lambda *a: ", "(*a)[None]"),
        (PositionalToKeyword, call, ((1, "mesh"), (2, "in_specs"))),
        (RenameArgument, call, "check_rep", "check_vma"),
        (SetArgument, call, "out_specs", "P()"),
        (Replace, "'x'", "'é'"),
        (Wrap, call, "jax.jit(", ")"),
    ) == (
        "y = jax.jit(jax.shard_map(lambda *a: body(*a)[None], mesh=mesh, in_specs=P('é'), check_vma=False, out_specs=P()))\n"
    )


def test_an_edit_in_replaced_code_is_refused():
    assert "replaces" in refusal("f(g(a))\n", (Replace, "g(a)", "b"), (Replace, "a", "c"))
    assert "replaces" in refusal("f(k=a.b)\n", (SetArgument, "f(k=a.b)", "k", "b"), (Replace, "a", "c"))
    assert "replaces" in refusal("f(k=a.b)\n", (RemoveArgument, "f(k=a.b)", "k"), (Replace, "a", "c"))
    assert "contradict" in refusal("f(a)\n", (Replace, "a", "b"), (Replace, "a", "c"))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_tabs_and_form_feeds_stay(newline):
    source = "x = 1\n\x0c\ndef f():\n\treturn g(\n\t\ta,\x0c  # é\n\t\tb='\u2028',\n\t)\n".replace("\n", newline)
    call = source[source.index("g(") : -len(newline)]
    expected = source.replace("',", f"',{newline}\t\tk=v,").replace("a,", "c,")
    assert edited(source, (SetArgument, call, "k", "v"), (Replace, "a", "c")) == expected


def test_f_strings_are_left_alone():
    assert "f-string" in refusal("x = f'{a}'\n", (Replace, "a", "b")) if sys.version_info >= (3, 12) else True
    result = carry_out("x = f(a, f'{b}')\n", (Replace, "a", "c"))
    assert result.source == "x = f(c, f'{b}')\n"


def test_bad_requests_are_refused_with_a_reason():
    module = Module("x = f(a)\n")
    nowhere = Range(7, 0, 7, 5)
    for edit, words in [
        (Replace(nowhere, "b"), "no expression"),
        (Replace(at(module, "a"), "b +"), "not an expression"),
        (Wrap(at(module, "a"), "b(", ""), "not an expression"),
        (SetArgument(at(module, "f(a)"), "k", "b +"), "not an expression"),
        (SetArgument(at(module, "a"), "k", "b"), "no call"),
        (RemoveArgument(at(module, "f(a)"), 3), "no positional argument 3"),
        (InsertStatement(nowhere, "pass"), "no statement"),
        (InsertStatement(at(module, "x = f(a)", ast.stmt), "if"), "not a statement"),
        (DropImport(at(module, "x = f(a)", ast.stmt), "x"), "no import"),
    ]:
        result = apply(module, [Fix((edit,))])
        assert result.source == module.source
        assert words in result.refused[0][1], (edit, result.refused)
    assert apply(module, [Fix(())]).refused


def test_a_value_cannot_stand_where_a_name_is_bound():
    assert "stored" in refusal("for x in y:\n    pass\n", (Replace, "x", "f(x)"))
    assert edited("a.b = 1\n", (Replace, "a.b", "c.d")) == "c.d = 1\n"


# Several fixes


def fixes_of(module, *requests):
    return [Fix(tuple(edit_of(module, request) for request in fix)) for fix in requests]


def test_fixes_that_touch_wait():
    module = Module("x = f(a, b)\n")
    outer, inner, beside = fixes_of(
        module, [(RenameArgument, "f(a, b)", "k", "l")], [(Replace, "a", "c")], [(Replace, "b", "d")]
    )
    result = apply(module, [inner, beside])
    assert result.source == "x = f(c, d)\n"
    assert result.applied == (inner, beside)
    result = apply(module, [inner, outer, beside])
    assert result.postponed == (outer,)


def test_fixes_end_to_end_wait():
    module = Module("a()\nb()\n")
    first = Fix((RemoveStatement(at(module, "a()", ast.stmt)),))
    second = Fix((Replace(at(module, "b"), "c"),))
    result = apply(module, [first, second])
    assert (result.applied, result.postponed) == ((first,), (second,))
    both = Fix((*first.edits, *second.edits))
    assert apply(module, [both]).source == "c()\n"


def test_statements_in_the_place_of_one():
    module = Module("def f():\n    with a:  # why\n        return b\n\n\nc()\n")
    place = at(module, "with a:  # why\n        return b", ast.stmt)
    fix = Fix((InsertStatement(place, "d()\nreturn b"), RemoveStatement(place)))
    assert apply(module, [fix]).source == "def f():\n    d()\n    return b\n\n\nc()\n"


def test_a_refused_edit_takes_its_fix_along():
    module = Module("x = f(a)\ny = g(b)\n")
    bad = Fix((Replace(at(module, "a"), "c"), RenameArgument(at(module, "g(b)"), "k", "l")))
    good = Fix((Replace(at(module, "b"), "c"),))
    result = apply(module, [bad, good])
    assert result.source == "x = f(a)\ny = g(c)\n"
    assert [fix for fix, _ in result.refused] == [bad]


def test_fixes_share_an_identical_edit():
    module = Module("import m\nx = f(a)\ny = g(b)\n")
    shared = InsertStatement(at(module, "x = f(a)", ast.stmt), "s = m.s()")
    fixes = [Fix((shared, Replace(at(module, "a"), "s"))), Fix((shared, Replace(at(module, "b"), "s")))]
    result = apply(module, fixes)
    assert result.source == "import m\ns = m.s()\nx = f(s)\ny = g(s)\n"
    assert result.applied == tuple(fixes)


# Statements


@pytest.mark.parametrize(
    ("source", "statement", "code", "expected"),
    [
        ("a()\n", "a()", "b()", "b()\na()\n"),
        ("if x:\n\ta()\n", "a()", "if b:\n    c()", "if x:\n\tif b:\n\t    c()\n\ta()\n"),
        ("if x: a()\n", "a()", "b()", "if x: b(); a()\n"),
        ("a(); c()\n", "c()", "b()", "a(); b(); c()\n"),
        ("a(); c()\n", "a()", "b()", "b()\na(); c()\n"),
        ("# note\na()\n", "a()", "b()", "# note\nb()\na()\n"),
        ("if x:\r\n    a()\r\n", "a()", "b()\nc()", "if x:\r\n    b()\r\n    c()\r\n    a()\r\n"),
        ("if x:\n    a()\n", "a()", 's = """\nq"""', 'if x:\n    s = """\nq"""\n    a()\n'),
        ("@d\n# why\n@e\ndef f(): pass\n", "def f(): pass", "b()", "b()\n@d\n# why\n@e\ndef f(): pass\n"),
    ],
)
def test_insert_statement(source, statement, code, expected):
    assert edited(source, (InsertStatement, statement, code)) == expected


def test_insert_statement_refuses_what_cannot_be():
    assert "shares its line" in refusal("if x: a()\n", (InsertStatement, "a()", "if b:\n    c()"))
    source = "if x:\n    a()\nelif y:\n    b()\n"
    assert "elif" in refusal(source, (InsertStatement, "elif y:\n    b()", "c()"))


@pytest.mark.parametrize(
    ("source", "statement", "expected"),
    [
        ("a()\nb()\nc()\n", "b()", "a()\nc()\n"),
        ("a()\nb()  # why\nc()\n", "b()  ".strip(), "a()\nc()\n"),
        ("a()\nb()", "b()", "a()\n"),
        ("a(); b(); c()\n", "b()", "a(); c()\n"),
        ("a(); b()\n", "b()", "a()\n"),
        ("a(); b();\n", "b()", "a();\n"),
        ("b(); c()\n", "b()", "c()\n"),
        ("if x:\n    b()\nc()\n", "b()", "if x:\n    pass\nc()\n"),
        ("if x:\n    b()  # why\nc()\n", "b()", "if x:\n    pass  # why\nc()\n"),
        ("if x: b()\n", "b()", "if x: pass\n"),
        ("if x: b(); c()\n", "b()", "if x: c()\n"),
        ("a()\n\nb()\n\nc()\n", "b()", "a()\n\nc()\n"),
        ("a()\n\nb()\n\n\ndef c(): pass\n", "b()", "a()\n\n\ndef c(): pass\n"),
        ("a()\r\nb()\r\nc()\r\n", "b()", "a()\r\nc()\r\n"),
        ("a()\n@d\ndef b():\n    pass\nc()\n", "def b():\n    pass", "a()\nc()\n"),
        ("b()\n", "b()", ""),
    ],
)
def test_remove_statement(source, statement, expected):
    assert edited(source, (RemoveStatement, statement)) == expected


HELPER = "def helper(x):\n    return x[None]"


def test_insert_definition_goes_after_the_imports():
    source = '"""Doc."""\nimport jax\ntry:\n    import a\nexcept ImportError:\n    a = None\n\nSIZE = 1\n\n\ndef f():\n    return g()\n'
    expected = source.replace("a = None\n", f"a = None\n\n\n{HELPER}\n\n").replace("\n\n\nSIZE", "\n\n\nSIZE")
    result = edited(source, (InsertDefinition, "g()", "helper", HELPER), (Replace, "g", "helper"))
    assert result == expected.replace("g()", "helper()")


def test_insert_definition_takes_the_place_of_the_last_import():
    for before, blank in (("import jax\n", "\n\n"), ("", "")):
        source = f"{before}from m import g\n\n\ndef f():\n    return g()\n"
        requests = (
            (InsertDefinition, "g()", "helper", HELPER),
            (Replace, "g", "helper"),
            (DropImport, "from m import g", "g"),
        )
        assert edited(source, *requests) == f"{before}{blank}{HELPER}\n\n\ndef f():\n    return helper()\n"
        windows = edited(source.replace("\n", "\r\n"), *requests)
        assert windows == f"{before}{blank}{HELPER}\n\n\ndef f():\n    return helper()\n".replace("\n", "\r\n")


def test_insert_definition_once_for_all():
    module = Module("import jax\nx = g(1)\n\n\ndef f():\n    return g(2)\n")
    fixes = [
        Fix((InsertDefinition(at(module, call), "helper", HELPER), Replace(at(module, "g", index=index), "helper")))
        for index, call in enumerate(["g(1)", "g(2)"])
    ]
    result = apply(module, fixes)
    assert result.source == (f"import jax\n\n\n{HELPER}\n\n\nx = helper(1)\n\n\ndef f():\n    return helper(2)\n")
    again = Module(result.source)
    later = Fix((InsertDefinition(at(again, "helper(2)"), "helper", HELPER), Replace(at(again, "2"), "3")))
    assert apply(again, [later]).source.count("def helper") == 1


def test_insert_definition_refuses_a_name_that_is_taken():
    assert "taken" in refusal("helper = 1\nx = g()\n", (InsertDefinition, "g()", "helper", HELPER))
    source = "def f(helper):\n    return g()\n"
    assert "taken" in refusal(source, (InsertDefinition, "g()", "helper", HELPER))


# Comments


def guard(source, *requests):
    module = Module(source)
    return carries_comments(module, Fix(tuple(edit_of(module, request) for request in requests)))


def test_the_guard_notices_comments_that_go():
    assert not guard(CALL, (RemoveArgument, CALL, "b"))
    assert guard(CALL, (RemoveArgument, CALL, "c"))
    assert guard(CALL, (SetArgument, CALL, "k", "v"))
    assert not guard("x = f(\n    a  # why\n    + b\n)\n", (Replace, "a  # why\n    + b", "c"))
    assert not guard("a()\nb()  # why\n", (RemoveStatement, "b()"))
    assert guard("x = '# no comment'\n", (Replace, "'# no comment'", "1"))
    assert guard("from a import b  # noqa: E402\n", (DropImport, "from a import b", "b"))
    assert not guard("from a import b  # for the tests\n", (DropImport, "from a import b", "b"))
    text = "f(\n    a,  # why\n)"
    assert guard(f"x = {text}\n", (InsertStatement, f"x = {text}", f"y = {text}"), (Replace, text, "y"))


# The name that a with item binds


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("with f(a) as b: pass\n", "with f(a): pass\n"),
        ("with (f(a)) as (b), c: pass\n", "with (f(a)), c: pass\n"),
        ("with (\n    f(a)\n    as b,\n): pass\n", "with (\n    f(a),\n): pass\n"),
        ("with f(a) \\\n  as b: pass\n", "with f(a): pass\n"),
        ("with c as d, f(a) as b.c[0]: pass\n", "with c as d, f(a): pass\n"),
    ],
)
def test_the_name_that_as_binds_goes(before: str, after: str) -> None:
    assert edited(before, (RemoveAs, "f(a)")) == after


def test_nothing_goes_where_no_name_is_bound() -> None:
    assert "no `as`" in refusal("with f(a): pass\n", (RemoveAs, "f(a)"))
    assert "no `as`" in refusal("f(a)\n", (RemoveAs, "f(a)"))
    assert "a comment" in refusal("with (f(a)  # why\n  as b): pass\n", (RemoveAs, "f(a)"))


# Cost


def test_importing_the_edits_does_not_import_libcst():
    code = "import sys, shardfix.edits, shardfix.edits.pen; sys.exit('libcst' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_edit_does_not_cost_a_parse_of_the_whole_file():
    import libcst

    line = "def f{0}(a, b):\n    x = g(a, b, key=[a, b, {0}])\n    return x\n\n"
    module = Module("".join(line.format(number) for number in range(1500)))
    fix = Fix((SetArgument(at(module, "g(a, b, key=[a, b, 1400])"), "k", "1"),))
    apply(module, [fix])
    start = time.perf_counter()
    result = apply(module, [fix])
    spent = time.perf_counter() - start
    assert result.applied
    start = time.perf_counter()
    libcst.parse_module(module.source)
    assert spent < (time.perf_counter() - start) / 4
