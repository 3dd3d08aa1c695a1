"""The pen: requests for edits, as plain data against positions of the original text.

Code in a request may name an object of JAX by its full name, written with :func:`named`; the importer puts the
spelling that is right at that place, and adds or merges the import where there is none::

    Replace(Range.of(node), f"{named('jax.sharding.PartitionSpec')}('x', None)")

:func:`shardfix.edits.pen.apply` carries requests out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardfix.codemod import Range

__all__ = [
    "NAMED",
    "DropImport",
    "Edit",
    "InsertDefinition",
    "InsertStatement",
    "KeywordToPositional",
    "MoveImport",
    "PositionalToKeyword",
    "RemoveArgument",
    "RemoveAs",
    "RemoveStatement",
    "RenameArgument",
    "Replace",
    "ReplaceComment",
    "SetArgument",
    "Wrap",
    "named",
]

NAMED = re.compile("⟪([\\w.]+)⟫")


def named(dotted: str) -> str:
    """The marker for a JAX object (``jax.sharding.PartitionSpec``) in the code of an edit."""
    return f"⟪{dotted}⟫"


@dataclass(frozen=True)
class Edit:
    """Base of all requests. ``at`` is the range of the node that is changed."""

    at: Range


@dataclass(frozen=True)
class Replace(Edit):
    """Put ``code`` in the place of the expression at ``at`` (parenthesised where precedence needs it)."""

    code: str


@dataclass(frozen=True)
class Wrap(Edit):
    """Put ``before`` and ``after`` around the expression at ``at``, which keeps its text, its comments and any edits within."""

    before: str
    after: str


@dataclass(frozen=True)
class SetArgument(Edit):
    """Give the call at ``at`` the keyword argument ``name=code``: replaces its value, or appends it (before any ``**``)."""

    name: str
    code: str


@dataclass(frozen=True)
class RenameArgument(Edit):
    """Rename the keyword argument ``old`` of the call at ``at``."""

    old: str
    new: str


@dataclass(frozen=True)
class RemoveArgument(Edit):
    """Remove the keyword argument ``name`` (or the positional one of that index) of the call at ``at``."""

    name: str | int


@dataclass(frozen=True)
class PositionalToKeyword(Edit):
    """Give positional arguments of the call at ``at`` their names: ``((1, "mesh"), (2, "in_specs"))``; index as in the original call."""

    names: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class KeywordToPositional(Edit):
    """Make the keyword argument ``name`` of the call at ``at`` its first positional argument."""

    name: str


@dataclass(frozen=True)
class MoveImport(Edit):
    """In the ``from`` import at ``at``, take the imported ``name`` from a new home; the name it is bound to stays the same.

    ``to`` is the new dotted name: ``jax.shard_map`` turns ``from jax.experimental.shard_map import shard_map as sm``
    into ``from jax import shard_map as sm``.
    """

    name: str
    to: str


@dataclass(frozen=True)
class DropImport(Edit):
    """Remove the binding ``bound`` from the import statement at ``at`` if, with the other edits done, nothing refers to it."""

    bound: str


@dataclass(frozen=True)
class InsertStatement(Edit):
    """Put ``code`` (one or more whole statements, unindented) on lines of its own before the statement at ``at``, indented alike."""

    code: str


@dataclass(frozen=True)
class RemoveStatement(Edit):
    """Remove the statement at ``at`` with its line (``pass`` takes its place if the block would be empty)."""


@dataclass(frozen=True)
class RemoveAs(Edit):
    """Remove the ``as name`` that follows the expression at ``at`` in the head of a ``with``."""


@dataclass(frozen=True)
class ReplaceComment(Edit):
    """Put ``text`` in the place of the comment, or the part of one, at ``at``; with no text the comment goes, and its line if
    there is nothing else on it."""

    text: str


@dataclass(frozen=True)
class InsertDefinition(Edit):
    """Put a module-level function definition after the imports, once a file however many fixes ask for it.

    ``at`` is the range of the first use, before which the definition must stand. ``name`` is the function's name.
    """

    name: str
    code: str
