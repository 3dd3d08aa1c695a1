"""Where the time of a run goes: processor seconds by stage and codemod, added up over all processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Timing"]


@dataclass
class Timing:
    """Files, bytes and seconds of each stage. A stage inside another takes its seconds from it."""

    files: Counter[str] = field(default_factory=Counter)
    size: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    _inside: list[float] = field(default_factory=list, repr=False)
    """For each stage that is open, the seconds of the stages inside it."""

    @contextmanager
    def stage(self, name: str, size: int = 0) -> Iterator[None]:
        """Count what is done inside as one file of ``size`` bytes at the stage ``name``."""
        begin = time.process_time()
        self._inside.append(0.0)
        try:
            yield
        finally:
            seconds = time.process_time() - begin
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds - self._inside.pop()
            self.files[name] += 1
            self.size[name] += size
            if self._inside:
                self._inside[-1] += seconds

    def add(self, other: Timing) -> None:
        """Add what another process has counted."""
        self.files.update(other.files)
        self.size.update(other.size)
        for name, seconds in other.seconds.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def table(self) -> list[str]:
        """A line for each stage, the longest first."""
        lines = [f"{'stage':<28}{'files':>8}{'MB':>9}{'CPU s':>9}"]
        for name, seconds in sorted(self.seconds.items(), key=lambda item: -item[1]):
            lines.append(f"{name:<28}{self.files[name]:>8}{self.size[name] / 1e6:>9.2f}{seconds:>9.2f}")
        return lines
