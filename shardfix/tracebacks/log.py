"""Log text to plain lines: colours, progress bars, and the prefixes that launchers and loggers put before each line.

A log of several workers is taken apart into one stream for each worker, so that their lines do not mix.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from shardfix.tracebacks.unpacking import unpacked

__all__ = ["readings"]

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_=>()][0-9A-Za-z]?)|[\x00\x0e\x0f\ufeff]"
    # The same as `cat -v`, JSON, shells and rsyslog write it, or where the escape character itself was lost.
    r"|(?:\^\[|\\(?:x1b|u001b|033|e)|#033)?\[\d{1,3}(?:;\d{1,3})*m|(?:\^\[|\\(?:x1b|u001b|033|e)|#033)\[[mK]"
)
_HEADER = "Traceback (most recent call last)"

# What identifies the worker stays in the key of the stream; times and levels differ from line to line and do not.
_WORKER = re.compile(
    r"""\s?(?:
        \([^()\n]{0,80}?pid=\d+[^()\n]{0,80}\)\ ?                       # Ray: (train pid=123, ip=10.0.0.1)
      | \[(?:rank|default|host|worker|process|proc|task|gpu|tpu):?[ _-]?\d+\]:?\ ?  # torchrun: [rank0]:, [default0]:
      | \[\d+,\d+\]<std(?:err|out)>:\ ?                                 # mpirun -tag-output
      | (?:worker|host|rank|task|process)[ _-]?\d+\ ?[|:>]\ ?           # docker compose, pdsh
      | \ {0,3}\d{1,4}:\ (?=\S|\ {2})                                   # srun --label
    )""",
    re.VERBOSE,
)
_LOGGER = re.compile(
    r"""(?:
        [IWEFD]\d{4}\ \d\d:\d\d:\d\d\.\d+\s+(?:(?P<thread>\d+)\s+)?[^\s:]+:\d+\]\ ?    # absl, glog
      | \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?\]?(?:\ std(?:err|out)\ [FP])?[ :]{0,2}
      | [A-Z][a-z]{2}\ {1,2}\d{1,2}\ \d\d:\d\d:\d\d\ (?P<process>\S+\ \S+?\[\d+\]):\ ?    # syslog
      | \[?(?:ERROR|WARNING|INFO|CRITICAL|DEBUG)\]?\ ?[:|-](?:\ ?(?![\w.]*(?:Error|Exception))[\w.]+\ ?[:|-])?(?:\ (?=\S))?
    )""",
    re.VERBOSE,
)
_NUMBERS = re.compile(r"\d+")
# Parts of a prefix that differ from line to line, whoever writes.
_TIMES = re.compile(
    r"\d{4}-\d\d-\d\d[T ]?|\d\d?:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?|(?<![\d.])\d+\.\d+(?![\d.])"
)


def readings(text: str) -> Iterator[list[list[str]]]:
    """The ways to read a log: as it is, then with the lines put together that something cut at one fixed width, if any.

    Each is a list of streams, one for each worker that wrote to it; a stream is its lines, without colours and prefixes.
    """
    lines = _plain_lines(_about_errors(text))
    yield (plain := _streams(lines))
    # A terminal cuts lines with their prefixes; a collector puts one before each piece.
    if (joined := _joined(lines)) is not lines:
        yield _streams(joined)
    pieces = [_joined(stream) for stream in plain]
    if any(piece is not stream for piece, stream in zip(pieces, plain, strict=True)):
        yield pieces


LARGE = 1_000_000
"""Characters from which on a log is not read as a whole."""
MOST = 16_000_000
AROUND = 300
"""Lines around a trace of an error that are read with it."""
_STACK = re.compile(r"Traceback \(most|File \\?[\"“]|(?:Cell|Input) In ?\[|^E  ", re.MULTILINE)
_NAME = re.compile(r"\b\w*(?:Error|Exception|Warning)\b")


def _about_errors(text: str) -> str:
    """The text; of a large one the lines around stacks, or if there are none around names of errors, the last where these are many."""
    if len(text) < LARGE:
        return text
    kept: list[str] = []
    done = 0
    for match in (_STACK if _STACK.search(text) else _NAME).finditer(text):
        if match.start() < done:
            continue
        start = end = match.start()
        for _ in range(AROUND):
            start = text.rfind("\n", 0, start) if start > 0 else start
            end = text.find("\n", end + 1) if end >= 0 else end
        start, done = max(start, done), end if end >= 0 else len(text)
        kept.append(text[start:done])
    return "".join(kept)[-MOST:]


def _streams(lines: list[str]) -> list[list[str]]:
    learned = _learned_prefixes(lines)
    parts = [_split(line, learned) for line in lines]
    counted = _counters(key for key, _ in parts)
    result: dict[str, list[str]] = {}
    for key, rest in parts:
        kind = _NUMBERS.sub("#", key)
        result.setdefault(kind if kind in counted else key, []).append(rest)
    return [_without_boxes(stream) for stream in result.values()]


def _joined(lines: list[str]) -> list[str]:
    """The lines, those that fill the greatest width joined with the next; the very list if there are none."""
    lengths = Counter(map(len, lines))
    width = max(lengths, default=0)
    if width < 40 or lengths[width] < 2:
        return lines
    joined: list[str] = []
    open_ended = False
    for line in lines:
        if open_ended:
            joined[-1] += line
        else:
            joined.append(line)
        open_ended = len(line) == width
    return joined


def _plain_lines(text: str) -> list[str]:
    text = _ESCAPES.sub("", unpacked(text.replace("\r\n", "\n")))
    # A progress bar overwrites its line; what stands after the last carriage return is what was left on screen.
    lines = [line.rstrip("\r").rpartition("\r")[2].expandtabs() for line in text.split("\n")]
    return lines if any(map(str.strip, lines[1::2])) else lines[::2]  # a mail program may have doubled each line's end


def _learned_prefixes(lines: list[str]) -> list[re.Pattern[str]]:
    """Patterns of the unknown prefixes that stand before a traceback's first line, or before frames if there is none."""
    found: dict[str, re.Pattern[str]] = {}
    for mark in (_HEADER, 'File "'):
        for line in lines:
            if mark not in line:
                continue
            _, rest = _known_prefix(line)
            before = rest.partition(mark)[0] if mark in rest else ""
            if mark != _HEADER:
                before = before.removesuffix("  ")  # the depth of a frame
            # IPython writes the error's name before the header, and rich a frame of lines.
            if before not in ("+", "-") and (
                not before.strip() or len(before) > 200 or re.fullmatch(r"\s*(?:[^\W\d][\w.]*\s{2,}|[-+|─╭ ]+)", before)
            ):
                continue
            pattern = _pattern_of(before)
            found.setdefault(pattern, re.compile(pattern))
        if found:
            break
    return list(found.values())[:50]


def _pattern_of(prefix: str) -> str:
    """A regular expression for a prefix: with any numbers, and without the spaces at its end where nothing follows."""
    start = r"\s*" if prefix.lstrip()[:1].isdigit() else ""  # a number may be set flush right
    text = prefix.lstrip() if start else prefix
    bare = text.rstrip()
    end = f"(?:{re.escape(text[len(bare) :])}|$)" if bare != text else ""
    return start + r"\d+".join(map(re.escape, _NUMBERS.split(bare))) + end


def _known_prefix(line: str) -> tuple[str, str]:
    """The worker's part of the known prefixes of a line, and the line without them."""
    key = ""
    for _ in range(4):
        if match := _WORKER.match(line):
            key += match.group().strip()
        elif match := _LOGGER.match(line):
            key += "".join(match.group(name) or "" for name in ("thread", "process"))
        else:
            break
        line = line[match.end() :]
    return key, line


def _split(line: str, learned: list[re.Pattern[str]]) -> tuple[str, str]:
    """What tells the writer of a line from others, and the line without any prefix."""
    key, line = _known_prefix(line)
    for pattern in learned:
        if match := pattern.match(line):
            return key + " ".join(_TIMES.sub("@", match.group()).split()), line[match.end() :]
    return key, line


def _counters(keys: Iterable[str]) -> frozenset[str]:
    """The kinds of prefixes whose numbers count the lines, and do not tell one writer from another."""
    numbers: dict[str, list[tuple[int, ...]]] = {}
    for key in keys:
        if key and (found := _NUMBERS.findall(key)):
            numbers.setdefault(_NUMBERS.sub("#", key), []).append(tuple(int(number) for number in found))
    return frozenset(
        kind for kind, seen in numbers.items() if len(set(seen)) * 2 > len(seen) > 2 and seen == sorted(seen)
    )


def _without_boxes(lines: list[str]) -> list[str]:
    """The lines without the boxes that rich draws around tracebacks, and without the bars of exception groups.

    rich's log handler sets the box into a column of its own, and the error below it, too.
    """
    result: list[str] = []
    margin = 0
    for line in lines:
        stripped = line.lstrip()
        if stripped[:1] in "│╭╰" and stripped:
            margin = len(line) - len(stripped)
            line = stripped.rstrip().strip("│╭╰╮╯─").rstrip().removeprefix(" ")
        elif margin and not line[:margin].strip():
            line = line[margin:]
        elif line.startswith("  ") and stripped.startswith(("| ", "+ Exception Group")):
            line = stripped[2:]
        else:
            margin = 0
        result.append(line)
    return result
