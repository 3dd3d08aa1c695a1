"""The migrations of shard_map, pjit and mesh contexts: their manual pages, and what other modules of a project change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jax_process import JaxProcess

from shardfix.codemod import Finding, Safety, all_codemods
from shardfix.edits import MoveImport
from shardfix.manual import sections
from shardfix.semantics.module import Module
from shardfix.semantics.project import Project
from shardfix.settings import Settings

PAGES = ("experimental-shard-map", "make-mesh-defaults", "mesh-contexts", "pjit")
OLD_IMPORT = "from jax.experimental.shard_map import shard_map\n"
CALL = "f = shard_map(g, mesh, in_specs=s, out_specs=s, check_rep=False)\n"


def findings(name: str, path: str, sources: dict[str, str]) -> list[Finding]:
    """What one codemod finds in one file of a project."""
    project = Project(sources, read=sources.get, sources=sources)
    module = Module(sources[path], path, project)
    project.adopt(module)
    return list(all_codemods()[name](Settings()).findings(module))


@pytest.fixture(scope="module")
def jax_process() -> Iterator[JaxProcess]:
    process = JaxProcess()
    yield process
    process.close()


@pytest.mark.parametrize("name", PAGES)
def test_the_manual_page_shows_what_is_done(
    name: str, tmp_path: Path, shardfix_command: Callable[..., Any], jax_process: JaxProcess
) -> None:
    page = sections(all_codemods()[name].manual_page())
    (tmp_path / ".git").mkdir()
    program = tmp_path / "program.py"
    program.write_text(page["Before"])
    before = jax_process.run(program)
    assert before.code != 0 or "DeprecationWarning" in before.output
    shardfix_command("--write", "--unsafe", "--select", name, program)
    assert program.read_text() == page["After"]
    after = jax_process.run(program)
    assert after.code == 0, after.output
    assert "DeprecationWarning" not in after.output


# Other modules of the project


def test_an_import_that_others_take_stays_and_its_own_calls_move() -> None:
    sources = {
        "/p/maps.py": f"import jax\n{OLD_IMPORT}{CALL}",
        "/p/user.py": "from maps import shard_map\nf = shard_map(g, mesh, s, s)\n",
    }
    call, stays = findings("experimental-shard-map", "/p/maps.py", sources)
    assert call.safety is Safety.SAFE
    assert call.fix is not None
    assert not any(isinstance(edit, MoveImport) for edit in call.fix.edits)
    assert stays.safety is Safety.MANUAL
    assert "user.py" in stays.reason


@pytest.mark.parametrize(
    "user",
    [
        "from maps import shard_map as mapped\nmapped(g, mesh, s, s)\n",
        "from maps import *\nshard_map(g, mesh, s, s)\n",
        "import maps\nmaps.shard_map(g, mesh, s, s)\n",
        "import maps as m\nm.shard_map(g, mesh, s, s)\n",
    ],
)
def test_every_way_to_take_the_function_is_seen(user: str) -> None:
    sources = {"/p/maps.py": f"import jax\n{OLD_IMPORT}{CALL}", "/p/user.py": user}
    assert any(finding.safety is Safety.MANUAL for finding in findings("experimental-shard-map", "/p/maps.py", sources))
    assert findings("experimental-shard-map", "/p/user.py", sources) == []


def test_a_namesake_elsewhere_is_no_user() -> None:
    sources = {
        "/p/maps.py": f"import jax\n{OLD_IMPORT}{CALL}",
        "/p/user.py": "from jax import shard_map\nf = shard_map(g, mesh=mesh, in_specs=s, out_specs=s)\n",
    }
    (finding,) = findings("experimental-shard-map", "/p/maps.py", sources)
    assert finding.safety is Safety.SAFE


def test_calls_through_a_compatibility_module_are_left() -> None:
    sources = {
        "/p/compat.py": f"try:\n    from jax import shard_map\nexcept ImportError:\n    {OLD_IMPORT}",
        "/p/user.py": "from compat import shard_map\nf = shard_map(g, mesh=mesh, in_specs=s, out_specs=s)\n",
    }
    assert findings("experimental-shard-map", "/p/user.py", sources) == []
    assert findings("experimental-shard-map", "/p/compat.py", sources) == []


def test_a_block_whose_mesh_other_files_read_is_left_to_the_author() -> None:
    block = (
        "import jax\nimport numpy as np\nfrom jax.sharding import Mesh, PartitionSpec as P\n"
        "mesh = Mesh(np.array(jax.devices()), ('x',))\n"
        "f = jax.jit(lambda v: jax.lax.with_sharding_constraint(v, P('x')))\n"
        "ones = np.ones(8)\n"
        "with mesh:\n    f(ones)\n"
    )
    (alone,) = findings("mesh-contexts", "/p/block.py", {"/p/block.py": block})
    assert alone.safety is Safety.SAFE
    reader = "from jax.interpreters import pxla\nmesh = pxla.thread_resources.env.physical_mesh\n"
    (together,) = findings("mesh-contexts", "/p/block.py", {"/p/block.py": block, "/p/reader.py": reader})
    assert together.safety is Safety.MANUAL
    assert "thread_resources" in together.reason


def test_pjit_without_shardings_is_not_safe_where_other_files_enter_a_mesh() -> None:
    library = "from jax.experimental.pjit import pjit\ndef double(v):\n    return pjit(lambda w: w * 2)(v)\n"
    user = "from library import double\nfrom jax.sharding import Mesh\ndef f(mesh, v):\n    with mesh:\n        return double(v)\n"
    (alone,) = findings("pjit", "/p/library.py", {"/p/library.py": library})
    assert alone.safety is Safety.SAFE
    (together,) = findings("pjit", "/p/library.py", {"/p/library.py": library, "/p/user.py": user})
    assert together.safety is Safety.UNSAFE


def test_an_old_target_gets_shardings_that_name_their_mesh() -> None:
    source = (
        "import jax\nimport numpy as np\nfrom jax.experimental.pjit import pjit\n"
        "from jax.sharding import Mesh, PartitionSpec as P\n"
        "mesh = Mesh(np.array(jax.devices()), ('x',))\n"
        "f = pjit(lambda v: v, in_shardings=P('x'), out_shardings=P('x'))\n"
        "ones = np.ones(8)\n"
        "with mesh:\n    f(ones)\n"
    )
    module = Module(source, "/p/program.py")
    for target, needs in ((None, "0.7.1"), ("0.5", None)):
        (finding,) = all_codemods()["pjit"](Settings(target_jax=target)).findings(module)
        assert finding.safety is Safety.SAFE
        assert finding.fix is not None
        assert finding.fix.needs_jax == needs
