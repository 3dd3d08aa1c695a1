"""What the tests share: an option to write snapshots anew, and codemods of no meaning for tests of the house."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import sample_codemod

import shardfix.codemod
from shardfix.cli import main

if TYPE_CHECKING:
    from shardfix.codemod import Codemod

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")  # read when JAX is first imported
os.environ.setdefault("NPROC", "32")  # threads of XLA: on few cores the devices could wait for each other for ever


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write the .diff snapshots of tests/fixtures anew")


@pytest.fixture(autouse=True)
def own_cache(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Lets no test see what another has found."""
    name = hashlib.sha1(request.node.nodeid.encode()).hexdigest()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache" / name))


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> type[Codemod]:
    """Makes ``sample-codemod`` the only codemod there is."""
    codemod = sample_codemod.SampleCodemod
    discovered = shardfix.codemod._Discovered({codemod.codemod_name(): codemod})
    monkeypatch.setattr(shardfix.codemod, "_discover", lambda: discovered)
    return codemod


@dataclass(frozen=True)
class Run:
    """What a command left."""

    code: int
    out: bytes
    err: str


@pytest.fixture
def shardfix_command(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Run]:
    """Runs the command line in this process."""

    def run(*arguments: object) -> Run:
        code = main([str(argument) for argument in arguments])
        captured = capsysbinary.readouterr()
        return Run(code, captured.out, captured.err.decode())

    return run
