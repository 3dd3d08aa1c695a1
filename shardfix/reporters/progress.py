"""How far a run is, on a terminal: a line that is gone when the run is done, and never there where it is short."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from shardfix.reporters.base import Stream

__all__ = ["Progress"]

PATIENCE = 0.5
"""Seconds after which a run shows how far it is."""
INTERVAL = 0.1
"""Seconds between two looks of the line."""


class Progress:
    """Drawn by whoever does the work: a thread of its own would stand against forking the pool.

    Args:
        err: where it is drawn, if that is a terminal in colours.
        out: where the product goes; where that is a terminal too, the line makes way for it.
    """

    def __init__(self, err: Stream, out: Stream, *, quiet: bool = False) -> None:
        self._is_shown = err.colored and err.file.isatty() and not quiet
        self._shares_terminal = out.file.isatty()
        self._out = out
        self._begin = self._drawn = time.monotonic()
        self._bar: tuple[Bar, TaskID] | None = None
        self._findings = 0

    def found(self, findings: int) -> None:
        """Count what has been found."""
        self._findings += findings

    def at(self, path: str, done: int, total: int | None) -> None:
        """Tell that the work is at the file ``path``, after ``done`` of ``total`` files (None: not known yet)."""
        now = time.monotonic()
        if not self._is_shown or now - self._begin < PATIENCE or now - self._drawn < INTERVAL:
            return
        self._drawn = now
        bar, task = self._bar = self._bar or self._new_bar()
        rate = f"{done / (now - self._begin):,.0f} files/s" if total else "reading"
        found = f"{self._findings:,} finding{'' if self._findings == 1 else 's'}"
        bar.update(task, completed=done, total=total, rate=rate, found=found, path=path)
        if bar.live.is_started:
            bar.refresh()
        else:
            bar.start()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Out of the way while something is shown on the same terminal."""
        if self._shares_terminal:
            self.end()
        yield
        if self._shares_terminal and self._is_shown:
            self._out.file.flush()

    def end(self) -> None:
        """Leave no trace."""
        if self._bar is not None and self._bar[0].live.is_started:
            self._bar[0].stop()

    def _new_bar(self) -> tuple[Bar, TaskID]:
        import sys

        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.table import Column
        from rich.text import Text

        class Path(TextColumn):
            """The file, as it is: a bracket in its name is no markup."""

            def render(self, task: object) -> Text:
                return Text(task.fields["path"], style="dim")  # type: ignore[attr-defined]

        cut = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        columns = [TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[found]}"), Path("", table_column=cut)]
        bar = Bar(
            BarColumn(20),
            MofNCompleteColumn(),
            *columns,
            console=Console(file=sys.stderr),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            expand=True,
        )
        return bar, bar.add_task("", total=None, rate="", found="", path="")
