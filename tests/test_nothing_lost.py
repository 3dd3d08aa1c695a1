"""Whatever ends a write, each file is wholly old or wholly new: on a disk that fills up, and under many signals."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_cli_process import WRITE_WITH_SAMPLE_CODEMOD

OLD = b"old\n" + b"# " + b"x" * 5000 + b"\n"
NEW = OLD.replace(b"old", b"new")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that holds 256 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a file system of its own may be mounted by root on Linux only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_full_costs_nothing(small_disk: Path) -> None:
    paths = [small_disk / f"{index:03}.py" for index in range(20)]
    for path in paths:
        path.write_bytes(OLD)
    with contextlib.suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))
    done = subprocess.run(
        [sys.executable, "-c", WRITE_WITH_SAMPLE_CODEMOD], cwd=small_disk, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count(b"no space left on device") >= len(paths)
    assert {path.read_bytes() for path in paths} == {OLD}
    assert {path.name for path in small_disk.iterdir()} == {"filler", *(path.name for path in paths)}

    (small_disk / "filler").unlink()
    done = subprocess.run([sys.executable, "-c", WRITE_WITH_SAMPLE_CODEMOD], cwd=small_disk, check=False)
    assert done.returncode == 0
    assert {path.read_bytes() for path in paths} == {NEW}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_500_files_under_a_signal_at_any_moment(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    number = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    paths = [tmp_path / f"{index:03}.py" for index in range(500)]
    for path in paths:
        path.write_bytes(OLD)
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_WITH_SAMPLE_CODEMOD],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        if chance.random() < 0.8:  # else at any moment before the first write
            while paths[0].read_bytes() == OLD and process.poll() is None:
                time.sleep(0.001)
        time.sleep(chance.random() * 0.8)
        process.send_signal(number)
        process.wait(60)
    assert {path.read_bytes() for path in paths} <= {OLD, NEW}
    left = set(os.listdir(tmp_path)) - {path.name for path in paths}
    assert not left or (number is signal.SIGKILL and all(name.endswith(".tmp") for name in left))
