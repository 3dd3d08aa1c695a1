"""What is analysed of a file, and how what comes of it goes back: a Python file as it is, a notebook as its code cells."""

from __future__ import annotations

import ast
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardfix import files

if TYPE_CHECKING:
    from shardfix.outcomes import ReportedFinding

__all__ = ["Document", "document", "is_notebook", "parsed", "searched", "syntax_problem"]

NEWER_SYNTAX = frozenset({"invalid syntax", "expected '('", "expected ':'"})
"""What Python says of syntax that a later one has brought."""


class Document(ABC):
    """The code of one file.

    Raises:
        FileProblem: from any of its methods, where the file is not what its name says.
    """

    @property
    @abstractmethod
    def text(self) -> str:
        """The code as one Python module."""

    @property
    def shown(self) -> str:
        """The same lines as people know them."""
        return self.text

    @abstractmethod
    def check(self) -> None:
        """See that it is Python, each part for itself.

        Raises:
            SyntaxError, ValueError, RecursionError, MemoryError: it is not, as :func:`ast.parse`.
        """

    def located(self, findings: Iterable[ReportedFinding]) -> tuple[ReportedFinding, ...]:
        """``findings`` of the text, with their places in the file where these are others."""
        return tuple(findings)

    @abstractmethod
    def with_text(self, text: str) -> bytes:
        """The content of the file when ``text`` takes the place of its code."""


@dataclass(frozen=True)
class _PythonFile(Document):
    source: files.Source

    @property
    def text(self) -> str:
        return self.source.text

    def check(self) -> None:
        parsed(self.text)

    def with_text(self, text: str) -> bytes:
        return files.encode(self.source, text)


def parsed(code: str) -> ast.Module:
    """As :func:`ast.parse`, without the warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code)


def syntax_problem(error: SyntaxError) -> str:
    """Why code cannot be parsed; where it may be newer than the Python that reads it, which one that is."""
    message = error.msg
    if message in NEWER_SYNTAX or message.startswith("f-string"):
        message += f" for Python {sys.version_info.major}.{sys.version_info.minor}, which shardfix runs on"
    return f"cannot be parsed: {message}"


def is_notebook(path: str) -> bool:
    """Whether the file of that name is a Jupyter notebook."""
    return path.endswith(files.NOTEBOOK_SUFFIX)


def document(path: str, data: bytes) -> Document:
    """The code in the file ``path``, whose content is ``data``.

    Raises:
        FileProblem: it cannot be decoded, or is no notebook that can be read.
    """
    if is_notebook(path):
        from shardfix.notebooks import Notebook

        return Notebook.of(data)
    return _PythonFile(files.decode(data))


def searched(path: str, data: bytes) -> bytes:
    """The bytes that the triggers of codemods are looked for in."""
    if not is_notebook(path):
        return data
    try:
        return document(path, data).text.encode(errors="surrogatepass")
    except files.FileProblem:
        return data  # whether it is reported hangs on whether it looks like code that matters
