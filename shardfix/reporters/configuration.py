"""The settings in force, as TOML that could stand in a ``pyproject.toml``, and where each comes from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from shardfix.outcomes import ExitCode
from shardfix.reporters.base import Style
from shardfix.target import NEWEST_JAX, declared_jax

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from shardfix.configuration import Configurations
    from shardfix.reporters.base import Stream

__all__ = ["write_settings"]


def write_settings(paths: Sequence[str], configurations: Configurations, out: Stream) -> ExitCode:
    """Write the settings for each of ``paths``.

    Raises:
        UsageProblem: a configuration file is wrong.
    """
    for number, path in enumerate(paths):
        if number:
            out.line("")
        where = configurations.nearest(path).path or ("no file is read" if configurations.isolated else "no file")
        out.line(out.paint(f"# {path} (configuration: {where})", Style.BOLD))
        out.line("[tool.shardfix]")
        for key, value, source in _values(path, configurations):
            out.line(f"{key} = {value}{out.paint(f'  # {source}', Style.DIM)}")
    return ExitCode.CLEAN


def _values(path: str, configurations: Configurations) -> Iterator[tuple[str, str, str]]:
    """Key, value as TOML, and where it comes from."""
    said, found = configurations.command_line, configurations.nearest(path)
    settings = configurations.settings_for(path)
    file = os.path.basename(found.path or "")

    def source(by_command_line: object, by_file: object) -> str:
        if by_command_line:
            return "command line"
        return file if by_file else "default"

    names = sorted(configurations.available) if settings.codemods is None else list(settings.codemods)
    in_file = found.select or found.ignore or found.per_file_ignores
    yield "select", json.dumps(names), source(said.select or said.ignore, in_file)
    unsafe = settings.unsafe if isinstance(settings.unsafe, bool) else sorted(settings.unsafe)
    yield "unsafe", json.dumps(unsafe), source(said.unsafe is not None, found.unsafe is not None)
    folder = os.path.abspath(path if os.path.isdir(path) else os.path.dirname(path))
    declared = None if settings.target_jax else declared_jax(folder)
    target = settings.target_jax or declared or NEWEST_JAX
    origin = "declared by the project" if declared else source(said.target_jax, found.target_jax)
    yield "target-jax", json.dumps(target), origin
    yield "rank0-style", json.dumps(settings.rank0_style.value), source(said.rank0_style, found.rank0_style)
    yield "exclude", json.dumps(_patterns(found.exclude)), source(None, found.exclude)
    ignores = (
        f"{json.dumps(pattern)} = {json.dumps(names)}"
        for spec, names in found.per_file_ignores
        for pattern in _patterns(spec)
    )
    yield "per-file-ignores", f"{{{', '.join(ignores)}}}", source(None, found.per_file_ignores)


def _patterns(spec: GitIgnoreSpec | None) -> list[str]:
    """As they stand in the file."""
    return [str(pattern.pattern) for pattern in spec.patterns] if spec else []
