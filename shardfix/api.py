"""shardfix for scripts: what the command line does, as functions that give values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from shardfix import files
from shardfix.codemod import all_codemods
from shardfix.fixer import Result, fix
from shardfix.outcomes import FileOutcome
from shardfix.runner import run
from shardfix.semantics.project import Project
from shardfix.settings import Settings
from shardfix.target import NEWEST_JAX, declared_jax

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["fix_paths", "fix_source"]


def fix_source(
    source: str, path: str = "<string>", settings: Settings | None = None, project: Project | None = None
) -> Result:
    """Find what is wrong in one text, and repair what the settings allow.

    Args:
        source: a Python module; its newlines stay as they are.
        path: where it would stand, for what its imports mean and which JAX its project declares. Nothing is read from there.
        settings: what to find and what to fix; all codemods and their safe fixes by default.
        project: the files around it; by default those that it imports.

    Returns:
        The new text (``result.source``, the old one where nothing is changed), the findings, and what went wrong.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: the text cannot be parsed, as :func:`ast.parse`.
        KeyError: the settings name a codemod that there is not.

    >>> from shardfix import Settings, fix_source
    >>> old = "import jax\\nx = jax.tree_map(abs, y)\\n"
    >>> print(fix_source(old).source, end="")
    import jax
    x = jax.tree.map(abs, y)
    >>> fix_source(old, settings=Settings(codemods=("pjit",))).findings
    ()
    """
    settings = settings or Settings()
    target = settings.target_jax or declared_jax(os.path.dirname(os.path.abspath(path))) or NEWEST_JAX
    available = all_codemods()
    names = available if settings.codemods is None else settings.codemods
    codemods = [available[name] for name in names]
    return fix(source, path, replace(settings, target_jax=target), project or Project(), codemods)


def fix_paths(
    paths: Iterable[str | os.PathLike[str]],
    settings: Settings | None = None,
    *,
    write: bool = False,
    executor: Executor | None = None,
    workers: int | None = None,
    use_cache: bool = False,
) -> Iterator[FileOutcome]:
    """Find what is wrong in files, and repair what the settings allow.

    Args:
        paths: files, and folders that are searched for Python files.
        settings: what to find and what to fix; all codemods and their safe fixes by default.
        write: whether to write the repairs. All files are analysed before the first is written.
        executor: where the work is done: any executor of :mod:`concurrent.futures`, also one whose workers share no disk
            with this process, for it is sent contents and not paths. What lies outside ``paths`` is then not known.
        workers: without an executor, how many processes to use at most; one a processor by default.
        use_cache: whether to take what earlier runs found where nothing has changed since.

    Yields:
        One outcome a file, in a stable order: the findings, the content before and after (None where nothing changes),
        and, instead of an exception, why a file could not be dealt with.

    >>> import pathlib, tempfile
    >>> from shardfix import fix_paths
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.py")
    ...     _ = path.write_text("from jax.experimental.pjit import pjit\\nstep = pjit(f)\\n")
    ...     for one in fix_paths([folder], write=True):
    ...         print(one.outcome, [finding.codemod for finding in one.findings])
    ...     print(path.read_text(), end="")
    fixed ['pjit']
    import jax
    step = jax.jit(f)
    """
    settings = settings or Settings()
    found = files.discover([os.fspath(path) for path in paths])
    outcomes = run(found, lambda _: settings, workers, use_cache=use_cache, executor=executor)
    if not write:
        yield from outcomes
        return
    from shardfix.application import write as write_outcome

    for outcome in list(outcomes):
        yield write_outcome(outcome)
