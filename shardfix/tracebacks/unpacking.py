"""From what a log was packed into to the text that the program printed: JSON records, escaped strings, HTML."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["unpacked"]

_MESSAGE_KEYS = (
    "message msg log textPayload jsonPayload text event body exception exc_info exc_text stack_trace stacktrace "
    "stack traceback error line"
).split()
_WORKER_KEYS = (
    "rank host hostname pod pod_name container container_name worker worker_id process process_id task_id pid node"
).split()
_ESCAPED = re.compile(r"""\\n(?:[^\\\n]{0,80}?\s)?\s*File \\?["'“]""")
_ENTITY = re.compile(r"&(?:quot|#x27|#39|lt|gt);")
_TAG = re.compile(r"</?(?:span|pre|code|div|br|b|i|strong|font|samp)\b[^<>\n]*>")
# What was typed as “ or ‘ by a word processor or a chat.
_STRAIGHT = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "\u00a0": " ", "\u202f": " ", "\u200b": ""})


def unpacked(text: str) -> str:
    """The text as the program printed it; unchanged where nothing packs it."""
    if "\r" in text and "\n" not in text:
        text = text.replace("\r", "\n")
    text = "\n".join(_without_records(text.translate(_STRAIGHT)))
    if _ESCAPED.search(text):  # a string within a record, or what Python's repr() gives
        for escaped, plain in (("\\r", ""), ("\\n", "\n"), ('\\"', '"'), ("\\'", "'"), ("\\t", "\t")):
            text = text.replace(escaped, plain)
    if 'File ""' in text:  # a field of a CSV file
        text = text.replace('""', '"')
    if _ENTITY.search(text):
        text = html.unescape(_TAG.sub("", text))
    return text


def _without_records(text: str) -> Iterator[str]:
    """The lines, those that are JSON records replaced by the message in them."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            yield from _messages(whole if isinstance(whole, list) else [whole])
            return
    records: list[Any] = []
    for line in text.split("\n"):
        start = line.find("{")
        record = _record(line[start:]) if 0 <= start < 80 and line.rstrip().endswith("}") else None
        if record is not None:
            records.append(record)
            continue
        if records:
            yield from _messages(records)
            records = []
        yield line
    yield from _messages(records)


def _record(line: str) -> dict[str, Any] | None:
    if '"' not in line[:20]:
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and _message(record) is not None else None


def _messages(records: list[Any]) -> Iterator[str]:
    """The messages of records that follow each other, each line marked with the worker that wrote it."""
    workers = [_worker(record) for record in records]
    numbers = {worker: number for number, worker in enumerate(dict.fromkeys(workers))}
    for record, worker in zip(records, workers, strict=True):
        message = record if isinstance(record, str) else _message(record)
        if message is None:
            continue
        prefix = f"[worker {numbers[worker]}]: " if len(numbers) > 1 else ""
        for line in message.removesuffix("\n").split("\n"):
            yield prefix + line


def _message(record: object) -> str | None:
    """The text in a record: what its fields of the usual names hold, together where there are several."""
    if not isinstance(record, dict):
        return None
    found: list[str] = []
    for key in _MESSAGE_KEYS:
        value = record.get(key)
        if isinstance(value, dict):
            value = _message(value)
        elif isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            value = "\n".join(value)
        if isinstance(value, str):
            found.append(value)
    return "\n".join(dict.fromkeys(found)) if found else None


def _worker(record: object) -> str:
    """What tells the process that wrote a record from others."""
    if not isinstance(record, dict):
        return ""
    own = [f"{key}={record[key]}" for key in _WORKER_KEYS if isinstance(record.get(key), str | int)]
    return " ".join(own + [_worker(value) for value in record.values() if isinstance(value, dict)]).strip()
