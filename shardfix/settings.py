"""What a run is asked to do: one frozen value, read from the command line and from ``[tool.shardfix]``."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["Rank0Style", "Settings"]


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
