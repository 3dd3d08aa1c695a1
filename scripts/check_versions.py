"""Runs what shardfix writes on the JAX versions that it is claimed for: the oldest and the newest.

    python scripts/check_versions.py [--environments FOLDER] [--build] [--all] [--only TEXT]

Each fixture that shardfix repairs is repaired here, and its output run on the oldest environment that has what the repair
needs (the ``needs_jax`` of its fixes) and all the names that the program uses besides, and on the newest. ``--all`` runs it on
those between, too. An environment is a folder that holds ``bin/python`` with JAX; ``--build`` makes those that are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from shardfix.codemod import Safety, all_codemods
from shardfix.fixer import fix
from shardfix.semantics.module import Module
from shardfix.semantics.project import Project
from shardfix.settings import Settings
from shardfix.target import NEWEST_JAX, has

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
SERVER = ROOT / "tests" / "jax_process.py"
ENVIRONMENTS = Path(os.environ.get("SHARDFIX_JAX_ENVIRONMENTS", ROOT / ".jax-environments"))
VERSIONS = ("0.4.38", "0.5.3", "0.6.2", "0.7.2", "0.8.3", "0.9.2", "0.10.2", "0.11.2", "0.12.0.1")
"""One of each minor version that shardfix knows: what ``--build`` makes."""


@dataclass(frozen=True, order=True)
class Environment:
    """An interpreter with a version of JAX."""

    jax: Version
    python: Path


@dataclass(frozen=True)
class Repaired:
    """A fixture as shardfix repairs it.

    ``since`` is the JAX that the repair needs, ``claimed`` the names of JAX that the repair brings in, ``other_names`` those that
    the program uses anyhow.
    """

    name: str
    path: Path
    source: str
    since: Version
    claimed: frozenset[str]
    other_names: frozenset[str]
    runs_on: SpecifierSet


def environments(folder: Path = ENVIRONMENTS) -> list[Environment]:
    """The environments in ``folder``, oldest JAX first; of two with the same JAX, the first by name."""
    found: dict[Version, Environment] = {}
    ask = "import importlib.metadata as m; print(m.version('jax'))"
    for python in sorted(folder.glob("*/bin/python")):
        done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            version = Version(done.stdout.strip())
            found.setdefault(version, Environment(version, python))
    return sorted(found.values())


def build(folder: Path) -> None:
    """Make the environments that ``folder`` lacks, with the interpreter that runs this script.

    Raises:
        subprocess.CalledProcessError: pip cannot install a version, for one because it is not made for this Python.
    """
    present = {environment.jax for environment in environments(folder)}
    for version in VERSIONS:
        if Version(version) not in present:
            place = folder / f"jax-{version}"
            subprocess.run([sys.executable, "-m", "venv", place], check=True)
            subprocess.run([place / "bin" / "python", "-m", "pip", "install", "-q", f"jax[cpu]=={version}"], check=True)


def repaired(path: Path) -> Repaired | None:
    """The fixture at ``path`` after the fixes that its head asks for; None where nothing is repaired."""
    source = path.read_text()
    marks = [line.removeprefix("# fixture:").strip() for line in source.splitlines() if line.startswith("# fixture:")]
    head = tomllib.loads("\n".join(marks))
    arguments = head.get("args", [])
    target = arguments[arguments.index("--target-jax") + 1] if "--target-jax" in arguments else None
    settings = Settings(unsafe="--unsafe" in arguments, target_jax=target)
    project = Project(sources={str(path): source})
    codemods = list(all_codemods().values())
    result = fix(source, str(path), settings, project, codemods)
    if result.source == source:
        return None
    module = Module(source, str(path), project)
    needed = ["0.4.0"]
    for codemod in codemods:
        for finding in codemod(settings).findings(module):
            if finding.fix is not None and (settings.unsafe or finding.fix.safety is Safety.SAFE):
                if finding.fix.needs_jax is not None and has(target or NEWEST_JAX, finding.fix.needs_jax):
                    needed.append(finding.fix.needs_jax)
    before = _jax_names(module)
    after = _jax_names(Module(result.source, str(path), project))
    return Repaired(
        name=f"{path.parent.name}/{path.stem}",
        path=path,
        source=result.source,
        since=max(map(Version, needed)),
        claimed=after - before,
        other_names=after & before,
        runs_on=SpecifierSet(head.get("jax", "")),
    )


def _jax_names(module: Module) -> frozenset[str]:
    used = {*module.used_names, *(name.dotted for name in module.imports)}
    return frozenset(name for name in used if name.partition(".")[0] == "jax" and not name.endswith(".*"))


class Interpreter:
    """An environment at work: one process that answers for names and runs programs."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        variables = dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=8")
        self._variables = variables | {"PYTHONWARNINGS": ""}
        self._process = subprocess.Popen(
            [environment.python, SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._variables, text=True
        )

    def lacks(self, names: Iterable[str]) -> list[str]:
        """Those of the names that this JAX does not have."""
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "names.py"
            program.write_text(_LOOK_UP.format(names=sorted(names)))
            _, output = self.run(program)
        return [line.removeprefix("no ") for line in output.splitlines() if line.startswith("no ")]

    def run(self, program: Path) -> tuple[int, str]:
        """The exit code of a program and what it printed."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(str(program)) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["code"], answer["output"]

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(10)


_LOOK_UP = """
import importlib
for name in {names!r}:
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
            for part in parts[count:]:
                found = getattr(found, part)
            break
        except (ImportError, AttributeError):
            continue
    else:
        print("no", name)
"""


@cache
def interpreter(environment: Environment) -> Interpreter:
    """The running process of an environment."""
    return Interpreter(environment)


def faults(case: Repaired, known: Sequence[Environment], *, every: bool = False) -> list[str]:
    """What is wrong with the claim that ``case`` runs from ``case.since`` on: one sentence a fault."""
    found: list[str] = []
    able: list[Environment] = []
    for environment in known:
        if environment.jax >= case.since:
            missing = interpreter(environment).lacks(case.claimed)
            if missing:
                found.append(
                    f"{case.name}: JAX {environment.jax} has no {', '.join(missing)}, claimed since {case.since}"
                )
            elif case.runs_on.contains(environment.jax, prereleases=True):
                if not interpreter(environment).lacks(case.other_names):
                    able.append(environment)
    for environment in able if every else dict.fromkeys([*able[:1], *able[-1:]]):
        code, output = _run(interpreter(environment), case)
        if code != 0:
            found.append(
                f"{case.name}: fails on JAX {environment.jax}: {(output.strip().splitlines() or [str(code)])[-1]}"
            )
    return found


def _run(process: Interpreter, case: Repaired) -> tuple[int, str]:
    import shutil

    with tempfile.TemporaryDirectory() as folder:
        if case.path.with_suffix("").is_dir():
            shutil.copytree(case.path.with_suffix(""), folder, dirs_exist_ok=True)
        program = Path(folder) / case.path.name
        program.write_text(case.source)
        return process.run(program)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS)
    parser.add_argument("--build", action="store_true", help="make the environments that are missing")
    parser.add_argument(
        "--all", action="store_true", help="run on every environment, not on the oldest and newest alone"
    )
    parser.add_argument("--only", default="", help="only fixtures with this text in their name")
    options = parser.parse_args()
    if options.build:
        build(options.environments)
    known = environments(options.environments)
    if not known:
        parser.error(f"no environments in {options.environments}: --build makes them")
    print("JAX", *(str(environment.jax) for environment in known))
    found: list[str] = []
    count = 0
    for path in sorted(FIXTURES.glob("*/*.py")):
        case = repaired(path) if options.only in f"{path.parent.name}/{path.stem}" else None
        if case is not None:
            count += 1
            wrong = faults(case, known, every=options.all)
            found += wrong
            print(f"{case.name}: since {case.since}: {'; '.join(wrong) or 'as claimed'}", flush=True)
    print(f"{count} repaired programs, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
