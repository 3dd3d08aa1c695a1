"""This repository, as somebody who clones it gets it once all is committed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent


def tracked() -> list[str]:
    """The files that git does not ignore, by their paths from the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if (ROOT / name).is_file()]


def copy_repository(folder: Path) -> None:
    """Copy them, as they are now, into a folder."""
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
