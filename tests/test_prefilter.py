"""The prefilter may be fast, but must answer as the codemods' regular expressions do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import pytest

from shardfix.codemod import Codemod, all_codemods
from shardfix.prefilter import Prefilter, may_find, required_words

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*/*.py"))
TEXTS = [path.read_bytes() for path in FIXTURES] + [path.read_bytes() for path in Path(__file__).parent.glob("*.py")]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (rb"\bshard_map\b", [{b"shard_map"}]),
        (rb"\bwith\b[^:\n]*[mM]esh", [{b"with"}, {b"esh"}]),
        (rb"lax\.(?:pdot|xeinsum)", [{b"lax."}, {b"pdot", b"xeinsum"}]),
        (rb"a|b?", []),
        (rb"x(?:ab)?y(?:cd)+", [{b"x"}, {b"y"}, {b"cd"}]),
        (rb"(?<!jtu\.)tree_map(?!s)", [{b"tree_map"}]),
        (rb"(?i)mesh", []),
    ],
)
def test_words_that_a_match_must_hold(pattern: bytes, words: list[set[bytes]]) -> None:
    assert list(required_words(pattern)) == words


@pytest.mark.parametrize("codemod", all_codemods().values(), ids=list(all_codemods()))
def test_it_answers_as_the_expressions_do(codemod: type[Codemod]) -> None:
    patterns = [re.compile(trigger) for trigger in codemod.triggers]
    for text in TEXTS:
        assert may_find(codemod, text) == any(pattern.search(text) for pattern in patterns)


def test_a_word_boundary_in_front_is_kept() -> None:
    class Sample(Codemod):
        triggers: ClassVar[tuple[bytes, ...]] = (rb"\bdevice\s*=",)

    assert may_find(Sample, b"f(device = 1)")
    assert not may_find(Sample, b"f(my_device=1)")
    assert may_find(Sample, b"f(my_device=1, device=2)")


def test_every_fixture_with_a_repair_reaches_its_codemod() -> None:
    """What is found without a traceback must be found through the triggers."""
    codemods = all_codemods()
    for path in FIXTURES:
        codemod = codemods.get(path.parent.name.replace("_", "-"))
        if codemod is not None and codemod.triggers and path.with_suffix(".diff").exists():
            assert path.with_suffix(".diff").read_bytes() == b"" or may_find(codemod, path.read_bytes()), path


def test_a_trigger_that_is_no_expression_is_named() -> None:
    class Broken(Codemod):
        triggers: ClassVar[tuple[bytes, ...]] = (b"(",)

    with pytest.raises(ValueError, match=r"trigger b'\('"):
        Prefilter([Broken])
