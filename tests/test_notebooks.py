"""Notebooks: read as one program, and changed in no byte but those of the code that is repaired."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from conftest import Run
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_fixtures import CASES, Case, set_up
from test_fixtures import change as change_program
from test_fixtures import jax_process as jax_process
from test_fixtures import run as run

from shardfix.files import FileProblem
from shardfix.notebooks import Notebook
from shardfix.notebooks.magics import Magics, unmasked
from shardfix.outcomes import FileOutcome, Outcome
from shardfix.runner import Task, Worker
from shardfix.settings import Settings

if TYPE_CHECKING:
    from jax_process import Program

Command = Callable[..., Run]
change = change_program


def notebook(*cells: str, indent: int = 1, **more: object) -> bytes:
    """A notebook of code cells as Jupyter writes it."""
    code = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    content = {
        "cells": [{**code, "source": cell.splitlines(keepends=True)} for cell in cells],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 4,
        **more,
    }
    return json.dumps(content, indent=indent, ensure_ascii=False).encode() + b"\n"


def code_of(data: bytes) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(data)["cells"] if cell["cell_type"] == "code"]


def analysed(data: bytes) -> FileOutcome:
    return Worker().analyse(Task("a.ipynb", data, Settings(target_jax="0.12")))


@pytest.fixture
def here(sample: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Magics


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("%matplotlib inline", "_0__()"),
        ("x = 1\n  \n%load_ext a.b\ny", "x = 1\n  \n_0__()\ny"),
        ("!pip install -U jax", "_0__()"),
        ("%lprun -f f f(x.y)", "_0__(f, x)"),
        ("!ls {here} $there \\\n  -l", "_0__(here, there\n)"),
        ("if x:\n    !ls", "if x:\n    _0__()"),
        ("files = !ls", "files = _0__()"),
        ("a, b[0] = %sql select", "a, b[0] = _0__(select)"),
        ("jax.jit?", "_0__(jax)"),
        ("?jax", "_0__(jax)"),
        ("x??", "_0__(x)"),
        ("pip install jax", "_0__()"),
        ("%time y = f(x)", "_0__; y = f(x)"),
        ("%timeit -n 10 -r3 f(x)", "_0__; f(x)"),
        ("%timeit y = f(x)", "_0__(y, f, x)"),
        ("%time", "_0__()"),
        ("%%time -q\ny = f(x)\n!ls", "_0__()\ny = f(x)\n_1__()"),
        ("\n%%bash\nls {x\n", "_0__(ls, x\n\n\n)"),
        ("%%timeit\nf(x)", "_0__(f, x\n)"),
        # all Python
        ("x = a\\\n% b", None),
        ("x = (a\n% b\n% c)", None),
        ("x = '''\n%d\n!'''", None),
        ('x = """\n%d\n\\"""\n!"""', None),
        ("# what?\nx = 1", None),
        ("x = '%s' % y", None),
        ("x %= 3; y != 2", None),
        ("x = [\n  # (\n  1]", None),
        ("", None),
        ("  \n", None),
        ("pip = 1", None),
    ],
)
def test_magics_are_told_from_python(cell: str, code: str | None) -> None:
    masked, masks = Magics("m").mask(cell)
    assert masked.replace("m_", "_") == (cell if code is None else code)
    ast.parse(masked)
    assert masked.count("\n") == cell.count("\n")
    assert unmasked(masked, masks) == cell


@given(st.text(st.sampled_from("%!?,;/=x'\"#([)] \\\n\r\t")))
def test_any_text_comes_back_from_its_mask(cell: str) -> None:
    masked, masks = Magics("m").mask(cell)
    assert unmasked(masked, masks) == cell
    assert len(re.split("\r\n|\r|\n", masked)) == len(re.split("\r\n|\r|\n", cell))


def test_what_a_magic_uses_counts_as_used() -> None:
    done = analysed(notebook("from jax.experimental.pjit import pjit", "step = pjit(f)", "%memit pjit"))
    assert done.after
    imports, *others = code_of(done.after)
    assert "from jax.experimental.pjit import pjit" in imports
    assert others == ["step = jax.jit(f)", "%memit pjit"]


def test_a_magic_is_never_changed(sample: object) -> None:
    done = analysed(notebook("old", "fine\n%memit old"))
    assert (done.outcome, done.after) == (Outcome.FAILED, None)
    assert done.failures[0].reason == "not repaired: the repair would change a magic command (cell 2)"


# Bytes


@dataclass(frozen=True)
class Written:
    before: bytes
    after: bytes


WORDS = ["old", "fine", "é", "😀", '"old"', "'\\n'", "  ", "\t", "/", "1", "+", "\u2028", "# old\r", "#"]


@st.composite
def notebooks(draw: st.DrawFn) -> Written:
    """A notebook, and the same with the name ``new`` for each ``old`` in its code."""
    newline, sep = draw(st.sampled_from(["", " ", "\n", "\r\n", "\n\t  "])), draw(st.sampled_from([":", ": ", " :\n"]))
    choose = draw(st.randoms(use_true_random=False))

    def escaped(text: str) -> str:
        return "".join(character_as_json(character) for character in text)

    def character_as_json(character: str) -> str:
        ways = [json.dumps(character)[1:-1], "".join(f"\\u{unit:04x}" for unit in utf16(character))]
        ways += [json.dumps(character, ensure_ascii=False)[1:-1]] * 4
        ways += ["\\/"] if character == "/" else []
        return choose.choice(ways)

    def string(words: list[str], is_code: bool) -> tuple[str, str]:
        before = after = ""
        for word in words:
            raw = escaped(word)
            before += raw
            after += "new" if word == "old" and is_code else raw
        return f'"{before}"', f'"{after}"'

    def source(is_code: bool) -> tuple[str, str]:
        lines = draw(st.lists(st.one_of(line(), st.just(["%time ", "old", "\n"]), st.just(["!old\n"])), max_size=5))
        if draw(st.booleans()) and lines:
            lines[-1] = [word.removesuffix("\n") for word in lines[-1]]
        if draw(st.booleans()):
            return string([word for words in lines for word in words], is_code)
        pairs = [string(words, is_code) for words in lines]
        gap = "," + newline
        texts = (gap.join(texts) for texts in zip(*pairs, strict=True)) if pairs else ("", "")
        before, after = (f"[{newline}{text}{newline}]" for text in texts)
        return before, after

    def cell(number: int) -> tuple[str, str]:
        kind = draw(st.sampled_from(["code", "code", "markdown", "raw"]))
        text = source(kind == "code")
        members = [f'"cell_type"{sep}"{kind}"', '"metadata":{"old": ["\\u006fld"]}', None]
        if kind == "code":
            members += ['"outputs":[ {"text" : "old\\n", "source": "old"} ]', '"execution_count":null']
        if draw(st.booleans()):
            members.append(f'"id":"{number}"')
        choose.shuffle(members)
        key = choose.choice(['"source"', '"\\u0073ource"'])
        both = []
        for which in (0, 1):
            parts = [f"{key}{sep}{text[which]}" if member is None else member for member in members]
            both.append("{" + newline + f",{newline}".join(parts) + newline + "}")
        return both[0], both[1]

    cells = [cell(number) for number in range(draw(st.integers(0, 4)))]
    head = [f'"nbformat"{sep}4', '"nbformat_minor":5', '"metadata":{"kernelspec":{"language":"python"}}']
    place = draw(st.integers(0, 3))
    end = draw(st.sampled_from(["", "\n", "\r\n", " "]))
    bom = draw(st.sampled_from(["", "\ufeff"]))
    both = []
    for which in (0, 1):
        listed = f'"cells"{sep}[{newline}' + f",{newline}".join(one[which] for one in cells) + f"{newline}]"
        parts = [*head[:place], listed, *head[place:]]
        both.append(f"{bom}{{{newline}" + f" ,{newline}".join(parts) + f"{newline}}}{end}")
    return Written(both[0].encode(), both[1].encode())


def line() -> st.SearchStrategy[list[str]]:
    """A line of code that is right whatever stands in it."""
    expression = st.sampled_from(
        [["old"], ["x = ", "old"], ["f(", "old", ", ", "old", ")"], ["'é😀/'"], [""], ["fine"]]
    )
    rest = st.sampled_from(["", "  ", "  # old ü \u2028", "\t# ?", " # \\"])
    end = st.sampled_from(["\n", "\n", "\n", "\r\n"])
    return st.tuples(expression, rest, end).map(lambda parts: [*parts[0], parts[1] + parts[2]])


def utf16(character: str) -> Iterator[int]:
    data = character.encode("utf-16-be", errors="surrogatepass")
    yield from (int.from_bytes(data[place : place + 2]) for place in range(0, len(data), 2))


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(written=notebooks())
def test_no_byte_changes_but_those_of_the_edit(sample: object, written: Written) -> None:
    done = analysed(written.before)
    assert not done.failures
    assert (written.before if done.after is None else done.after) == written.after
    assert json.loads(written.after.decode().removeprefix("\ufeff"))


@pytest.mark.parametrize("form", ["list", "string", "one line", "odd"])
def test_lines_that_come_and_go(form: str) -> None:
    """The import that a repair needs and the one that it leaves unused, in each way to write a source."""
    cells = ["import jax\nfrom jax.experimental.pjit import pjit\nimport numpy as np\n", "step = pjit(f)"]
    data = notebook(*cells, indent=2)
    content = json.loads(data)
    if form == "string":
        content["cells"][0]["source"] = cells[0]
        data = json.dumps(content).encode()
    elif form == "one line":
        data = json.dumps(content, separators=(",", ":")).encode()
    elif form == "odd":
        content["cells"][0]["source"] = [
            "import ",
            "jax\nfrom jax.experimental.pjit",
            " import pjit\nimp",
            "ort numpy as np\n",
        ]
        data = json.dumps(content, indent=1).encode()
    done = analysed(data)
    assert done.after
    assert code_of(done.after) == ["import jax\nimport numpy as np\n", "step = jax.jit(f)"]
    wanted = json.loads(data)
    if form != "odd":
        wanted["cells"][0]["source"] = json.loads(done.after)["cells"][0]["source"]
        wanted["cells"][1]["source"] = ["step = jax.jit(f)"]
        written = {"list": {"indent": 2}, "string": {}, "one line": {"separators": (",", ":")}}[form]
        assert done.after == json.dumps(wanted, **written).encode() + (b"\n" if form == "list" else b"")  # type: ignore[arg-type]


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_import_goes_into_the_cell_that_imports(end: str) -> None:
    cells = ["# Title\n!pip install jax", f"import jax\nimport numpy as np{end}", "spec = 'data'", DEVICE_PUT]
    done = analysed(notebook(*cells))
    assert done.after
    first, imports, *others = code_of(done.after)
    assert (first, others[0]) == (cells[0], cells[2])
    assert imports.startswith("import jax\nimport numpy as np\nfrom jax.sharding import ")
    assert imports.endswith("\n") is bool(end)
    assert json.loads(done.after)["cells"][1]["source"] == imports.splitlines(keepends=True)


DEVICE_PUT = """\
mesh = jax.make_mesh((8,), ("data",))
x = jax.device_put(np.ones(8), "data")"""


# Places


def test_reports_tell_the_cell_and_its_line(here: Path, shardfix_command: Command) -> None:
    data = notebook("fine", "%time old\n\n  \n!ls", "x = 1\npuzzle")
    Path("a.ipynb").write_bytes(data)
    done = shardfix_command("--check", "--output-format", "json")
    places = [(one["cell"], one["line"], one["column"], one["end_column"]) for one in findings(done)]
    assert places == [(2, 1, 7, 10), (3, 2, 1, 7)]
    assert shardfix_command("--check").out.decode().splitlines() == [
        "a.ipynb:cell 2:1:7: sample-codemod: old is out of date [safe]",
        "a.ipynb:cell 3:2:1: sample-codemod: puzzle is out of date [manual]",
    ]
    assert "    2 | puzzle\n      | ^^^^^^\n" in shardfix_command().err
    lines = [number for number, line in enumerate(data.splitlines(), 1) if b"old" in line or b"puzzle" in line]
    commands = shardfix_command("--check", "--output-format", "github").out.decode()
    assert [int(found) for found in re.findall(r",line=(\d+),", commands)] == lines
    assert "(cell 3, line 2)" in commands
    sarif = json.loads(shardfix_command("--check", "--output-format", "sarif").out)
    regions = [one["locations"][0]["physicalLocation"]["region"] for one in sarif["runs"][0]["results"]]
    assert [region["startLine"] for region in regions] == lines
    gitlab = json.loads(shardfix_command("--check", "--output-format", "gitlab").out)
    assert [one["location"]["positions"]["begin"]["line"] for one in gitlab] == lines
    assert gitlab[1]["description"] == "puzzle is out of date (cell 3, line 2)"
    for name in ("junit", "html"):
        assert b"cell 3" in shardfix_command("--check", "--output-format", name).out


def findings(done: Run) -> list[dict[str, object]]:
    return [finding for file in json.loads(done.out)["files"] for finding in file["findings"]]


def test_lines_in_messages_are_those_of_cells() -> None:
    make = "import jax\nfrom jax.experimental.shard_map import shard_map\nmesh = jax.make_mesh((8,), ('i',))"
    use = "pass\ny = shard_map(lambda x: x, mesh, in_specs=jax.P('i'), out_specs=jax.P('i'))"
    done = analysed(notebook(make, use))
    assert any("on line 2 of cell 2" in finding.message for finding in done.findings)


# Commands


def test_the_patch_of_a_notebook_applies(here: Path, shardfix_command: Command) -> None:
    Path("a.ipynb").write_bytes(notebook("old", "puzzle\nold\n\nold"))
    Path("b.py").write_text("old\n")
    shown = shardfix_command("--patch-file", "fix.patch").out
    assert Path("fix.patch").read_bytes() == shown
    subprocess.run(["git", "apply", "fix.patch"], check=True)
    assert code_of(Path("a.ipynb").read_bytes()) == ["new", "puzzle\nnew\n\nnew"]
    assert shardfix_command("--write").code == 1


def test_people_see_the_code_of_cells(here: Path, shardfix_command: Command) -> None:
    Path("a.ipynb").write_bytes(notebook("fine", "%time old\nfine"))
    shown = re.sub(r"\x1b\[\d*m", "", shardfix_command("--color", "always").out.decode())
    assert shown == ("--- a/a.ipynb:cell 2\t\n+++ b/a.ipynb:cell 2\t\n@@ -1,2 +1,2 @@\n-%time old\n+%time new\n fine\n")


def test_write_and_check(here: Path, shardfix_command: Command) -> None:
    data = notebook("old", "fine")
    Path("a.ipynb").write_bytes(data)
    assert shardfix_command("--check").code == 1
    assert shardfix_command("--write").code == 0
    assert Path("a.ipynb").read_bytes() == data.replace(b"old", b"new")
    assert shardfix_command("--check").code == 0


def test_comments_suppress(here: Path, shardfix_command: Command) -> None:
    Path("a.ipynb").write_bytes(
        notebook("old  # shardfix: ignore", "# shardfix: ignore[sample-codemod]\nold", "puzzle")
    )
    assert [one["cell"] for one in findings(shardfix_command("--check", "--output-format", "json"))] == [3]
    Path("a.ipynb").write_bytes(notebook("old", "# shardfix: skip-file"))
    assert shardfix_command("--check").code == 0


def test_comments_are_added(here: Path, shardfix_command: Command) -> None:
    Path("a.ipynb").write_bytes(notebook("old", "!ls\npuzzle"))
    assert shardfix_command("--add-ignores").code == 0
    ignore = "  # shardfix: ignore[sample-codemod]"
    assert code_of(Path("a.ipynb").read_bytes()) == [f"old{ignore}", f"!ls\npuzzle{ignore}"]
    assert shardfix_command("--check").code == 0


def test_standard_input_is_a_notebook_by_its_name(
    here: Path, shardfix_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = notebook("old")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    done = shardfix_command("--write", "-", "--stdin-filename", "a.ipynb")
    assert (done.code, done.out) == (0, data.replace(b"old", b"new"))


def test_results_are_kept(here: Path, shardfix_command: Command) -> None:
    Path("a.ipynb").write_bytes(notebook("old"))
    assert shardfix_command("--check").out == shardfix_command("--check").out
    Path("a.ipynb").write_bytes(notebook("fine", "old"))
    assert b"cell 2:1:1" in shardfix_command("--check").out


def test_a_word_after_an_escape_is_seen_by_the_prefilter(here: Path, shardfix_command: Command) -> None:
    """In the bytes of ``"fine\\nold"`` no word begins at ``old``."""
    data = notebook("fine\nold")
    content = json.loads(data)
    content["cells"][0]["source"] = "fine\nold"
    Path("a.ipynb").write_text(json.dumps(content))
    assert shardfix_command("--check").code == 1


def test_a_notebook_is_a_reader_of_the_modules_beside_it(tmp_path: Path) -> None:
    from shardfix.semantics.project import Project

    (tmp_path / "lib.py").write_text("def f(x): ...\n")
    (tmp_path / "use.ipynb").write_bytes(notebook("from lib import f", "!ls\nf(1)"))
    project = Project([str(tmp_path / "lib.py"), str(tmp_path / "use.ipynb")])
    assert list(project.importers_of(str(tmp_path / "lib.py"), "f")) == [str(tmp_path / "use.ipynb")]
    assert project.module_at(str(tmp_path / "use.ipynb")) is not None


# Trouble


@pytest.mark.parametrize(
    ("data", "reason", "line"),
    [
        (b'{"cells": [\n old', "not a notebook: no JSON (Expecting value)", 2),
        (b"", "not a notebook: no JSON (Expecting value)", 1),
        (b"[1, 2]", "not a notebook: JSON without nbformat", None),
        (b'{"nbformat": 4}', "not a notebook: it has no list of cells", None),
        (b'{"nbformat": 4, "cells": [3]}', "not a notebook: cell 1 has no type", None),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "not a notebook: cell 1 has no source", None),
        (
            b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": [1]}]}',
            "not a notebook: cell 1 has no source",
            None,
        ),
        (b'{"nbformat": 3, "worksheets": []}', "a notebook in format 3, which is too old; `jupyter nbconvert", None),
        (b'{"nbformat": 5, "cells": []}', "a notebook in format 5, which is not known", None),
        (b"\xff\xfe", "cannot be decoded as utf-8: invalid start byte", 1),
        (b"[" * 100_000, "not a notebook: JSON that is nested too deeply", None),
        (notebook("x = 1", "y = (\nz = 2"), "cannot be parsed: '(' was never closed (cell 2, line 1)", 18),
        (
            notebook("if old:", "    y = 2"),
            "cannot be parsed: expected an indented block after 'if' statement on line 1",
            9,
        ),
    ],
)
def test_what_is_no_notebook_is_reported(
    here: Path, shardfix_command: Command, data: bytes, reason: str, line: int | None
) -> None:
    Path("a.ipynb").write_bytes(data)
    done = shardfix_command("--check", "a.ipynb")
    place = "a.ipynb" if line is None else f"a.ipynb:{line}"
    assert done.code == 2
    assert done.err.startswith(f"{place}: error: {reason}")
    assert Path("a.ipynb").read_bytes() == data


def test_a_notebook_of_another_language_is_clean() -> None:
    for metadata in ({"language_info": {"name": "julia"}}, {"kernelspec": {"language": "R"}}):
        assert analysed(notebook("old <- (", metadata=metadata)).outcome is Outcome.CLEAN


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 60))
@example(b"", 0, 60)
def test_no_damage_is_a_crash(junk: bytes, place: int, length: int) -> None:
    data = notebook("import jax\n!ls\n", "jax.tree_map(f, x)")
    damaged = data[:place] + junk + data[place + length :]
    done = analysed(damaged)
    assert all("fault of shardfix" not in failure.reason for failure in done.failures)
    if done.after is not None:
        json.loads(done.after)


def test_joining_cells_is_refused() -> None:
    book = Notebook.of(notebook("a", "b"))
    with pytest.raises(FileProblem, match="join two cells"):
        book.with_text("a; b")


# The programs of the fixtures


def as_notebook(source: str) -> bytes:
    """The program with a cell for its imports and one for each two other statements, a magic at the head of each."""
    body = ast.parse(source).body
    imports = [place for place, node in enumerate(body) if isinstance(node, ast.Import | ast.ImportFrom)]
    others = body[imports[-1] + 1 :] if imports else body[1:]
    heads = [min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))]) for node in others]
    lines = source.split("\n")
    begins = [0, *(line - 1 for line in heads[::2] if not lines[line - 2].startswith("#"))]
    cells = ["\n".join(lines[start:end]) for start, end in zip(begins, [*begins[1:], len(lines)], strict=True)]
    return notebook("%matplotlib inline", *(f"!echo {{1 + 1}}\n{cell}" for cell in cells))


def program_of(data: bytes) -> str:
    first, *cells = code_of(data)
    assert first == "%matplotlib inline"
    return "\n".join(cell.removeprefix("!echo {1 + 1}\n") for cell in cells)


def without_blank_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


IN_CELLS = [case for case in CASES if "from __future__" not in case.source.decode()]


@pytest.mark.parametrize("case", IN_CELLS, ids=[case.name for case in IN_CELLS])
def test_a_program_in_cells_is_changed_alike(
    case: Case, change: Callable[..., object], tmp_path: Path, shardfix_command: Command
) -> None:
    path = set_up(case, case.source, tmp_path / "cells")
    book = path.with_suffix(".ipynb")
    data = as_notebook(path.read_text())
    assert program_of(data) == path.read_text()
    shardfix_command("--write", *case.args, path)
    wanted = path.read_text()
    path.unlink()
    book.write_bytes(data)
    done = shardfix_command("--write", *case.args, book)
    assert done.code in (0, 1), done.err
    assert without_blank_lines(program_of(book.read_bytes())) == without_blank_lines(wanted)


RUN_ON_JAX = [
    case
    for case in IN_CELLS
    if case.path.parent.name in ("rank0_outputs", "experimental_shard_map")
    and not case.jax
    and (case.path.with_suffix(".diff").read_bytes() or not case.fails)
]


@pytest.mark.parametrize("case", RUN_ON_JAX, ids=[case.name for case in RUN_ON_JAX])
def test_a_repaired_notebook_runs_on_jax(
    case: Case, run: Callable[[Case, bytes], Program], tmp_path: Path, shardfix_command: Command
) -> None:
    book = set_up(case, case.source, tmp_path / "cells").with_suffix(".ipynb")
    book.write_bytes(as_notebook(case.source.decode()))
    shardfix_command("--write", *case.args, book)
    done = run(case, program_of(book.read_bytes()).encode())
    assert done.code == 0, done.output
