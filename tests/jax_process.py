"""Runs programs on the installed JAX with eight CPU devices: one warm process that has imported JAX and forks for each.

As a script it reads one path a line and answers with one line of JSON. :class:`JaxProcess` is its other end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

TIME_LIMIT = 120.0


@dataclass(frozen=True)
class Program:
    """What a program that ran left: its exit code, and all that it printed."""

    code: int
    output: str


class JaxProcess:
    """A Python that has imported JAX and runs programs in forks of itself."""

    def __init__(self) -> None:
        environment = dict(
            os.environ,
            JAX_PLATFORMS="cpu",
            XLA_FLAGS="--xla_force_host_platform_device_count=8",
            NPROC="32",  # threads: on few cores the devices could wait for each other for ever
            PYTHONWARNINGS="",
        )
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )

    def run(self, path: Path) -> Program:
        """Run the program in the file ``path``, in its own folder."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(str(path)) + "\n")
        self._process.stdin.flush()
        return Program(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(10)


def serve() -> None:
    import warnings

    import jax.numpy  # noqa: F401

    warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
    for line in sys.stdin:
        print(json.dumps(run_forked(json.loads(line))), flush=True)


def run_forked(path: str) -> dict[str, object]:
    import signal
    import time

    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            os._exit(run_here(path, output.fileno()))
        deadline = time.monotonic() + TIME_LIMIT
        while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                deadline = float("inf")
            time.sleep(0.005)
        output.seek(0)
        return {"code": os.waitstatus_to_exitcode(done[1]), "output": output.read().decode(errors="replace")}


def run_here(path: str, output: int) -> int:
    import runpy
    import traceback

    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(os.path.dirname(path))
    sys.path.insert(0, os.path.dirname(path))
    sys.argv = [path]
    try:
        runpy.run_path(path, run_name="__main__")
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve()
