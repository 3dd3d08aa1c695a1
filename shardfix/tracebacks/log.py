"""Log text to plain lines: colours, progress bars, and the prefixes that launchers and loggers put before each line.

A log of several workers is taken apart into one stream for each worker, so that their lines do not mix.
"""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["streams", "unwrapped"]

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_=>()][0-9A-Za-z]?)|[\x00\x0e\x0f]"
)
_HEADER = "Traceback (most recent call last)"

# What identifies the worker stays in the key of the stream; times and levels differ from line to line and do not.
_WORKER = re.compile(
    r"""\s?(?:
        \([^()\n]{0,80}?pid=\d+[^()\n]{0,80}\)\ ?                       # Ray: (train pid=123, ip=10.0.0.1)
      | \[(?:rank|host|worker|process|proc|task|gpu|tpu)[ _:-]?\d+\]:?\ ?  # torchrun: [rank0]:
      | \[\d+,\d+\]<std(?:err|out)>:\ ?                                 # mpirun -tag-output
      | (?:worker|host|rank|task|process)[ _-]?\d+\ ?[|:>]\ ?           # docker compose, pdsh
      | \ {0,3}\d{1,4}:\ (?=\S|\ {2})                                   # srun --label
    )""",
    re.VERBOSE,
)
_LOGGER = re.compile(
    r"""(?:
        [IWEFD]\d{4}\ \d\d:\d\d:\d\d\.\d+\s+(?:\d+\s+)?[^\s:]+:\d+\]\ ?    # absl, glog
      | \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?\]?(?:\ std(?:err|out)\ [FP])?[ :]{0,2}
      | [A-Z][a-z]{2}\ {1,2}\d{1,2}\ \d\d:\d\d:\d\d\ \S+\ \S+?\[\d+\]:\ ?    # syslog
      | \[?(?:ERROR|WARNING|INFO|CRITICAL|DEBUG)\]?\ ?[:|-](?:\ ?(?!\w*(?:Error|Exception))[\w.]+\ ?[:|-])?(?:\ (?=\S))?
    )""",
    re.VERBOSE,
)
_NUMBERS = re.compile(r"\d+")


def streams(text: str) -> list[list[str]]:
    """The lines of a log, one list for each worker that wrote to it, without colours and prefixes."""
    lines = _plain_lines(text)
    learned = _learned_prefixes(lines)
    result: dict[str, list[str]] = {}
    for line in lines:
        key, rest = _split(line, learned)
        result.setdefault(key, []).append(_without_box(rest))
    return list(result.values())


def unwrapped(text: str) -> str:
    """The text with lines joined that a terminal or log collector cut at one fixed width; unchanged if none was."""
    lines = _plain_lines(text)
    lengths = Counter(map(len, lines))
    width = max(lengths, default=0)
    if width < 40 or lengths[width] < 2:
        return text
    joined: list[str] = []
    open_ended = False
    for line in lines:
        if open_ended:
            joined[-1] += line
        else:
            joined.append(line)
        open_ended = len(line) == width
    return "\n".join(joined)


def _plain_lines(text: str) -> list[str]:
    if "\\n" in text and re.search(r'\\n\s*File \\?"', text):  # a traceback within a JSON record
        text = text.replace("\\r", "").replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t")
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    # A progress bar overwrites its line; what stands after the last carriage return is what was left on screen.
    return [line.rstrip("\r").rpartition("\r")[2].expandtabs() for line in text.split("\n")]


def _learned_prefixes(lines: list[str]) -> list[re.Pattern[str]]:
    """Patterns of the unknown prefixes that stand before a traceback's first line."""
    found: dict[str, re.Pattern[str]] = {}
    for line in lines:
        before, header, _ = line.partition(_HEADER)
        _, before = _known_prefix(before)
        # IPython writes the error's name before the header, and rich a frame of lines.
        if (
            not header
            or not before.strip()
            or re.fullmatch(r"\s*(?:[\w.]+\s{2,}|[-+|─╭ ]+)", before)
            or len(before) > 200
        ):
            continue
        pattern = r"\d+".join(map(re.escape, _NUMBERS.split(before)))
        found.setdefault(pattern, re.compile(pattern))
    return list(found.values())[:50]


def _known_prefix(line: str) -> tuple[str, str]:
    """The worker's part of the known prefixes of a line, and the line without them."""
    key = ""
    for _ in range(4):
        if match := _WORKER.match(line):
            key += match.group().strip()
        elif not (match := _LOGGER.match(line)):
            break
        line = line[match.end() :]
    return key, line


def _split(line: str, learned: list[re.Pattern[str]]) -> tuple[str, str]:
    key, line = _known_prefix(line)
    for pattern in learned:
        if match := pattern.match(line):
            return key + pattern.pattern, line[match.end() :]
    return key, line


def _without_box(line: str) -> str:
    """A line without the box that rich draws around a traceback, or the bar of an exception group."""
    stripped = line.lstrip()
    if stripped[:1] in "│╭╰" and stripped:
        return stripped.strip("│╭╰╮╯─").rstrip().removeprefix(" ")
    if line.startswith("  ") and stripped.startswith(("| ", "+ Exception Group")):
        return stripped[2:]
    return line
