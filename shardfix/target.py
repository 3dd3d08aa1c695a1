"""The oldest JAX that the code must still run on: as the command line says, or as the project declares."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

__all__ = ["NEWEST_JAX", "declared_jax", "has", "oldest", "parse_target"]

NEWEST_JAX = "0.12"
"""The newest JAX that the tables of this version know."""


def parse_target(text: str) -> str:
    """The version in ``text``, as given on the command line.

    Raises:
        ValueError: it is no version, or newer than any that is known.
    """
    from packaging.version import InvalidVersion, Version

    try:
        version = Version(text)
    except InvalidVersion:
        raise ValueError(f"{text!r} is not a version of JAX; write it like {NEWEST_JAX}") from None
    if version.release[:2] > Version(NEWEST_JAX).release:
        likely = f"0.{text}" if "." not in text and text.isdigit() and int(text) <= 12 else NEWEST_JAX
        raise ValueError(f"JAX {text} is not known; did you mean {likely}? (the newest known is {NEWEST_JAX})")
    return text


def has(target: str, needed: str | None) -> bool:
    """Whether every JAX from ``target`` on has what came with version ``needed``."""
    if needed is None:
        return True
    from packaging.version import Version

    return Version(target) >= Version(needed)


@cache
def declared_jax(folder: str) -> str | None:
    """The lower bound for jax that the project around ``folder`` (an absolute path) declares; None where there is none.

    The nearest folder upwards that declares one decides; the search ends at the root of the repository.
    """
    bound = oldest(_bounds_in(folder))
    if bound:
        return bound
    parent = os.path.dirname(folder)
    if parent == folder or os.path.exists(os.path.join(folder, ".git")):
        return None
    return declared_jax(parent)


def oldest(versions: Iterable[str]) -> str | None:
    """The oldest of ``versions``; None of none."""
    from packaging.version import Version

    return min(versions, key=Version, default=None)


def _bounds_in(folder: str) -> Iterator[str]:
    for name, parse in (("pyproject.toml", _in_pyproject), ("setup.cfg", _in_setup_cfg)):
        text = _text(os.path.join(folder, name))
        if "jax" in text:
            with contextlib.suppress(ValueError):  # a file that is broken declares nothing
                yield from parse(text)
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "requirements*.txt"))):
        yield from _in_requirements(_text(path).splitlines())


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _in_pyproject(text: str) -> Iterator[str]:
    import tomllib

    data = tomllib.loads(text)
    project = _table(data.get("project"))
    lists = [project.get("dependencies"), *_table(project.get("optional-dependencies")).values()]
    lists += _table(data.get("dependency-groups")).values()
    for requirements in lists:
        if isinstance(requirements, list):
            yield from _in_requirements(item for item in requirements if isinstance(item, str))
    poetry = _table(_table(data.get("tool")).get("poetry"))
    groups = [poetry, *map(_table, _table(poetry.get("group")).values())]
    for group in groups:
        for section in ("dependencies", "dev-dependencies"):
            yield from _in_poetry(_table(group.get(section)).get("jax"))


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _in_setup_cfg(text: str) -> Iterator[str]:
    import configparser

    config = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        config.read_string(text)
    except configparser.Error:
        return
    yield from _in_requirements(config.get("options", "install_requires", fallback="").splitlines())
    if config.has_section("options.extras_require"):
        for _, value in config.items("options.extras_require"):
            yield from _in_requirements(value.splitlines())


def _in_requirements(lines: Iterable[str]) -> Iterator[str]:
    """The lower bounds that requirement lines (PEP 508) put on jax."""
    for line in lines:
        line = line.partition(" #")[0].strip()
        if not line.lower().startswith("jax"):
            continue
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            requirement = Requirement(line.partition(" --")[0])
        except InvalidRequirement:
            continue
        if requirement.name.lower() == "jax":
            bound = _lower_bound(str(requirement.specifier))
            if bound:
                yield bound


def _in_poetry(value: object) -> Iterator[str]:
    """The lower bounds in a Poetry constraint: ``"^0.8"``, ``{version = ">=0.8,<0.10"}``, or a list of such tables."""
    for item in value if isinstance(value, list) else [value]:
        text = item.get("version") if isinstance(item, dict) else item
        if isinstance(text, str):
            bounds = [_lower_bound(part) for part in text.split("||")]
            if None not in bounds:
                yield from filter(None, bounds)


def _lower_bound(constraint: str) -> str | None:
    """The oldest version that a comma-separated constraint lets in: ``0.8`` for ``>=0.8,<0.10``; None for no bound."""
    from packaging.version import InvalidVersion, Version

    bounds = []
    for clause in constraint.split(","):
        clause = clause.strip()
        version = clause.lstrip("=~^> ").removesuffix(".*").strip()
        if clause.startswith(("<", "!")):
            continue
        with contextlib.suppress(InvalidVersion):
            Version(version)
            bounds.append(version)
    return max(bounds, key=Version, default=None)
