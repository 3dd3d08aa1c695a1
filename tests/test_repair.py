"""What is offered for an error is tried on JAX: each program of ``tracebacks/programs`` (and of ``../shared/tracebacks``)
fails as its text says, and runs with each repair that shardfix offers.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from jax_process import JaxProcess
from packaging.version import Version

from shardfix.codemod import all_codemods
from shardfix.manual import sections
from shardfix.repair import Diagnosis, diagnose
from shardfix.settings import Settings
from shardfix.tracebacks import table

HERE = Path(__file__).parent
PROGRAMS = HERE / "tracebacks" / "programs"
SHARED = HERE.parents[1] / "shared" / "tracebacks"


def cases() -> list[tuple[str, Path, list[Path]]]:
    """Name, text and files of each program."""
    found = [
        (path.stem, HERE / "tracebacks" / f"{path.stem}.jax-0.12.txt", [path]) for path in sorted(PROGRAMS.glob("*.py"))
    ]
    if SHARED.is_dir():
        for folder in sorted(SHARED.iterdir()):
            text = folder / "jax-0.12.0.txt"
            if text.exists():
                found.append((folder.name, text, sorted(folder.glob("*.py"))))
    return found


@pytest.fixture(scope="module")
def jax_process() -> Iterator[JaxProcess]:
    process = JaxProcess()
    yield process
    process.close()


@pytest.mark.slow
@pytest.mark.skipif(Version(version("jax")) < Version("0.12"), reason="the texts are those of JAX 0.12")
@pytest.mark.parametrize(("name", "text", "files"), cases(), ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_offered_runs(
    name: str, text: Path, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jax_process: JaxProcess
) -> None:
    for file in files:
        shutil.copyfile(file, tmp_path / file.name)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    (diagnosis,) = diagnose(text.read_text(), Settings())
    for repair in diagnosis.repairs:
        for change in repair.changes:
            Path(change.path).write_bytes(change.after)
        done = jax_process.run(tmp_path / f"{name}.py")
        assert done.code == 0 or is_another_error(diagnosis, done.output), (
            f"{repair.title}\n{repair.diff.decode()}\n{done.output}"
        )
        for change in repair.changes:
            Path(change.path).write_bytes(change.before)
    expected = any(text.parent.glob("repaired-*"))
    assert diagnosis.repairs or not expected


def is_another_error(before: Diagnosis, output: str) -> bool:
    """Whether a certain repair has brought the program on to its next fault."""
    after = list(diagnose(output, Settings()))
    return bool(after) and before.certain is not None and after[-1].item.known not in (None, before.item.known)


def test_codemods_that_act_on_tracebacks_alone_find_nothing_without(tmp_path: Path) -> None:
    from shardfix.semantics.module import Module

    alone = [codemod for codemod in all_codemods().values() if not codemod.triggers]
    assert alone
    for path in sorted(PROGRAMS.glob("*.py")):
        module = Module(path.read_text(), str(path))
        for codemod in alone:
            assert list(codemod(Settings()).findings(module)) == []


ALONE = {name: codemod for name, codemod in all_codemods().items() if not codemod.triggers}


@pytest.mark.slow
@pytest.mark.skipif(Version(version("jax")) < Version("0.12"), reason="the manual pages speak of JAX 0.12")
@pytest.mark.parametrize("name", ALONE)
def test_manual_page(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jax_process: JaxProcess) -> None:
    """What the page shows before fails on JAX, and one of the repairs that its error leads to is what it shows after."""
    page = sections(ALONE[name].manual_page())
    assert {"What JAX says", "Why", "Before", "After", "When it does not fix"} <= page.keys()
    program = tmp_path / "program.py"
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    program.write_text(page["Before"])
    failed = jax_process.run(program)
    assert failed.code != 0
    diagnosis = list(diagnose(failed.output, Settings(codemods=(name,))))[-1]
    offered = [change.after.decode() for repair in diagnosis.repairs for change in repair.changes]
    assert page["After"] in offered
    program.write_text(page["After"])
    done = jax_process.run(program)
    assert done.code == 0, done.output


@pytest.mark.slow
@pytest.mark.parametrize("text", sorted((HERE / "tracebacks").glob("*.txt")), ids=lambda path: path.stem)
def test_no_codemod_crashes_on_what_jax_reports(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = PROGRAMS / f"{text.stem.partition('.')[0]}.py"
    if program.exists():
        shutil.copyfile(program, tmp_path / program.name)
    monkeypatch.chdir(tmp_path)
    for diagnosis in diagnose(text.read_text(), Settings()):
        assert diagnosis.failures == ()


UNKNOWN_HELPER = """\
import jax
from jax.sharding import PartitionSpec as P

from vendor import score


def evaluate(mesh, x):
    def loss(x):
        return x, {"score": score(x)}

    return jax.shard_map(loss, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)
"""
REPORT = """\
Traceback (most recent call last):
  File "/srv/evaluate.py", line 11, in evaluate
    return jax.shard_map(loss, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)
ValueError: shard_map applied to the function 'loss' was given an out_specs entry which is too long to be compatible \
with the corresponding output value from the function:

out_specs is P('i',) which has length 1, but loss(*args)[1]['score'] has shape float32[], which has rank 0 (and 0 < 1)
"""


def test_jax_decides_where_the_analysis_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the helper returns is not in view; that JAX says its rank is enough."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "evaluate.py").write_text(UNKNOWN_HELPER)
    (diagnosis,) = diagnose(REPORT, Settings())
    assert diagnosis.certain is not None
    assert '"score": jax.numpy.reshape(score(x), (1,))' in diagnosis.certain.changes[0].after.decode()
    (diagnosis,) = diagnose(REPORT.replace("'loss'", "'other'").replace("loss(", "other("), Settings())
    assert diagnosis.certain is None


ACTED_ON = frozenset(error.name for error in table().errors) - frozenset(
    """
    abstract-mesh-inputs captured-array device-mismatch eager-shard-map mesh-shape not-callable replication-rule
    unreduced-axes vmap-sharding
    """.split()
)
"""All errors but those that leave nothing to edit, or nothing that could be known."""


def test_every_error_has_codemods_that_act_on_it() -> None:
    declared = {kind for codemod in all_codemods().values() for kind in codemod.evidence}
    assert declared >= ACTED_ON


@pytest.mark.parametrize(
    ("codemod", "kind"),
    [
        ("device-put-replicated", "removed-name"),
        ("experimental-shard-map", "unexpected-keyword"),
        ("pvary", "removed-name"),
        ("rank0-outputs", "output-rank"),
        ("removed-shardings", "removed-name"),
        ("renames", "missing-module"),
        ("renames", "removed-name"),
        ("string-shardings", "sharding-type"),
        ("unreduced-outputs", "output-replication"),
        ("varying-carries", "carry-type"),
    ],
)
def test_who_acts_on_what(codemod: str, kind: str) -> None:
    assert kind in all_codemods()[codemod].evidence
