"""Log text to errors: what Python, IPython, pytest and rich print of an exception, as plain data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from shardfix.tracebacks.log import readings

__all__ = ["Frame", "ReportedError", "errors_in", "read_errors"]

_NOT_THE_USERS = re.compile(
    r"""(?ix)
    [\\/](?:site|dist)-packages[\\/]
  | [\\/]lib(?:64)?[\\/](?:python|pypy)\d
  | [\\/]python[\d.]*[\\/]lib[\\/]        # Windows
  | ^<frozen\ | ^<string>$ | ^<__array_function__
  | (?:^|[\\/])jax[\\/](?:_src|experimental|interpreters|numpy|lax)[\\/]
    """
)


@dataclass(frozen=True)
class Frame:
    """One line of a stack: ``path`` as it was printed, ``line`` from 1, ``text`` the source if it was shown."""

    path: str
    line: int
    function: str = ""
    text: str = ""
    marked: str = ""
    """The part of the source that carets point at, where they do and it stands on one line."""

    @property
    def is_users(self) -> bool:
        """Whether this is code of the project, and not of JAX, another package or Python itself."""
        return not _NOT_THE_USERS.search(self.path)


@dataclass(frozen=True)
class ReportedError:
    """An exception (or a warning) that was printed. ``frames`` are outermost first, as in a Python traceback."""

    type: str
    """Its class, without the module: ``ValueError``. Empty where the text ends before it."""
    message: str
    frames: tuple[Frame, ...] = ()
    cause: ReportedError | None = None
    """The exception that this one was raised from, or while handling."""

    @property
    def user_frames(self) -> tuple[Frame, ...]:
        """The frames in the user's code, innermost first."""
        return tuple(frame for frame in reversed(self.frames) if frame.is_users)

    @property
    def chain(self) -> tuple[ReportedError, ...]:
        """This error and those that led to it, newest first."""
        return (self, *self.cause.chain) if self.cause else (self,)


_PYTHON_FRAME = re.compile(
    r'^(?P<indent>\s*)>?\s*File "(?P<path>[^"]+)", line (?P<line>\d{1,9})(?:, in (?P<function>.+))?'
)
_IPYTHON_FRAMES = (
    re.compile(r"^(?:File )?(?P<path>(?:[A-Za-z]:)?[^:\s][^:]*):(?P<line>\d{1,9}), in (?P<function>[^(\s]+).*$"),
    re.compile(r"^File (?P<path>(?:[A-Za-z]:)?[^:\s\"][^:\"]*):(?P<line>\d{1,9})$"),
    re.compile(r"^\s*(?P<path>(?:Cell|Input) In\s?\[\d+\]), line (?P<line>\d{1,9})(?:,? in (?P<function>[^(\s]+).*)?$"),
    re.compile(r"^  File (?P<path>(?:[A-Za-z]:)?[^:\s\"][^:\"]*):(?P<line>\d{1,9}) in (?P<function>\S+)$"),
    re.compile(r"^(?P<path>Input In \[\d+\]), in (?P<function><cell line: (?P<line>\d{1,9})>).*$"),
    re.compile(r"^(?P<path>(?:Cell|Input) In\s?\[\d+\]), in (?P<function>[^(\s]+).*$"),
    re.compile(r"^\[?(?P<path><ipython-input-[^>]+>|[^\s\]]+\.py)\]?(?:\(https?:[^)]*\))? in (?P<function>[^(]+).*$"),
)
_RICH_FRAME = re.compile(r"^(?P<path>\S.*\.py):(?P<line>\d{1,9}) in(?: (?P<function>\S+))?$")
_PYTEST_FRAME = re.compile(
    r"^(?P<path>(?:[A-Za-z]:)?[^\s:][^:]*\.pyw?):(?P<line>\d{1,9}):(?: in (?P<function>.+)| (?P<type>[A-Za-z_][\w.]*)| ?)$"
)
_WARNING = re.compile(
    r"^\s*(?P<path>(?:[A-Za-z]:)?[^\s:][^:]*):(?P<line>\d{1,9}): (?P<type>\w*Warning): (?P<message>.*)$"
)
_HEADER = re.compile(r"^(?P<indent>\s*)(?:(?P<type>[\w.]+)\s{2,})?.{0,40}?Traceback \(most recent call last\)")
_CARETS = re.compile(r"^[\s~^]+$")
_NUMBERED = re.compile(r"^\s*(?P<arrow>-+>|❱|>)?\s*(?P<number>\d{1,9})(?: ?[│|])?(?: (?P<text>.*))?$")
_EXCEPTION = re.compile(r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: ?(?P<message>.*))?$")
_EXCEPTION_NAME = re.compile(r"(?:Error|Exception|Warning|Interrupt|Exit|Failure|Trace|Transformation|Traceback)$")
_LOG_LEVELS = frozenset(
    {"INFO", "DEBUG", "WARNING", "ERROR", "CRITICAL", "FATAL", "E", "W", "I", "File", "FAILED", "note"}
)
_CHAINED = re.compile(
    r"^\s*(?:During handling of the above exception, another exception occurred:"
    r"|The above exception was the direct cause of the following exception:)"
)
_END_OF_MESSAGE = re.compile(
    r"^\s*(?:-{19,}\s*$|['\"]{3}\s*$|```|={5,}[ =]|_{5,}[ _]|(?:_ ){5,}|For simplicity, JAX has removed its internal frames"
    r"|The preceding stack trace is the source of the JAX operation|The stack trace below excludes JAX-internal frames"
    r"|The preceding is the original exception that occurred|FAILED |\[Previous line repeated)"
)
_E_LINE = re.compile(r"^E(?P<rest>\s.*|)$")
_SUMMARY = re.compile(r"^(?:FAILED|ERROR) \S+ - (?P<type>[A-Za-z_][\w.]*(?:Error|Exception)): (?P<message>.*)$")
MAX_LOCALS = 400
"""Lines of variables that are passed over between an error and its place in pytest's report."""
# JAX puts the exception it re-raises into the message of its own.
_CARRIER = re.compile(r"(?:JaxStackTraceBeforeTransformation|UnfilteredStackTrace)$")


def read_errors(text: str) -> tuple[ReportedError, ...]:
    """The errors and warnings printed in ``text``, in order, each once. Whatever else is in it is passed over."""
    return errors_in(next(readings(text)))


def errors_in(streams: Iterable[list[str]]) -> tuple[ReportedError, ...]:
    """The same for the streams of one reading of a log."""
    found: dict[ReportedError, None] = {}
    for lines in streams:
        for error in _Reader(lines).errors():
            found.setdefault(error)
    return tuple(found)


@dataclass
class _Reader:
    """Reads one stream of lines; never fails, whatever they are."""

    lines: list[str]
    frames: list[Frame] = field(default_factory=list)
    indent: int = 0
    in_traceback: bool = False
    hint: str = ""
    previous: ReportedError | None = None
    """The last error read; it is held back until it is known whether the next one follows from it."""
    cause: ReportedError | None = None
    finished: list[ReportedError] = field(default_factory=list)

    def errors(self) -> Iterator[ReportedError]:
        position = 0
        while position < len(self.lines):
            position = self._step(position)
        self._abandon()
        self._flush()
        yield from self.finished

    def _step(self, position: int) -> int:
        line = self.lines[position]
        if not line or line.isspace():
            return position + 1
        if _CHAINED.match(line):
            self._abandon()
            # The error before this line is no result of its own: it leads to the next one.
            self.in_traceback, self.frames = True, []
            return self._chain(position + 1)
        if (match := _HEADER.match(line)) and "Traceback (" in line:
            self._abandon()
            self._flush()
            self._start(len(match["indent"]), match["type"] or "")
            return position + 1
        if frame := self._frame(position):
            return frame
        if match := _E_LINE.match(line):
            return self._pytest_error(position)
        if (match := _SUMMARY.match(line)) and not self.in_traceback:
            self._finish(match["type"], match["message"])
            return position + 1
        if match := _WARNING.match(line):
            return self._warning(position, match)
        return self._exception(position, line)

    def _chain(self, position: int) -> int:
        """After the line that links two errors: skip to the next one, which the error before becomes the cause of."""
        cause, self.previous = self.previous, None
        while position < len(self.lines) and not self.lines[position].strip(" -"):
            position += 1
        if position < len(self.lines) and (match := _HEADER.match(self.lines[position])):
            self._start(len(match["indent"]), match["type"] or "")
            position += 1
        self.cause = cause
        return position

    def _start(self, indent: int, hint: str) -> None:
        self.frames, self.indent, self.in_traceback, self.hint = [], indent, True, hint

    def _finish(self, type_: str, message: str) -> None:
        name, message = _carried(type_, message)
        self._flush()
        self.previous = ReportedError(name, message.strip(), tuple(self.frames), self.cause)
        self.cause, self.frames, self.in_traceback, self.hint = None, [], False, ""

    def _flush(self) -> None:
        if self.previous:
            self.finished.append(self.previous)
        self.previous = None

    def _abandon(self) -> None:
        """Keep the frames of a traceback whose last line is missing."""
        if self.frames:
            orphan = self.finished.pop() if self.finished and not (self.finished[-1].frames or self.hint) else None
            if orphan:  # some print the error first, and then its stack
                self._finish(orphan.type, orphan.message)
            else:
                self._finish(self.hint, "")
        elif self.cause and not self.previous:
            self.previous, self.cause = self.cause, None

    def _frame(self, position: int) -> int | None:
        """Read the frame at ``position``; the position after it, or None if there is none."""
        line = self.lines[position]
        if match := _PYTHON_FRAME.match(line):
            if not self.in_traceback:
                self._flush()
                self._start(max(0, len(match["indent"]) - 2), "")
            end, text, marked = self._source(position + 1, len(match["indent"]))
            self.frames.append(Frame(match["path"], int(match["line"]), match["function"] or "", text, marked))
            return end
        for pattern in (*_IPYTHON_FRAMES, _RICH_FRAME):
            if match := pattern.match(line):
                break
        else:
            return self._pytest_frame(position)
        if not self.in_traceback:
            self._flush()
            self._start(0, "")
        if match.re is _RICH_FRAME and not match["function"]:
            position += 1  # the function's name had no place in the box
        end, number, text = self._numbered_source(position + 1)
        if line.startswith("  ") and not number:  # xmode Plain
            end, text, _ = self._source(position + 1, 2)
        groups = match.groupdict()
        number = number or int(groups.get("line") or 0)
        if number:
            self.frames.append(Frame(groups["path"], number, (groups.get("function") or "").strip(), text))
        return end

    def _source(self, position: int, indent: int) -> tuple[int, str, str]:
        """The source lines below a frame of Python's, deeper than it, and the part of a single one that carets mark."""
        shown: list[str] = []
        marked = ""
        while position < len(self.lines):
            line = self.lines[position]
            depth = len(line) - len(line.lstrip())
            if (
                not line.strip()
                or _PYTHON_FRAME.match(line)
                or (depth <= indent and (indent or shown or _EXCEPTION.match(line)))
            ):
                break  # a frame that is not indented stands in a text that has lost all its indentation
            if _CARETS.match(line):
                above = self.lines[position - 1]
                marked = above[depth : len(line.rstrip())] if len(shown) == 1 and not marked else ""
            elif line.lstrip()[0] not in "│└":
                shown.append(line.strip())
            position += 1
        return position, "\n".join(shown), marked if len(shown) == 1 else ""

    def _numbered_source(self, position: int) -> tuple[int, int, str]:
        """The numbered source lines below a frame of IPython's or rich's: the end, and the line marked by an arrow."""
        number, text = 0, ""
        if (
            position + 1 < len(self.lines)
            and not self.lines[position].strip()
            and _NUMBERED.match(self.lines[position + 1])
        ):
            position += 1  # rich leaves a line blank
        while position < len(self.lines) and (match := _NUMBERED.match(self.lines[position])):
            if match["arrow"]:
                number, text = int(match["number"]), (match["text"] or "").strip("│ ")
            position += 1
        return position, number, text

    def _pytest_frame(self, position: int) -> int | None:
        match = _PYTEST_FRAME.match(self.lines[position])
        if not match:
            return None
        if not self.in_traceback:
            self._flush()
            self._start(0, "")
        text, end = "", position + 1
        function = match["function"] or ""
        if end < len(self.lines) and self.lines[end].startswith("    "):  # the short style: source below the place
            end, text, _ = self._source(end, 0)
        else:  # the long style: source above it
            text, defined = self._source_above(position)
            function = function or defined
        self.frames.append(Frame(match["path"], int(match["line"]), function, text))
        return end

    def _source_above(self, position: int) -> tuple[str, str]:
        """The line that failed and the function that holds it, from the listing that pytest prints above a place."""
        text = function = ""
        depth: int | None = None
        for line in reversed(self.lines[max(0, position - 300) : position]):
            if _PYTEST_FRAME.match(line) or line.startswith(("_____", "_ _ _")):
                break
            if line.startswith(">") and not text:
                text = line[1:].strip()
                depth = len(line) - len(line[1:].lstrip())
            elif depth is not None and (found := re.match(r"^(?P<indent>\s*)(?:async )?def (?P<name>\w+)\(", line)):
                if len(found["indent"]) < depth:  # a function beside the line that failed stands as deep as that
                    function, depth = found["name"], len(found["indent"])
        return text, function

    def _pytest_error(self, position: int) -> int:
        """The lines that pytest marks with E: an exception and its message."""
        message: list[str] = []
        margin: int | None = None
        while position < len(self.lines) and (match := _E_LINE.match(self.lines[position])):
            rest = match["rest"]
            if margin is None:
                margin = len(rest) - len(rest.lstrip())
            message.append(rest[margin:] if not rest[:margin].strip() else rest.strip())
            position += 1
        for index, line in enumerate(message):
            if _END_OF_MESSAGE.match(line):
                del message[index:]
                break
        # In the long style the place of the error comes after its message.
        if (after := self._place_below(position)) is not None:
            position = self._pytest_frame(after) or position
        head = _EXCEPTION.match(message[0]) if message else None
        if head and _EXCEPTION_NAME.search(head["type"]):
            self._finish(head["type"], "\n".join([head["message"] or "", *message[1:]]))
        elif message:
            self._finish(self.hint or "AssertionError", "\n".join(message))
        return position

    def _place_below(self, position: int) -> int | None:
        """Where pytest says at which place the error was raised; ``--showlocals`` lists the variables before that."""
        for after in range(position, min(position + MAX_LOCALS, len(self.lines))):
            line = self.lines[after]
            if (match := _PYTEST_FRAME.match(line)) and match["type"]:
                return after
            if match or _E_LINE.match(line) or line.startswith(("_____", "_ _ _", "=====")):
                break
        return None

    def _warning(self, position: int, match: re.Match[str]) -> int:
        self._abandon()
        self._flush()
        position += 1
        text = ""
        if position < len(self.lines) and self.lines[position].startswith("  "):
            text = self.lines[position].strip()
            position += 1
        self.frames = [Frame(match["path"].strip(), int(match["line"]), "", text)]
        self._finish(match["type"], match["message"])
        self._flush()
        return position

    def _exception(self, position: int, line: str) -> int:
        """The line that names the exception, with the rest of its message; any other line is passed over."""
        stripped, depth = line.strip(), len(line) - len(line.lstrip())
        match = _EXCEPTION.match(stripped)
        named = bool(match and _EXCEPTION_NAME.search(match["type"]))
        if not match:
            return position + 1
        if self.in_traceback and self.frames:
            # A name that does not say that it is an error counts only right below a frame and with a message.
            likely = named or bool(match["type"].rpartition(".")[2][:1].isupper() and match["message"])
            fits = likely and depth <= self.indent and match["type"] not in _LOG_LEVELS
        else:
            fits = named and not depth and match["message"] is not None
        if not fits:
            return position + 1
        message = [match["message"] or ""]
        position += 1
        # Without a colon there is no message, and what follows is somebody else's.
        end = len(self.lines) if match["message"] is not None else position
        while position < end and len(message) < 120 and not self._ends_message(self.lines[position]):
            message.append(self.lines[position])
            position += 1
        repeated = self.previous and not self.frames and self.previous.message == "\n".join(message).strip()
        if not repeated:
            self._finish(match["type"], "\n".join(message))
        return position

    def _ends_message(self, line: str) -> bool:
        return bool(
            _END_OF_MESSAGE.match(line)
            or _CHAINED.match(line)
            or _PYTHON_FRAME.match(line)
            or _WARNING.match(line)
            or "Traceback (most recent call last)" in line
        )


def _carried(type_: str, message: str) -> tuple[str, str]:
    """The class and message of an exception; of the one it carries, if it is one of JAX's carriers."""
    name = type_.rpartition(".")[2]
    if _CARRIER.search(name) and (match := _EXCEPTION.match(message.partition("\n")[0])):
        return match["type"].rpartition(".")[2], (match["message"] or "") + message[len(match.group()) :]
    return name, message
