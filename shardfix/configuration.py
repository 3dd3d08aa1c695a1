"""``[tool.shardfix]`` of the nearest ``pyproject.toml``: read, checked, and joined with the command line, which wins."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shardfix.files import NOTEBOOK_SUFFIX, PYTHON_SUFFIXES
from shardfix.settings import Rank0Style, Settings, UsageProblem, codemod_named, did_you_mean

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["CommandLine", "Configuration", "Configurations", "schema"]

FILE = "pyproject.toml"
TABLE = "tool.shardfix"


@dataclass(frozen=True)
class CommandLine:
    """What the command line says of the settings; None and empty where it says nothing."""

    select: tuple[str, ...] = ()
    """Codemods to run: these take the place of the file's ``select`` and ``ignore``."""
    ignore: tuple[str, ...] = ()
    """Codemods not to run, besides those that the file ignores."""
    unsafe: bool | None = None
    target_jax: str | None = None
    rank0_style: Rank0Style | None = None


@dataclass(frozen=True)
class Configuration:
    """What one file says."""

    path: str | None = None
    """The file, absolute; None where there is none."""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[GitIgnoreSpec, tuple[str, ...]], ...] = ()
    """Patterns, relative to the folder of the file, with the codemods that do not run on what they match."""
    exclude: GitIgnoreSpec | None = None
    target_jax: str | None = None
    unsafe: frozenset[str] | bool | None = None
    rank0_style: Rank0Style | None = None

    def relative(self, path: str) -> str | None:
        """``path`` (absolute) as patterns see it; None where it lies elsewhere."""
        if self.path is None:
            return None
        folder = os.path.dirname(self.path).rstrip(os.sep) + os.sep
        return path[len(folder) :].replace(os.sep, "/") if path.startswith(folder) else None

    def excludes(self, path: str) -> bool:
        """Whether ``path`` (absolute; a folder ends in a slash) is not to be looked at."""
        relative = self.relative(path) if self.exclude else None
        return bool(relative) and self.exclude is not None and self.exclude.match_file(relative or "")

    def ignored_in(self, path: str) -> frozenset[str]:
        """The codemods that do not run on the file ``path`` (absolute)."""
        relative = self.relative(path) if self.per_file_ignores else None
        if relative is None:
            return frozenset()
        return frozenset(name for spec, names in self.per_file_ignores if spec.match_file(relative) for name in names)


@dataclass
class Configurations:
    """The settings of each file. What is read is kept: files of one folder cost one look.

    Args:
        command_line: what it says wins.
        available: the names of the codemods that there are.
        isolated: read no file.
    """

    command_line: CommandLine
    available: Collection[str]
    isolated: bool = False
    _of_folder: dict[str, Configuration] = field(default_factory=dict)
    _settings: dict[tuple[str | None, frozenset[str]], Settings] = field(default_factory=dict)
    _real_folders: dict[str, str] = field(default_factory=dict)

    def nearest(self, path: str) -> Configuration:
        """The configuration that holds for the file or folder ``path``.

        Raises:
            UsageProblem: the file that has it is wrong.
        """
        return self._at(os.path.dirname(self._real(path)))

    def settings_for(self, path: str) -> Settings:
        """The settings for the file or folder ``path``.

        Raises:
            UsageProblem: the file that has them is wrong.
        """
        real = self._real(path)
        configuration = self._at(os.path.dirname(real))
        ignored = configuration.ignored_in(real)
        key = (configuration.path, ignored)
        if key not in self._settings:
            self._settings[key] = _joined(configuration, ignored, self.command_line, self.available)
        return self._settings[key]

    def _real(self, path: str) -> str:
        """``path`` from the root; a folder ends in a slash. A link to a file stands where it stands."""
        folder, name = (path, "") if os.path.basename(path) in ("", ".", "..") else os.path.split(path)
        if folder not in self._real_folders:
            self._real_folders[folder] = os.path.realpath(folder or os.curdir)
        real = os.path.join(self._real_folders[folder], name)
        return (
            real
            if name.endswith((*PYTHON_SUFFIXES, NOTEBOOK_SUFFIX)) or not os.path.isdir(real)
            else os.path.join(real, "")
        )

    def excludes(self, path: str) -> bool:
        """Whether the file ``path``, or the folder if it ends in a slash, is excluded by the configuration around it."""
        return self._at(os.path.dirname(path.rstrip("/"))).excludes(path)

    def _at(self, folder: str) -> Configuration:
        """The configuration for files in ``folder`` (absolute): of the nearest file upwards that has the table.

        The search ends at the root of the repository.
        """
        if self.isolated:
            return Configuration()
        if folder not in self._of_folder:
            found = read(os.path.join(folder, FILE), self.available)
            if found is None:
                above = os.path.dirname(folder)
                at_the_end = above == folder or os.path.exists(os.path.join(folder, ".git"))
                found = Configuration() if at_the_end else self._at(above)
            self._of_folder[folder] = found
        return self._of_folder[folder]


def _joined(
    configuration: Configuration, ignored: frozenset[str], command_line: CommandLine, available: Collection[str]
) -> Settings:
    said = command_line
    configured = (set(configuration.select) or set(available)) - set(configuration.ignore)
    names = (set(said.select) or configured) - {*said.ignore, *ignored}
    unsafe = configuration.unsafe if said.unsafe is None else said.unsafe
    return Settings(
        codemods=None if names == set(available) else tuple(sorted(names)),
        unsafe=unsafe or False,
        target_jax=said.target_jax or configuration.target_jax,
        rank0_style=said.rank0_style or configuration.rank0_style or Rank0Style.AUTO,
    )


# One file


def read(path: str, available: Collection[str]) -> Configuration | None:
    """What the ``pyproject.toml`` at ``path`` (absolute) says; None where it is not there or does not speak of shardfix.

    Raises:
        UsageProblem: it speaks of shardfix, and is wrong.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    if "shardfix" not in text:
        return None
    import tomllib

    try:
        tool = tomllib.loads(text).get("tool")
    except tomllib.TOMLDecodeError as error:
        raise UsageProblem(f"{_shown(path)}: {error}") from None
    if not isinstance(tool, dict) or "shardfix" not in tool:
        return None
    return _Reader(_shown(path), available).read(path, tool["shardfix"])


def _shown(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


@dataclass(frozen=True)
class _Reader:
    """Reads the table of one file; each complaint names file and key."""

    shown: str
    available: Collection[str]

    def read(self, path: str, table: object) -> Configuration:
        values: dict[str, Any] = {}
        if not isinstance(table, dict):
            raise self._problem("", "must be a table")
        for key, value in table.items():
            option = OPTIONS.get(key)
            if option is None:
                raise self._problem(key, f"unknown key{did_you_mean(key, OPTIONS)}")
            values[key.replace("-", "_")] = option.read(self, key, value)
        return Configuration(path, **values)

    def codemods(self, key: str, value: object) -> tuple[str, ...]:
        names = self._strings(key, value)
        try:
            return tuple(codemod_named(name, self.available) for name in names)
        except UsageProblem as problem:
            raise self._problem(key, str(problem)) from None

    def patterns(self, key: str, value: object) -> GitIgnoreSpec:
        from pathspec import GitIgnoreSpec

        patterns = self._strings(key, value)
        try:
            return GitIgnoreSpec.from_lines(patterns)
        except ValueError as error:
            raise self._problem(key, f"not a pattern as in .gitignore: {error}") from None

    def ignores_by_pattern(self, key: str, value: object) -> tuple[tuple[GitIgnoreSpec, tuple[str, ...]], ...]:
        if not isinstance(value, dict):
            raise self._problem(key, 'must be a table of patterns, such as { "tests/*" = ["renames"] }')
        return tuple(
            (self.patterns(key, [pattern]), self.codemods(f'{key}."{pattern}"', names))
            for pattern, names in value.items()
        )

    def target(self, key: str, value: object) -> str:
        from shardfix.target import parse_target

        if not isinstance(value, str):
            raise self._problem(key, f'must be a version in quotes, such as "{value}"')
        try:
            return parse_target(value)
        except ValueError as error:
            raise self._problem(key, str(error)) from None

    def unsafe(self, key: str, value: object) -> frozenset[str] | bool:
        if isinstance(value, bool):
            return value
        if not isinstance(value, list):
            raise self._problem(key, "must be true, false or a list of codemods")
        return frozenset(self.codemods(key, value))

    def rank0_style(self, key: str, value: object) -> Rank0Style:
        styles = [style.value for style in Rank0Style]
        if value not in styles:
            raise self._problem(key, f"must be one of {', '.join(styles)}{did_you_mean(str(value), styles)}")
        return Rank0Style(value)

    def _strings(self, key: str, value: object) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._problem(key, "must be a list of strings")
        return value

    def _problem(self, key: str, sentence: str) -> UsageProblem:
        return UsageProblem(f"{self.shown}: {TABLE}{'.' if key else ''}{key}: {sentence}")


@dataclass(frozen=True)
class _Option:
    """A key of the table."""

    description: str
    read: Callable[[_Reader, str, object], Any]
    shape: Callable[[list[str]], Mapping[str, Any]]
    """Its JSON schema, given the names of the codemods."""


def _names(codemods: Iterable[str]) -> dict[str, Any]:
    return {"type": "array", "items": {"enum": [*codemods]}, "uniqueItems": True}


PATTERNS = {"type": "array", "items": {"type": "string"}}

OPTIONS = {
    "select": _Option("Run only these codemods; all, if the list is empty.", _Reader.codemods, _names),
    "ignore": _Option("Do not run these codemods.", _Reader.codemods, _names),
    "per-file-ignores": _Option(
        "Codemods that do not run on files that match a pattern (as in .gitignore, relative to this file).",
        _Reader.ignores_by_pattern,
        lambda codemods: {"type": "object", "additionalProperties": _names(codemods)},
    ),
    "exclude": _Option(
        "Files and folders not to look at, as in .gitignore, relative to this file; what is named on the command line is "
        "looked at all the same, unless --force-exclude is given.",
        _Reader.patterns,
        lambda codemods: PATTERNS,
    ),
    "target-jax": _Option(
        "The oldest JAX that the code must still run on; else what the project declares, else the newest.",
        _Reader.target,
        lambda codemods: {"type": "string", "pattern": r"^\d+(\.\d+)*$"},
    ),
    "unsafe": _Option(
        "Apply also fixes that may change what the program means: of all codemods, or of those in the list.",
        _Reader.unsafe,
        lambda codemods: {"oneOf": [{"type": "boolean"}, _names(codemods)]},
    ),
    "rank0-style": _Option(
        "How a scalar output gets its axis: keepdims=True or [None].",
        _Reader.rank0_style,
        lambda codemods: {"enum": [style.value for style in Rank0Style]},
    ),
}


def schema(codemods: Iterable[str]) -> dict[str, Any]:
    """The JSON schema of the table, as ``shardfix/schema.json`` has it for the codemods that come with shardfix."""
    names = sorted(codemods)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "shardfix",
        "description": "The table [tool.shardfix] of a pyproject.toml.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: {"description": option.description, **option.shape(names)} for key, option in OPTIONS.items()
        },
    }
