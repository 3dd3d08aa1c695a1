"""A unified diff that plain ``git apply`` takes: bytes in, bytes out."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeVar

__all__ = ["grouped_opcodes", "lies_outside", "unified_diff"]

CONTEXT = 3

ESCAPES = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 34: b'"', 92: b"\\"}
NEEDS_QUOTING = re.compile(rb"[^ !#-\[\]-~]")


def unified_diff(path: str, before: bytes, after: bytes, part: str = "") -> bytes:
    """The patch that turns ``before`` into ``after``, for the file ``path``; empty where they are equal.

    The header has no ``diff --git`` line: git reads such paths from the current folder, also in a subfolder of a repository.
    With ``part``, which is added to the path, it is for people only.
    """
    if before == after:
        return b""
    name = _patch_path(path) + part.encode()
    # A name with a blank ends in a tab, as git writes it, so that readers know where it ends.
    tab = b"\t" if b" " in name else b""
    header = b"--- %b%b\n+++ %b%b\n" % (_quoted(b"a/" + name), tab, _quoted(b"b/" + name), tab)
    return header + b"".join(_hunks(_lines(before), _lines(after)))


def lies_outside(path: str) -> bool:
    """Whether ``path`` lies outside the current folder, so that the patch needs ``git apply --unsafe-paths``."""
    return _patch_path(path).startswith(b"../")


def _patch_path(path: str) -> bytes:
    """The path from the current folder, links resolved (git does not patch through a link)."""
    relative = os.path.relpath(os.path.realpath(path), os.path.realpath(os.curdir))
    return os.fsencode(relative.replace(os.sep, "/"))


def _quoted(name: bytes) -> bytes:
    if not NEEDS_QUOTING.search(name):
        return name
    return b'"%b"' % b"".join(_escaped(byte) for byte in name)


def _escaped(byte: int) -> bytes:
    if byte in ESCAPES:
        return b"\\" + ESCAPES[byte]
    return b"\\%03o" % byte if byte < 0x20 or byte >= 0x7F else bytes([byte])


def _lines(data: bytes) -> list[bytes]:
    """Lines as git counts them: by the line feed alone."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _hunks(before: list[bytes], after: list[bytes]) -> Iterator[bytes]:
    for group in grouped_opcodes(before, after):
        (_, first, _, new_first, _), (_, _, last, _, new_last) = group[0], group[-1]
        yield b"@@ -%b +%b @@\n" % (_extent(first, last), _extent(new_first, new_last))
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                yield from (_line(b" ", line) for line in before[start:end])
            else:
                yield from (_line(b"-", line) for line in before[start:end])
                yield from (_line(b"+", line) for line in after[new_start:new_end])


def _line(mark: bytes, line: bytes) -> bytes:
    return mark + line if line.endswith(b"\n") else mark + line + b"\n\\ No newline at end of file\n"


def _extent(start: int, end: int) -> bytes:
    length = end - start
    if length == 1:
        return b"%d" % (start + 1)
    return b"%d,%d" % (start + 1 if length else start, length)


Opcode = tuple[str, int, int, int, int]
AnyLine = TypeVar("AnyLine", bound=Hashable)


def grouped_opcodes(before: Sequence[AnyLine], after: Sequence[AnyLine]) -> Iterator[list[Opcode]]:
    """What differs between two texts, given as lines: as :meth:`SequenceMatcher.get_grouped_opcodes`."""
    yield from _grouped(_opcodes(before, after))


def _opcodes(before: Sequence[AnyLine], after: Sequence[AnyLine]) -> list[Opcode]:
    """As :meth:`SequenceMatcher.get_opcodes`, which sees only the part between the common head and tail."""
    shorter = min(len(before), len(after))
    head = next((i for i in range(shorter) if before[i] != after[i]), shorter)
    tail = next((i for i in range(shorter - head) if before[-1 - i] != after[-1 - i]), shorter - head)
    end, new_end = len(before) - tail, len(after) - tail
    matcher = SequenceMatcher(None, before[head:end], after[head:new_end])
    middle = [(tag, i + head, j + head, k + head, m + head) for tag, i, j, k, m in matcher.get_opcodes()]
    opcodes: list[Opcode] = [("equal", 0, head, 0, head), *middle, ("equal", end, len(before), new_end, len(after))]
    return [opcode for opcode in opcodes if opcode[1] < opcode[2] or opcode[3] < opcode[4]]


def _grouped(opcodes: list[Opcode]) -> Iterator[list[Opcode]]:
    """Changes with their context, split where more than two contexts lie between them."""
    group: list[Opcode] = []
    for index, (tag, start, end, new_start, new_end) in enumerate(opcodes):
        if tag != "equal":
            group.append((tag, start, end, new_start, new_end))
            continue
        keep_after = CONTEXT if index > 0 else 0
        keep_before = CONTEXT if index < len(opcodes) - 1 else 0
        if end - start <= keep_after + keep_before:
            group.append((tag, start, end, new_start, new_end))
            continue
        if group:
            yield [*group, (tag, start, start + keep_after, new_start, new_start + keep_after)]
        group = [(tag, end - keep_before, end, new_end - keep_before, new_end)] if keep_before else []
    if group:
        yield group
