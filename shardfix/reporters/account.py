"""What is known of the mapped functions at a line, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardfix import files
from shardfix.documents import is_notebook
from shardfix.outcomes import ExitCode
from shardfix.semantics.account import account
from shardfix.semantics.module import Module
from shardfix.settings import UsageProblem

if TYPE_CHECKING:
    from shardfix.reporters.base import Stream

__all__ = ["write_account"]


def write_account(place: str, out: Stream) -> ExitCode:
    """Write the account of ``place``, which is ``FILE:LINE``.

    Raises:
        UsageProblem: not a place, or a file that cannot be read or parsed.
    """
    path, _, line = place.rpartition(":")
    if not path or not line.isdigit():
        raise UsageProblem(f"not a place: '{place}' (write FILE:LINE, such as train.py:12)")
    if is_notebook(path):
        raise UsageProblem(
            "--explain-value takes no notebooks; `jupyter nbconvert --to script` makes a Python file of one"
        )
    try:
        module = Module(files.decode(files.read(path)).text, path)
    except files.FileProblem as problem:
        raise UsageProblem(f"{path}: {problem.reason}") from problem
    except SyntaxError as error:
        raise UsageProblem(f"{path}:{error.lineno}: {error.msg}") from error
    lines = list(account(module, int(line)))
    if not lines:
        lines = [f"no shard_map or smap at line {line} of {path}, nor a function that one maps"]
    out.line("\n".join(lines))
    return ExitCode.CLEAN
