"""JAX's error text: what failed, and where.

``recognise(text)`` reads a log, whatever stands around the errors in it, and gives each error with the entry of
``errors.toml`` that it belongs to and its :class:`Evidence`, which codemods take as ``module.evidence``.
"""

from __future__ import annotations

from shardfix.tracebacks.evidence import Evidence, Recognised, evidence_of, recognise, summary
from shardfix.tracebacks.known import KnownError, explain, table
from shardfix.tracebacks.reader import Frame, ReportedError, read_errors

__all__ = [
    "Evidence",
    "Frame",
    "KnownError",
    "Recognised",
    "ReportedError",
    "evidence_of",
    "explain",
    "read_errors",
    "recognise",
    "summary",
    "table",
]
