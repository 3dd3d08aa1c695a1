"""Work on an executor whose workers may share no disk with this process: contents are sent, not paths.

A batch comes with the texts of the whole run, packed, for the analysis of a file asks for others. A worker unpacks them
once. What is sent grows with the square of the run, divided by :data:`BATCH`.
"""

from __future__ import annotations

import os
import pickle
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from shardfix import files
from shardfix.documents import document
from shardfix.outcomes import FileOutcome
from shardfix.semantics.project import ROOT_MARKS

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from shardfix.runner import Examined, Task, Worker

__all__ = ["on_executor"]

BATCH = 1_000_000
"""Bytes that go to a worker at once."""


def on_executor(
    executor: Executor, tasks: Sequence[Task], contents: Mapping[str, bytes], paths: tuple[str, ...]
) -> Iterator[Examined]:
    """What came of the tasks, in their order; a batch that the executor fails on costs its files."""
    from shardfix.runner import Examined, batched

    packed = _packed(contents, paths)
    batches = list(batched(tasks, lambda task: len(task.data), BATCH))
    futures = [executor.submit(_examine, packed, batch) for batch in batches]
    try:
        for future, batch in zip(futures, batches, strict=True):
            try:
                yield from future.result()
            except Exception as error:
                reason = f"the executor failed: {type(error).__name__}: {error}"
                yield from (Examined(FileOutcome.failed(task.path, reason), None) for task in batch)
    finally:
        for future in futures:
            future.cancel()


def _packed(contents: Mapping[str, bytes], paths: tuple[str, ...]) -> bytes:
    folders = {os.path.dirname(os.path.abspath(path)) for path in contents}
    for folder in tuple(folders):
        while folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
            folders.add(folder)
    marks = [os.path.join(folder, mark) for folder in folders for mark in ROOT_MARKS]
    return zlib.compress(pickle.dumps((dict(contents), [mark for mark in marks if os.path.exists(mark)], paths)), 1)


def _examine(packed: bytes, tasks: list[Task]) -> list[Examined]:
    worker = _worker(packed)
    return [worker.examine(task) for task in tasks]


@lru_cache(maxsize=1)
def _worker(packed: bytes) -> Worker:
    from shardfix.runner import Worker

    contents, marks, paths = pickle.loads(zlib.decompress(packed))
    sources = dict.fromkeys(marks, "")
    for path, data in contents.items():
        try:
            sources[path] = document(path, data).text
        except files.FileProblem:
            continue
    return Worker(paths, sources=sources)
