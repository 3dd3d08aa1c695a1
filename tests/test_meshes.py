"""Which mesh a place can name, and which context it runs in."""

from __future__ import annotations

import ast
import textwrap

import pytest

from shardfix.semantics.contexts import Context, State
from shardfix.semantics.meshes import mesh_view
from shardfix.semantics.module import Module
from shardfix.semantics.situations import AxisKind, axis_kind, situation
from shardfix.semantics.values import Mesh

HEAD = "import jax\nimport jax.numpy as jnp\nfrom functools import partial\n"
MESH = 'mesh = jax.make_mesh((4, 2), ("x", "y"))\n'


def parsed(source: str) -> tuple[Module, ast.Call]:
    """The module, and the call of ``here()`` in it."""
    module = Module(HEAD + textwrap.dedent(source))
    here = next(node for node in module.nodes(ast.Call) if isinstance(node.func, ast.Name) and node.func.id == "here")
    return module, here


def context(source: str) -> Context:
    module, here = parsed(source)
    return mesh_view(module).context(here)


def codes(source: str) -> list[str]:
    module, here = parsed(source)
    return [found.code for found in mesh_view(module).meshes(here)]


@pytest.mark.parametrize(
    ("source", "state"),
    [
        (MESH + "here()", State.NONE),
        (MESH + "with jax.set_mesh(mesh):\n    here()", State.SET),
        (MESH + "with jax.sharding.use_mesh(mesh):\n    here()", State.SET),
        (MESH + "with mesh:\n    here()", State.LEGACY),
        (MESH + "with jax.set_mesh(mesh), open('f'):\n    here()", State.SET),
        (MESH + "with open('f'), jax.set_mesh(mesh):\n    [here() for _ in 'ab']", State.SET),
        (MESH + "with open('f'):\n    here()", State.NONE),
        (MESH + "with some_mesh_scope():\n    here()", State.UNKNOWN),
        (MESH + "jax.set_mesh(mesh)\nhere()", State.SET),
        (MESH + "here()\njax.set_mesh(mesh)", State.NONE),
        (MESH + "def f():\n    here()", State.UNKNOWN),
        (MESH + "def f():\n    here()\nf()", State.NONE),
        (MESH + "def f():\n    here()\nwith jax.set_mesh(mesh):\n    f()", State.SET),
        (MESH + "def f():\n    here()\ndef g():\n    f()\nwith jax.set_mesh(mesh):\n    g()", State.SET),
        (MESH + "@jax.jit\ndef f():\n    here()\nwith jax.set_mesh(mesh):\n    f()", State.SET),
        (MESH + "def f():\n    here()\ng = jax.jit(f)\nwith jax.set_mesh(mesh):\n    g()", State.SET),
        (MESH + "def f():\n    here()\nwith jax.set_mesh(mesh):\n    jax.jit(jax.vmap(f))()", State.SET),
        (MESH + "f = lambda: here()\nwith jax.set_mesh(mesh):\n    f()", State.SET),
        (MESH + "def f():\n    here()\nelsewhere(f)", State.UNKNOWN),
        (MESH + "@decorated\ndef f():\n    here()\nf()", State.UNKNOWN),
        (MESH + "def f(x):\n    here()\njax.shard_map(f, mesh=mesh, in_specs=P(), out_specs=P())(1)", State.MANUAL),
        (MESH + "@partial(jax.shard_map, mesh=mesh, in_specs=P(), out_specs=P())\ndef f(x):\n    here()", State.MANUAL),
        (
            MESH + "def f(x):\n    here()\njax.shard_map(f, mesh=mesh, axis_names={'x'}, out_specs=P())(1)",
            State.UNKNOWN,
        ),
        (MESH + "def f(c, x):\n    here()\nwith jax.set_mesh(mesh):\n    jax.lax.scan(f, 0, xs)", State.SET),
        (MESH + "class C:\n    def m(self):\n        here()\nwith jax.set_mesh(mesh):\n    C().m()", State.SET),
        (MESH + "class C:\n    def __init__(self):\n        here()\nwith jax.set_mesh(mesh):\n    C()", State.SET),
        (MESH + "def setup():\n    jax.set_mesh(mesh)\nsetup()\nhere()", State.UNKNOWN),
        (MESH + "def f():\n    f()\n    here()", State.UNKNOWN),
        (MESH + "def main():\n    jax.set_mesh(mesh)\n    here()", State.SET),
    ],
)
def test_context(source: str, state: State) -> None:
    assert context(source).only is state


def test_all_paths_are_joined() -> None:
    both = context(MESH + "def f():\n    here()\nf()\nwith jax.set_mesh(mesh):\n    f()")
    assert both.states == {State.NONE, State.SET}
    assert both.may_lack_mesh
    assert not both.lacks_mesh


@pytest.mark.parametrize(
    ("source", "traced"),
    [
        ("def f():\n    here()\nf()", False),
        ("@jax.jit\ndef f():\n    here()\nf()", True),
        ("@partial(jax.jit, static_argnums=0)\ndef f(n):\n    here()\nf(1)", True),
        ("def f():\n    here()\njax.jit(f)()", True),
        ("def f():\n    here()\njax.jit(f)()\nf()", None),
        ("def f():\n    here()\npartial(f)()", False),
        ("def f():\n    here()\n@jax.jit\ndef g():\n    f()\ng()", True),
        ("jax.tree.map(lambda x: here(), xs)", False),
        ("jax.lax.map(lambda x: here(), xs)", True),
    ],
)
def test_tracing(source: str, traced: bool | None) -> None:
    assert context(source).traced is traced


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (MESH + "here()", ["mesh"]),
        ("here()\n" + MESH, []),
        (MESH + "def f():\n    here()", ["mesh"]),
        ("def f():\n    here()\n" + MESH, ["mesh"]),
        ("def f(mesh):\n    here()", ["mesh"]),
        ("def f(mesh=None):\n    here()", []),
        ("def f(grid: jax.sharding.Mesh):\n    here()", ["grid"]),
        ("def f(grid):\n    here()", []),
        ("def f(mesh: int):\n    here()", []),
        (MESH + "def f(device_mesh):\n    here()", ["device_mesh", "mesh"]),
        (
            "class C:\n    def __init__(self, mesh):\n        self.m = mesh\n    def f(self):\n        here()",
            ["self.m"],
        ),
        ("class C:\n    grid: jax.sharding.Mesh\n    def f(self):\n        here()", ["self.grid"]),
        ("class C:\n    def f(self):\n        here()\n    def g(self):\n        self.mesh = build()", ["self.mesh"]),
        ("def f(cfg, x):\n    here()\n    return cfg.mesh", ["cfg.mesh"]),
        (MESH + "other = jax.make_mesh((8,), ('x',))\nwith jax.set_mesh(other):\n    here()", ["other", "mesh"]),
        ("if __name__ == '__main__':\n    " + MESH + "    here()", ["mesh"]),
        ("def f():\n    here()\nif __name__ == '__main__':\n    " + MESH, []),
        (
            "if big:\n    mesh = jax.make_mesh((8,), ('x',))\nelse:\n    mesh = jax.make_mesh((4,), ('x',))\nhere()",
            ["mesh"],
        ),
        ("mesh = 3\nhere()", []),
        ("def build():\n    return jax.make_mesh((8,), ('x',))\ngrid = build()\nhere()", ["grid"]),
        (MESH + "del mesh\nhere()", []),
        ("for mesh in meshes:\n    here()", []),
        (MESH + "def outer(mesh):\n    def inner():\n        here()", ["mesh"]),
    ],
)
def test_meshes_in_view(source: str, expected: list[str]) -> None:
    assert codes(source) == expected


def test_what_is_known_of_a_mesh() -> None:
    module, here = parsed(
        "from jax.sharding import AxisType\nimport numpy as np\n"
        "auto = jax.make_mesh((8,), ('x',), axis_types=(AxisType.Auto,))\n"
        "old = jax.sharding.Mesh(np.array(jax.devices()), ('x',))\n"
        "new = jax.make_mesh((8,), ('x',))\nhere()"
    )
    kinds = {found.code: axis_kind(found.mesh, None, None) for found in mesh_view(module).meshes(here)}
    assert kinds == {"auto": AxisKind.AUTO, "old": AxisKind.AUTO, "new": AxisKind.EXPLICIT}
    assert axis_kind(Mesh(("x",), default_types=True), None, "0.8") is AxisKind.UNKNOWN


def test_the_mesh_that_has_the_axes() -> None:
    source = "one = jax.make_mesh((8,), ('a',))\ntwo = jax.make_mesh((8,), ('b',))\nhere()"
    module, here = parsed(source)
    at = situation(module, mesh_view(module).context(here), here, frozenset({"b"}), None)
    assert at.mesh is not None
    assert at.mesh.code == "two"
    assert at.rivals == ()


def test_equally_near_meshes_are_rivals() -> None:
    source = "one = jax.make_mesh((8,), ('a',))\ntwo = jax.make_mesh((8,), ('a',))\nhere()"
    module, here = parsed(source)
    at = situation(module, mesh_view(module).context(here), here, frozenset({"a"}), None)
    assert [rival.code for rival in at.rivals] == ["two"]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("modle", "model"), ("mode", "model"), ("models", "model"), ("Model", "model"), ("batch", None), ("mdl", None)],
)
def test_misspelling(wrong: str, right: str | None) -> None:
    module, here = parsed("mesh = jax.make_mesh((4, 2), ('model', 'data'))\nhere()")
    at = situation(module, mesh_view(module).context(here), here, frozenset({wrong}), None)
    assert at.missing == {wrong}
    assert at.certain_correction(wrong) == right


def test_a_number_is_no_slip() -> None:
    module, here = parsed("mesh = jax.make_mesh((4,), ('axis0',))\nhere()")
    at = situation(module, mesh_view(module).context(here), here, frozenset({"axis1"}), None)
    assert at.certain_correction("axis1") is None
