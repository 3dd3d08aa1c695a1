"""What a run is asked to do: one frozen value, read from the command line and from ``[tool.shardfix]``."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass

__all__ = ["Rank0Style", "Settings", "UsageProblem", "codemod_named", "codemods_named", "did_you_mean"]


class UsageProblem(Exception):
    """The command line or a configuration file asks for what there is not; the text is one line for the user."""


class Rank0Style(enum.StrEnum):
    """How ``rank0-outputs`` lifts a scalar to the rank its spec asks for."""

    AUTO = "auto"
    """``keepdims=True`` where the operand's rank is known and equals the spec's length, else ``[None]``."""
    KEEPDIMS = "keepdims"
    """``keepdims=True`` wherever it gives the right rank."""
    INDEX = "index"
    """``[None]`` always."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides what is found and what is fixed; equal settings give equal results."""

    codemods: tuple[str, ...] | None = None
    """Names of the codemods to run, in order; None for all."""
    unsafe: frozenset[str] | bool = False
    """True to apply unsafe fixes, or the names of the codemods whose unsafe fixes are applied."""
    target_jax: str | None = None
    """Oldest JAX the code must still run on (``"0.8"``); None: what the project declares, else the newest known."""
    rank0_style: Rank0Style = Rank0Style.AUTO


def codemods_named(values: Iterable[str], available: Collection[str]) -> tuple[str, ...]:
    """The codemods that are named in ``values``, each of which may name several, with commas between.

    Raises:
        UsageProblem: a name is not among ``available``.
    """
    return tuple(codemod_named(name, available) for value in values for name in value.split(",") if name.strip())


def codemod_named(name: str, available: Collection[str]) -> str:
    """The codemod that is meant by ``name``, in which underscores stand for hyphens.

    Raises:
        UsageProblem: there is none.
    """
    wanted = name.strip().replace("_", "-")
    if wanted in available:
        return wanted
    hint = did_you_mean(wanted, available) or "; --list shows what there is"
    raise UsageProblem(f"unknown codemod '{name.strip()}'{hint}")


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the nearest of ``words``; empty where none is near."""
    nearest = difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f"; did you mean '{nearest[0]}'?" if nearest else ""
