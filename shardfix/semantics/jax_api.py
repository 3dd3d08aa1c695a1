"""What JAX's callables take: the reader of ``jax_api.toml``, which ``scripts/generate_jax_api.py`` writes.

Names are full dotted names as users write them (``jax.numpy.zeros``). Methods of arrays are ``jax.Array.reshape`` and
``jax.Array.at[...].get``; the function that an initializer factory returns is ``jax.nn.initializers.normal()``.
The table is read on the first question (about 3 ms).
"""

from __future__ import annotations

import enum
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "Parameter",
    "Signature",
    "Takes",
    "Unmeshed",
    "out_sharding_callables",
    "out_sharding_parameter",
    "parameters",
    "sharding_callables",
    "sharding_parameters",
    "signature",
]


class Takes(enum.StrEnum):
    """What a parameter takes. ``*_TREE``: a pytree of them, or one for all leaves."""

    SHARDING = "sharding"
    """A NamedSharding, or under a mesh context a PartitionSpec."""
    SHARDING_TREE = "sharding-tree"
    SPEC = "spec"
    """A PartitionSpec."""
    SPEC_TREE = "spec-tree"
    DEVICE = "device"
    """A device or a NamedSharding."""
    DEVICE_TREE = "device-tree"
    MESH = "mesh"

    @property
    def tree(self) -> bool:
        return self.value.endswith("-tree")


class Unmeshed(enum.StrEnum):
    """What a callable does with a NamedSharding outside any mesh context, with no operand on the mesh."""

    USED = "used"
    IGNORED = "ignored"
    """The result lies on one device, without a word."""
    RAISES = "raises"


@dataclass(frozen=True)
class Parameter:
    """A parameter that takes a sharding, spec, device or mesh."""

    name: str
    takes: Takes
    position: int | None
    """Index in the call as the user writes it (methods without self); None: by keyword only."""
    since: str
    """Oldest JAX, of those the table was made from, that has it."""
    until: str | None = None
    """The last that had it; None: the newest has it."""
    creates: bool = False
    """The callable makes an array from no array: no operand can bring a mesh along."""
    device: bool = False
    """The callable also takes ``device=``, and a NamedSharding there means the same."""
    unmeshed: Unmeshed | None = None
    """On a mesh with Explicit axes; None: not measured."""
    unmeshed_auto: Unmeshed | None = None
    """On a mesh with Auto axes."""


@dataclass(frozen=True)
class Signature:
    """How a function names its parameters, over all JAX versions."""

    positional: tuple[str, ...]
    keyword: tuple[str, ...]
    variadic: str | None
    """The parameter that takes any number of positional arguments after ``positional``."""
    renamed: tuple[tuple[str, str], ...]
    """Pairs of an older name and the newest one."""

    def newest_name(self, name: str) -> str:
        """``axis_sizes`` for make_mesh's ``axis_shapes``; the name itself where it was never renamed."""
        return dict(self.renamed).get(name, name)


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("jax_api.toml").read_text(encoding="utf-8"))


def _parameter(name: str, dotted: str) -> Parameter | None:
    row = _table()["parameter"][name].get(dotted)
    if row is None:
        return None
    return Parameter(
        name,
        Takes(row.get("takes") or _table()["takes"][name]),
        row.get("position"),
        row["since"],
        row.get("until"),
        row.get("creates", False),
        row.get("device", False),
        Unmeshed(row["unmeshed"]) if "unmeshed" in row else None,
        Unmeshed(row["unmeshed_auto"]) if "unmeshed_auto" in row else None,
    )


@cache
def out_sharding_parameter(dotted: str) -> Parameter | None:
    """The ``out_sharding`` parameter of that callable; None where it has none, or is not known."""
    return _parameter("out_sharding", dotted)


@cache
def sharding_parameters(dotted: str) -> tuple[Parameter, ...]:
    """All parameters of that callable that take a sharding, spec, device or mesh."""
    found = (_parameter(name, dotted) for name in _table()["parameter"])
    return tuple(parameter for parameter in found if parameter is not None)


@cache
def out_sharding_callables() -> frozenset[str]:
    """The names of all callables with an ``out_sharding`` parameter."""
    return frozenset(_table()["parameter"]["out_sharding"])


@cache
def sharding_callables() -> frozenset[str]:
    """The names of all callables for which :func:`sharding_parameters` gives any."""
    return frozenset(dotted for rows in _table()["parameter"].values() for dotted in rows)


@cache
def signature(dotted: str) -> Signature | None:
    """The parameters of a function whose arguments shardfix binds; None where the table has it not."""
    text = _table()["signatures"].get(dotted)
    if text is None:
        return None
    positional: list[str] = []
    keyword: list[str] = []
    renamed: list[tuple[str, str]] = []
    variadic = None
    words = positional
    for word in text.split():
        if word == "*":
            words = keyword
        elif word.startswith("*"):
            variadic = word[1:]
        else:
            newest, *older = word.split("|")
            words.append(newest)
            renamed += [(name, newest) for name in older]
    return Signature(tuple(positional), tuple(keyword), variadic, tuple(renamed))


def parameters(dotted: str) -> tuple[str, ...] | None:
    """Names of the parameters in positional order, keyword-only ones after; None where the table has it not.

    A parameter that an older JAX took by position keeps its place.
    """
    found = signature(dotted)
    return None if found is None else found.positional + found.keyword
