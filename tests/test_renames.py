"""The table of renames against the installed JAX, and against its own triggers."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from typing import Any

import pytest
from packaging.version import Version
from shardfix.codemods.renames import Keyword, Name, Renames, table

from shardfix.edits import NAMED
from shardfix.semantics.module import Module
from shardfix.settings import Settings

jax = pytest.importorskip("jax")
JAX = Version(jax.__version__)
ROWS = [*table().names, *(row for row in table().modules if row.new)]
TRIGGER = re.compile(b"|".join(b"(?:%b)" % trigger for trigger in Renames.triggers))


def reaches(version: str) -> bool:
    return Version(version) <= JAX


def look_up(dotted: str) -> tuple[Any, list[str]]:
    """The object of that name, with the deprecation warnings that the look-up gives.

    Raises:
        AttributeError, ImportError: there is none.
    """
    parts = dotted.split(".")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for count in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:count]))
            except ImportError:
                continue
            for part in parts[count:]:
                found = getattr(found, part)
            return found, [str(one.message) for one in caught if issubclass(one.category, DeprecationWarning)]
    raise ImportError(dotted)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.old)
def test_the_new_name_is_there(row: Name) -> None:
    if reaches(row.replacement_since):
        _, warned = look_up(row.successor)
        assert bool(warned) == (row.warns is not None and reaches(row.warns))
    if row.older is not None:
        assert look_up(row.older)[1] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.old)
def test_the_old_name_is_gone_or_warned_of(row: Name) -> None:
    if reaches(row.removed):
        with pytest.raises((AttributeError, ImportError)):
            look_up(row.old)
    elif row.deprecated is not None and reaches(row.deprecated):
        assert look_up(row.old)[1] != []


@pytest.mark.parametrize("row", table().keywords, ids=lambda row: f"{row.of[0]}({row.old}=)")
def test_the_keyword_is_as_the_row_says(row: Keyword) -> None:
    for dotted in row.of:
        if dotted in {name.old for name in table().names}:
            continue
        parameters = inspect.signature(look_up(dotted)[0]).parameters
        if reaches(row.removed):
            kept = parameters.get(row.old)
            assert kept is None or kept.kind is inspect.Parameter.POSITIONAL_ONLY
        if row.new is not None and reaches(row.replacement_since):
            assert row.new in parameters
        if row.positional:
            first = next(iter(parameters.values()))
            assert first.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for name in NAMED.findall(row.value or ""):
            assert not reaches(row.replacement_since) or look_up(name)


@pytest.mark.parametrize("row", table().attributes, ids=lambda row: row.old)
def test_the_attribute_is_as_the_row_says(row: Any) -> None:
    kind = jax.typeof(jax.numpy.ones(2))
    if reaches(row.replacement_since):
        for part in row.new.split("."):
            kind = getattr(kind, part)
    if reaches(row.removed):
        assert not hasattr(jax.typeof(jax.numpy.ones(2)), row.old)


def spellings(old: str) -> list[str]:
    """Programs that use a name in each of the ways there are to get at it."""
    home, _, last = old.rpartition(".")
    package, _, module = home.rpartition(".")
    programs = [f"import jax\n{old}", f"import jax as j\nj{old.removeprefix('jax')}"]
    programs += [
        f"from {home} import {last}\n{last}",
        f"from {home} import (\n    other,\n    {last} as name,\n)\nname",
    ]
    if package:
        programs += [
            f"from {package} import other, {module}\n{module}.{last}",
            f"from {package} import (\n    {module},\n)\n{module}.{last}",
        ]
        programs += [f"import {home} as lib\nlib.{last}", f"from {package} import {module} as lib\nlib.{last}"]
    return programs


@pytest.mark.parametrize("row", [row for row in table().names if not row.member], ids=lambda row: row.old)
def test_every_spelling_is_found_and_triggers(row: Name) -> None:
    call = f"({', '.join('xyz')})" + (f".{row.without}" if row.without else "")
    for program in spellings(row.old):
        source = f"{program}{call}\n"
        found = list(Renames(Settings()).findings(Module(source)))
        assert any(row.old in finding.message for finding in found), source
        assert all(finding.fix is not None for finding in found), source
        assert TRIGGER.search(source.encode()), source


@pytest.mark.parametrize("row", table().keywords, ids=lambda row: f"{row.of[0]}({row.old}=)")
def test_every_keyword_triggers(row: Keyword) -> None:
    for dotted in row.of:
        source = f"import jax\n{dotted}(\n    {row.old}=x)\n"
        assert any(row.old in finding.message for finding in Renames(Settings()).findings(Module(source)))
        assert TRIGGER.search(source.encode()), source


def test_an_older_target_gets_the_older_spelling() -> None:
    module = Module("import jax\njax.tree_map(f, t)\n")
    (finding,) = Renames(Settings(target_jax="0.4.20")).findings(module)
    assert finding.fix is not None
    assert finding.fix.needs_jax is None
    assert "jax.tree_util.tree_map" in finding.fix.title
    (finding,) = Renames(Settings(target_jax="0.4.25")).findings(module)
    assert finding.fix is not None
    assert finding.fix.needs_jax == "0.4.25"
    assert finding.fix.title == "take jax.tree.map"


def test_no_row_is_there_twice_and_none_leads_to_another() -> None:
    olds = [row.old for row in table().names]
    assert len(olds) == len(set(olds))
    assert not {row.new for row in table().names} & set(olds)
