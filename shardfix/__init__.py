"""Finds JAX sharding code that JAX rejects, or soon will, and rewrites it.

    >>> import shardfix
    >>> result = shardfix.fix_source('''\\
    ... from jax.experimental.shard_map import shard_map
    ... step = shard_map(f, mesh, in_specs=i, out_specs=o, check_rep=False)
    ... ''')
    >>> print(result.source, end="")
    from jax import shard_map
    step = shard_map(f, mesh=mesh, in_specs=i, out_specs=o, check_vma=False)
    >>> [finding.codemod for finding in result.findings]
    ['experimental-shard-map']

:func:`fix_paths` does it to files and folders, in this process, in many, or on any executor. What is imported here costs
nothing until it is used.
"""

TYPE_CHECKING = False  # type checkers know the name; nothing is imported before __main__ has set the path right
if TYPE_CHECKING:
    from shardfix.api import fix_paths, fix_source
    from shardfix.fixer import Result
    from shardfix.outcomes import FileOutcome
    from shardfix.outcomes import ReportedFinding as Finding
    from shardfix.settings import Settings

__all__ = ["FileOutcome", "Finding", "Result", "Settings", "__version__", "fix_paths", "fix_source"]

__version__ = "0.1.0"

_HOMES = {
    "FileOutcome": ("shardfix.outcomes", "FileOutcome"),
    "Finding": ("shardfix.outcomes", "ReportedFinding"),
    "Result": ("shardfix.fixer", "Result"),
    "Settings": ("shardfix.settings", "Settings"),
    "fix_paths": ("shardfix.api", "fix_paths"),
    "fix_source": ("shardfix.api", "fix_source"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)
