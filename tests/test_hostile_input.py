"""Any bytes at all: no crash, no hang, no edit without a finding, and what was Python still is.

The slow tests run for as many inputs as ``SHARDFIX_FUZZ`` says, 300 of each kind by default; ``python tests/test_hostile_input.py
SECONDS [SEED]`` goes on for that long, on sources of whatever lies under the folders in ``SHARDFIX_CORPUS`` as well, and
prints what it finds.
"""

from __future__ import annotations

import ast
import contextlib
import encodings.aliases
import importlib.util
import io
import json
import os
import random
import signal
import sys
import time
import tokenize
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from shardfix.codemod import all_codemods
from shardfix.documents import document
from shardfix.files import FileProblem
from shardfix.notebooks.magics import MAY_HOLD_MAGIC
from shardfix.outcomes import FileOutcome, Outcome
from shardfix.prefilter import _compiled
from shardfix.runner import Task, Worker
from shardfix.semantics import contexts, mesh_blocks
from shardfix.settings import Settings
from shardfix.suppressions import COMMENT

FIXTURES = Path(__file__).parent / "fixtures"
LONGEST = 40_000
"""Characters of a source that is mutated."""
SECONDS = 60.0
"""What one input may take; a hundred repairs that lie within each other take LibCST a good part of it."""
WORDS = """jax lax jnp shard_map pjit P mesh x in_specs out_specs lambda yield await async def class return with as if else for
import from * ** := -> == ... None True 0 0x 1e999 1j 'x' f'{x!r:>{y}}' b'' \\ @ ; : , ( ) [ ] { } # shardfix: ignore skip-file
jax.lax.pvary jax.tree_map psum keepdims axis_names check_rep match case type global nonlocal del try except* finally""".split()
ODD = [
    "\0",
    "\x1a",
    "\f",
    "\x0b",
    "\r",
    "\r\n",
    "\n",
    "\t",
    "\u2028",
    "\x85",
    "\ufeff",
    "\ud800",
    "é",
    "\u0301",
    "😀",
    "ﬁ",
    "\\N{BEL}",
]


NESTED = (
    *(("(", "1", ")"), ("[", "", "]"), ("{0:", "1", "}"), ("-", "1", ""), ("not ", "x", ""), ("1+", "1", "")),
    *(
        ("x.", "y", ""),
        ("lambda: ", "1", ""),
        ("f(", "", ")"),
        ("1 if x else ", "2", ""),
        ("x[", "0", "]"),
        ("", "x", ".T"),
    ),
    *(
        ("", "f", "(x)"),
        ("if x:\n" + " " * 9, "1", ""),
        ("jax.tree_map(f, ", "x", ")"),
        ("jax.lax.pvary(", "x", ", 'i')"),
    ),
)


def sources() -> list[str]:
    """Programs that are about sharding, those of others first of all."""
    paths = [*FIXTURES.glob("*/*.py"), *Path(__file__).parent.glob("test_m*.py")]
    spec = importlib.util.find_spec("jax")
    for folder in [
        *(spec.submodule_search_locations or () if spec else ()),
        *os.environ.get("SHARDFIX_CORPUS", "").split(),
    ]:
        paths += [path for path in sorted(Path(folder).rglob("*.py")) if path.is_file()]
    texts = (path.read_bytes() for path in paths if path.stat().st_size < LONGEST)
    return [text.decode() for text in texts if b"jax" in text and text.isascii()]


@cache
def known_sources() -> list[str]:
    return sources()


# Mutations


def of_bytes(chance: random.Random, source: str) -> bytes:
    data = bytearray(source.encode())
    for _ in range(chance.randint(1, 6)):
        place = chance.randint(0, len(data))
        end = min(len(data), place + chance.choice([0, 1, 1, 3, 20, 300]))
        data[place:end] = chance.choice([b"", chance.randbytes(chance.randint(1, 8)), data[:40], data[place:end] * 2])
    return bytes(data)


def of_characters(chance: random.Random, source: str) -> bytes:
    for _ in range(chance.randint(1, 5)):
        place = chance.randint(0, len(source))
        word = chance.choice([chance.choice(ODD), chance.choice(WORDS), chance.choice(ODD) * chance.choice([2, 50])])
        source = source[:place] + word + source[place + chance.choice([0, 0, 1, 4]) :]
    return source.encode(errors="surrogatepass")


def of_tokens(chance: random.Random, source: str) -> bytes:
    tokens: list[tokenize.TokenInfo] = []
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        tokens.extend(tokenize.generate_tokens(io.StringIO(source).readline))
    lines = source.splitlines(keepends=True)
    for token in sorted(
        chance.sample(tokens, min(len(tokens), chance.randint(1, 6))), reverse=True, key=lambda t: t.start
    ):
        (line, start), (last, end) = token.start, token.end
        if line == last <= len(lines):
            other = chance.choice([chance.choice(tokens).string, chance.choice(WORDS), "", token.string * 2])
            lines[line - 1] = lines[line - 1][:start] + other + lines[line - 1][end:]
    return "".join(lines).encode()


def of_lines(chance: random.Random, source: str) -> bytes:
    lines = source.splitlines(keepends=True) or [""]
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(lines))
        match chance.randrange(6):
            case 0:
                del lines[place : place + chance.choice([1, 2, 10])]
                lines = lines or [""]
            case 1:
                lines.insert(place, chance.choice(lines))
            case 2:
                lines[place] = chance.choice([" ", "\t", "    "]) + lines[place]
            case 3:
                lines[place] = lines[place].lstrip()
            case 4:
                lines[place] = lines[place].rstrip("\n") + chance.choice(
                    ["\\\n", "\r", "\r\n", ";", "  # shardfix: ignore\n"]
                )
            case 5:
                other = chance.choice(known_sources()).splitlines(keepends=True)
                lines[place:place] = other[: chance.choice([3, 30, 300])]
    return "".join(lines).encode()


def of_expressions(chance: random.Random, source: str) -> bytes:
    """Expressions and statements of a program in the place of others: what comes of it is often Python."""
    for _ in range(chance.randint(1, 4)):
        try:
            tree = parsed(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            break
        kind = chance.choice([ast.expr, ast.expr, ast.expr, ast.stmt, ast.Call, ast.Name, ast.keyword])
        nodes = [node for node in ast.walk(tree) if isinstance(node, kind)]
        if nodes:
            one, other = chance.choice(nodes), chance.choice(nodes)
            text = ast.get_source_segment(source, other) or "None"
            text = chance.choice([text, text, f"({text})", f"({text}, {text})", f"lambda: {text}", f"[*{text}]", "x"])
            start, end = (offset(source, line, column) for line, column in places(one))
            source = source[:start] + text + source[end:]
    return source.encode()


def of_cookie(chance: random.Random, source: str) -> bytes:
    """In every encoding that Python knows, said or not."""
    name = chance.choice(sorted({*encodings.aliases.aliases.values(), *encodings.aliases.aliases, "utf-8-sig", "no"}))
    text = f"# -*- coding: {name} -*-\n{source[: chance.choice([40, 3000, LONGEST])]}\nx = '{chance.choice(ODD)}'\n"
    try:
        return text.encode(name, errors="surrogatepass" if name.startswith("utf") else "replace")
    except (LookupError, UnicodeError, TypeError, AssertionError, ValueError):
        return text.encode(errors="surrogatepass")


def of_depth(chance: random.Random, source: str) -> bytes:
    number = chance.choice([20, 90, 150, 400, 2000, 9000])
    opening, inner, closing = chance.choice(NESTED)
    deep = opening * number + inner + closing * number
    wrapped = chance.choice(
        ["y = {}\n", "y = jax.tree_map(f, {})\n", "jax.lax.pvary({}, 'i')\n", "def g():\n    return {}\n"]
    )
    return f"{source}\nimport jax\n{wrapped.format(deep)}".encode()


def of_width(chance: random.Random, source: str) -> bytes:
    number = chance.choice([1000, 30_000, 200_000])
    pieces = [
        "x = [" + "1," * number + "]",
        "x = '" + "a\\n" * number + "'",
        "#" + "é" * number,
        "f(" + "x=1," * number + ")",
    ]
    pieces += [
        "x = jax.tree_map(f, [" + "x, " * (number // 10) + "])",
        "x" * number,
        " " * number,
        "\n" * number,
        "x = " + "9" * number,
    ]
    pieces += [
        "x = 1; " * (number // 10),
        "import " + ", ".join(["jax"] * (number // 10)),
        "x = 1" + "\\\n" * (number // 10) + "+ 1",
    ]
    return f"{source}\n{chance.choice(pieces)}\njax.tree_map(f, x)\n".encode()


def of_nothing(chance: random.Random, source: str) -> bytes:
    start = chance.choice([b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b"# coding: latin-1\n", b"jax.tree_map\n"])
    return start + chance.randbytes(chance.choice([0, 1, 10, 1000]))


def of_newlines(chance: random.Random, source: str) -> bytes:
    return source.replace("\n", chance.choice(["\r\n", "\r", "\n\f", "\n\n"])).encode(
        chance.choice(["utf-8", "utf-8-sig"])
    )


KINDS: tuple[Callable[[random.Random, str], bytes], ...] = (
    of_bytes,
    of_characters,
    of_tokens,
    of_lines,
    of_expressions,
    of_expressions,
    of_cookie,
    of_depth,
    of_width,
    of_nothing,
    of_newlines,
)


def in_notebook(chance: random.Random, data: bytes) -> bytes:
    """The same in the cells of a notebook, or what is left of one."""
    lines = data.decode(errors="replace").split("\n")
    size = chance.choice([1, 5, 40, 4000])
    magics = ["%time ", "!ls\n", "%%bash\n", "", "", "", "", "", "", ""]
    cells = [chance.choice(magics) + "\n".join(lines[start : start + size]) for start in range(0, len(lines), size)]
    listed = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    book = json.dumps({"cells": listed, "nbformat": 4}, indent=chance.choice([None, 1])).encode()
    return of_bytes(chance, book.decode()) if chance.random() < 0.3 else book


# What must hold


@dataclass
class Account:
    """What came of the inputs."""

    inputs: int = 0
    python: int = 0
    changed: int = 0
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def __str__(self) -> str:
        numbers = f"{self.inputs} inputs, {self.python} of them Python, {self.changed} changed"
        return f"{numbers}, {len(self.failures)} failures, the slowest {self.slowest:.1f} s"


def parsed(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def places(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def offset(source: str, line: int, column: int) -> int:
    return len("".join(source.splitlines(keepends=True)[: line - 1])) + column


def check(path: str, data: bytes, account: Account) -> None:
    """Analyse the input and its repair, and take note of what should not be.

    Raises:
        AssertionError: something that must hold does not.
    """
    account.inputs += 1
    begin = time.process_time()
    done = analysed(path, data)
    seconds = time.process_time() - begin
    account.slowest = max(account.slowest, seconds)
    assert seconds < SECONDS, f"it took {seconds:.0f} s"
    for failure in done.failures:
        assert "fault of shardfix" not in failure.reason, failure.reason
        assert not failure.reason.startswith("codemod "), failure.reason
    account.python += done.outcome is not Outcome.FAILED
    if done.after is None:
        return
    account.changed += 1
    assert done.after != data
    assert any(finding.fixed for finding in done.findings), "an edit without a finding"
    after = document(path, done.after)
    parsed(after.text)
    again = analysed(path, done.after)
    assert not again.failures, again.failures
    assert again.after is None, "a second run changes it again"


def analysed(path: str, data: bytes) -> FileOutcome:
    done = Worker().analyse(Task(path, data, Settings(target_jax="0.12")))
    if done.outcome is not Outcome.FAILED:
        with contextlib.suppress(FileProblem):
            parsed(document(path, data).text)
    return done


def inputs(seed: int) -> Iterator[tuple[str, bytes]]:
    """Without end."""
    chance = random.Random(seed)
    while True:
        yield one_input(chance, chance.choice(KINDS))


def one_input(chance: random.Random, kind: Callable[[random.Random, str], bytes]) -> tuple[str, bytes]:
    data = kind(chance, chance.choice(known_sources()))
    return ("a.ipynb", in_notebook(chance, data)) if chance.random() < 0.15 else ("a.py", data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", dict.fromkeys(KINDS), ids=lambda kind: kind.__name__)
def test_no_input_is_too_odd(kind: Callable[[random.Random, str], bytes]) -> None:
    chance = random.Random(kind.__name__)
    for _ in range(int(os.environ.get("SHARDFIX_FUZZ", "300"))):
        path, data = one_input(chance, kind)
        try:
            check(path, data, Account())
        except AssertionError as error:
            raise AssertionError(f"{error}: {path}: {data[:2000]!r}") from error


@pytest.mark.parametrize("kind", dict.fromkeys(KINDS), ids=lambda kind: kind.__name__)
def test_a_few_odd_inputs(kind: Callable[[random.Random, str], bytes]) -> None:
    chance = random.Random(7)
    texts = [path.read_text() for path in sorted(FIXTURES.glob("renames/*.py"))]
    for _ in range(4):
        check("a.py", kind(chance, chance.choice(texts)[:2000]), Account())


SEARCHED = (contexts._SETS_MESH, contexts._ENTERS_BY_HAND, mesh_blocks._ENTERS_MESH, MAY_HOLD_MAGIC, COMMENT)
"""Patterns that are looked for in the whole of a text."""
REPEATED = (
    "\n",
    "\r\n",
    " ",
    "\t",
    "a",
    "a.",
    "a ",
    "a,",
    "(",
    "[",
    "=",
    "'",
    "\\",
    "# shardfix:  ",
    "with mesh ",
    "jax.",
)


@pytest.mark.parametrize("word", ["", "x = ", "jax.", "    with "])
def test_no_pattern_takes_the_square_of_a_text(word: str) -> None:
    patterns = [_compiled(trigger).pattern for codemod in all_codemods().values() for trigger in codemod.triggers]
    texts = [f"{word}{piece * 8_000}\nx" for piece in REPEATED]
    for text in texts:
        begin = time.process_time()
        for pattern in patterns:
            pattern.search(text.encode())
        for in_text in SEARCHED:
            in_text.search(text)
        assert time.process_time() - begin < 1.0, text[:40]


class Hang(BaseException):
    """An input that takes far too long."""


def campaign(seconds: float, seed: int) -> None:
    """Go on for ``seconds``; inputs at which something does not hold are kept in the current folder."""
    account = Account()
    begin = time.monotonic()

    def too_long(*_: object) -> None:
        raise Hang

    signal.signal(signal.SIGPROF, too_long)
    for number, (path, data) in enumerate(inputs(seed)):
        if time.monotonic() - begin > seconds:
            break
        signal.setitimer(signal.ITIMER_PROF, 3 * SECONDS)
        try:
            check(path, data, account)
        except (Exception, Hang) as error:
            name = f"hostile-{seed}-{number}{Path(path).suffix}"
            Path(name).write_bytes(data)
            account.failures.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            print(account.failures[-1], flush=True)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if number % 100 == 99:
            print(f"{time.monotonic() - begin:.0f} s: {account}", flush=True)
    print(account)


if __name__ == "__main__":
    campaign(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
