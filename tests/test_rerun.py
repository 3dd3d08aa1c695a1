"""``--run``: a command is run, repaired and run again. The programs fail as JAX would, but need no JAX."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HEAD = """\
import pathlib
import sys

TEXT = pathlib.Path(__file__).read_text() + pathlib.Path(__file__).with_name("lib.py").read_text()


def fail(path, line, message, code=1):
    sys.stderr.write(f'Traceback (most recent call last):\\n  File "{path}", line {line}, in <module>\\n{message}\\n')
    sys.exit(code)


import jax
from jax.sharding import PartitionSpec as P

"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program, a library, and something that is called jax but answers to everything."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".git").mkdir()
    stub = tmp_path / "stub" / "jax"
    stub.mkdir(parents=True)
    (stub / "__init__.py").write_text("def __getattr__(name):\n    return lambda *a, **k: None\n")
    (stub / "sharding.py").write_text("PartitionSpec = tuple\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "stub"))
    monkeypatch.chdir(folder)
    (folder / "lib.py").write_text(
        "import jax\n\n\ndef spec(mesh):\n    return jax.shard_map(abs, mesh=mesh, in_specs='i', out_specs=jax.P())\n"
    )
    return folder


def write_main(project: Path, body: str) -> Path:
    path = project / "main.py"
    path.write_text(HEAD + textwrap.dedent(body))
    return path


THREE_FAULTS = """\
def run(mesh):
    return jax.shard_map(abs, mesh=mesh, in_specs=P(), out_specs=P(), check_rep=False)


def tree(x):
    return jax.tree_map(abs, x)


import lib

if "check_" + "rep" in TEXT:
    fail(__file__, 16, "TypeError: shard_map() got an unexpected keyword argument 'check" + "_rep'")
if "in_specs=" + "'i'" in TEXT:
    says = "TypeError: shard_map in_specs argument must be a pytree of `jax.sharding.PartitionSpec` instances, but:"
    fail(lib.__file__, 5, says + "\\n\\n  in_specs is i of type str,")
if "jax.tree" + "_map" in TEXT:
    fail(__file__, 20, "AttributeError: module 'jax' has no attribute 'tree" + "_map'")
print("done", __file__)
"""

COMMAND = f"{sys.executable} main.py"


def test_three_faults_in_a_row_in_two_modules(project: Path, shardfix_command: Callable[..., Any]) -> None:
    main = write_main(project, THREE_FAULTS)
    before = {path: path.read_text() for path in (main, project / "lib.py")}
    done = shardfix_command("--run", COMMAND)
    assert done.code == 1
    assert "It passes after 3 repairs." in done.err
    assert {path: path.read_text() for path in before} == before
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "-"], input=done.out, check=True)
    assert subprocess.run(COMMAND, shell=True, check=False).returncode == 0
    assert "check_vma" in main.read_text()


def test_write_leaves_the_repaired_program(project: Path, shardfix_command: Callable[..., Any]) -> None:
    write_main(project, THREE_FAULTS)
    done = shardfix_command("--run", COMMAND, "--write")
    assert done.code == 0, done.err
    assert subprocess.run(COMMAND, shell=True, check=False).returncode == 0
    assert shardfix_command("--run", COMMAND).code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("--write", "--run", "--", sys.executable, "main.py", "--steps", "two words"),
        ("--run", "--write", "--", sys.executable, "main.py", "--steps", "two words"),
        ("--run", "--write", "--", f"{sys.executable} main.py --steps 'two words'"),
    ],
)
def test_the_command_after_two_dashes(
    project: Path, shardfix_command: Callable[..., Any], arguments: tuple[str, ...]
) -> None:
    main = write_main(project, "print('given', sys.argv[1:])\n" + textwrap.dedent(THREE_FAULTS))
    done = shardfix_command(*arguments)
    assert done.code == 0, done.err
    assert "given ['--steps', 'two words']" in done.err
    assert "check_vma" in main.read_text()


def test_no_command(project: Path, shardfix_command: Callable[..., Any]) -> None:
    assert shardfix_command("--run", "--").code == 2
    assert shardfix_command("--run", "").code == 2


def test_a_program_that_passes(project: Path, shardfix_command: Callable[..., Any]) -> None:
    write_main(project, "print('fine')\n")
    done = shardfix_command("--run", COMMAND)
    assert (done.code, done.out) == (0, b"")
    assert "fine" in done.err
    assert "It passes." in done.err


def test_the_exit_code_of_the_command_is_kept(project: Path, shardfix_command: Callable[..., Any]) -> None:
    write_main(project, "sys.exit(7)\n")
    assert shardfix_command("--run", COMMAND).code == 7
    write_main(project, "fail(__file__, 3, 'RuntimeError: my own', code=5)\n")
    done = shardfix_command("--run", COMMAND)
    assert done.code == 5
    assert "unknown error: RuntimeError: my own" in done.err


def test_death_by_signal(project: Path, shardfix_command: Callable[..., Any]) -> None:
    write_main(project, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert shardfix_command("--run", COMMAND).code == 128 + signal.SIGKILL


def test_eight_devices_unless_told_otherwise(
    project: Path, shardfix_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_main(project, "import os\nprint('flags', os.environ.get('XLA_FLAGS'), os.environ.get('JAX_PLATFORMS'))\n")
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    assert "flags --xla_force_host_platform_device_count=8 cpu" in shardfix_command("--run", COMMAND).err
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    assert "flags --xla_force_host_platform_device_count=2 cpu" in shardfix_command("--run", COMMAND).err
    monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    assert "flags None tpu" in shardfix_command("--run", COMMAND).err


def test_steps_under_way_together_do_not_lock_up_on_few_cores(
    project: Path, shardfix_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_main(project, "import os\nprint('threads', os.environ.get('NPROC'))\n")
    monkeypatch.delenv("NPROC", raising=False)
    assert "threads 32" in shardfix_command("--run", COMMAND).err
    monkeypatch.setenv("NPROC", "4")
    assert "threads 4" in shardfix_command("--run", COMMAND).err


FAILS_EARLIER = """\
def run(mesh):
    return jax.shard_map(abs, mesh=mesh, in_specs=P(), out_specs=P(), check_rep=False)


if "check_" + "vma" in TEXT:
    fail(__file__, 14, "RuntimeError: this is what the repair broke")
fail(__file__, 16, "TypeError: shard_map() got an unexpected keyword argument 'check" + "_rep'", code=3)
"""


def test_a_repair_that_makes_it_fail_earlier_is_taken_back(project: Path, shardfix_command: Callable[..., Any]) -> None:
    main = write_main(project, FAILS_EARLIER)
    before = main.read_text()
    done = shardfix_command("--run", COMMAND, "--write")
    assert done.code != 0
    assert "fails earlier than before" in done.err
    assert main.read_text() == before
    assert done.out == b""


def test_a_repair_that_does_not_help_is_taken_back(project: Path, shardfix_command: Callable[..., Any]) -> None:
    main = write_main(
        project,
        FAILS_EARLIER.replace(
            '14, "RuntimeError: this is what the repair broke',
            '16, "TypeError: shard_map() got an unexpected keyword argument \'check" + "_rep\'',
        ),
    )
    before = main.read_text()
    done = shardfix_command("--run", COMMAND, "--write")
    assert "fails as before" in done.err
    assert main.read_text() == before


def test_a_repair_after_which_nothing_can_be_read_is_taken_back(
    project: Path, shardfix_command: Callable[..., Any]
) -> None:
    main = write_main(
        project,
        FAILS_EARLIER.replace(
            '    fail(__file__, 14, "RuntimeError: this is what the repair broke")', "    sys.exit(9)"
        ),
    )
    before = main.read_text()
    done = shardfix_command("--run", COMMAND, "--write")
    assert done.code == 9
    assert main.read_text() == before


def test_time_limit(project: Path, shardfix_command: Callable[..., Any]) -> None:
    write_main(project, "import time\nprint('sleeping', flush=True)\ntime.sleep(60)\n")
    start = time.monotonic()
    done = shardfix_command("--run", COMMAND, "--time-limit", "1")
    assert time.monotonic() - start < 20
    assert done.code == 124
    assert "ended after 1 seconds" in done.err


def test_an_error_before_the_time_limit_is_repaired(project: Path, shardfix_command: Callable[..., Any]) -> None:
    """A worker that fails leaves the others waiting; what then runs on past the limit has come further."""
    waits = THREE_FAULTS.replace("    fail(", "    failed(") + "import time\ntime.sleep(60)\n"
    failed = (
        "def failed(*a):\n    try:\n        fail(*a)\n    except SystemExit:\n        import time; time.sleep(60)\n"
    )
    main = write_main(project, failed + textwrap.dedent(waits))
    text = main.read_text()
    lines = [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if "check_rep=False" in line or "tree_map(abs" in line
    ]
    main.write_text(
        text.replace("__file__, 16", f"__file__, {lines[0]}").replace("__file__, 20", f"__file__, {lines[1]}")
    )
    done = shardfix_command("--run", COMMAND, "--time-limit", "2", "--write")
    assert done.code == 124
    assert "taken back" not in done.err
    assert "check_vma" in main.read_text()
    assert "jax.tree.map" in main.read_text()


def test_input_from_a_file_is_read_at_each_run(project: Path) -> None:
    main = write_main(project, "print('read', input())\n" + textwrap.dedent(THREE_FAULTS))
    text = main.read_text()
    main.write_text(text.replace("__file__, 16", "__file__, 17").replace("__file__, 20", "__file__, 21"))
    (project / "input.txt").write_text("hello\n")
    with (project / "input.txt").open() as source:
        command = [sys.executable, "-m", "shardfix", "--run", COMMAND, "--write"]
        done = subprocess.run(command, stdin=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("read hello") == 4


def is_running(pid: int) -> bool:
    """Whether there is such a process that still does something (nobody may have come for what is left of it)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_ends_the_command_and_all_it_started(project: Path, number: signal.Signals, code: int) -> None:
    write_main(
        project,
        "import os, time\npathlib.Path('pid').write_text(str(os.getpid()))\nprint('sleeping', flush=True)\ntime.sleep(60)\n",
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "shardfix", "--write", "--run", f"true && {COMMAND}"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert "sleeping" in process.stderr.readline()
    process.send_signal(number)
    assert process.wait(20) == code
    assert not is_running(int((project / "pid").read_text()))


def test_a_daemon_left_behind_does_not_hold_the_run(project: Path, shardfix_command: Callable[..., Any]) -> None:
    write_main(project, "import subprocess\nsubprocess.Popen(['sleep', '30'])\nprint('done')\n")
    start = time.monotonic()
    assert shardfix_command("--run", COMMAND).code == 0
    assert time.monotonic() - start < 15


def test_the_copy_keeps_the_originals_from_what_the_program_writes(
    project: Path, shardfix_command: Callable[..., Any]
) -> None:
    (project / "data.txt").write_text("precious")
    write_main(project, "pathlib.Path('data.txt').write_text('spoilt')\n")
    assert shardfix_command("--run", COMMAND).code == 0
    assert (project / "data.txt").read_text() == "precious"


def test_usage(project: Path, shardfix_command: Callable[..., Any]) -> None:
    assert shardfix_command("--run", "true", "main.py").code == 2
    assert shardfix_command("--run", "true", "--check").code == 2
    assert shardfix_command("--time-limit", "3").code == 2


@pytest.mark.slow
def test_three_faults_on_jax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shardfix_command: Callable[..., Any]
) -> None:
    """A real program: an argument that is gone, a scalar output, and in another module a string and a name that is gone."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "__init__.py").touch()
    (tmp_path / "lib" / "steps.py").write_text(
        textwrap.dedent(
            """\
            import jax
            from jax.sharding import PartitionSpec as P


            def mean_of(mesh, x):
                def body(x):
                    return jax.lax.pmean(x.mean(), "i")

                y = jax.shard_map(body, mesh=mesh, in_specs="i", out_specs=P())(x)
                return jax.tree_map(lambda v: v * 2, y)
            """
        )
    )
    (tmp_path / "main.py").write_text(
        textwrap.dedent(
            """\
            import jax
            import jax.numpy as jnp
            import numpy as np
            from jax.sharding import Mesh, PartitionSpec as P

            from lib.steps import mean_of

            mesh = Mesh(np.array(jax.devices()), ("i",))


            def total(x):
                return x.sum()


            f = jax.shard_map(total, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_rep=False)
            x = jnp.arange(16.0)
            assert f(x).shape == (8,)
            print(mean_of(mesh, x))
            """
        )
    )
    done = shardfix_command("--run", COMMAND, "--write")
    assert done.code == 0, done.err
    assert "It passes after 4 repairs." in done.err
    assert "15.0" in done.err
    assert 'in_specs=P("i"), out_specs=P())(x)' in (tmp_path / "lib" / "steps.py").read_text()
