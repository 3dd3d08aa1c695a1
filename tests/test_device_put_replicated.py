"""The drop-ins against the functions whose place they take, on a JAX that still has these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version
from shardfix.codemods.device_put_replicated import DEFINITIONS
from test_versions import script

from shardfix.edits import NAMED

COMPARISON = """
import jax, jax.numpy, numpy

{definitions}

def same(old, new):
    assert jax.tree.structure(old) == jax.tree.structure(new)
    for a, b in zip(jax.tree.leaves(old), jax.tree.leaves(new)):
        assert a.shape == b.shape and a.dtype == b.dtype, (a, b)
        assert getattr(a, "weak_type", None) == getattr(b, "weak_type", None), (a, b)
        assert (jax.random.key_data(a) == jax.random.key_data(b)).all() if "key" in str(a.dtype) else (a == b).all()
        assert [shard.device for shard in a.addressable_shards] == [shard.device for shard in b.addressable_shards]
        assert [shard.index for shard in a.addressable_shards] == [shard.index for shard in b.addressable_shards]
        assert b.sharding.is_equivalent_to(a.sharding, a.ndim), (a.sharding, b.sharding)

trees = [
    {{"w": jax.numpy.ones((2, 3)), "b": numpy.arange(3, dtype="int8"), "n": None}},
    numpy.float32(2), True, jax.numpy.ones((), "bfloat16"), jax.random.key(0), jax.random.PRNGKey(0),
]
for devices in (jax.devices(), jax.devices()[:4], jax.devices()[::-1]):
    for tree in trees:
        same(jax.device_put_replicated(tree, devices), device_put_replicated(tree, devices))
        shards = [tree for _ in devices]
        same(jax.device_put_sharded(shards, devices), device_put_sharded(shards, devices))
    rows = [numpy.full((2,), n) for n in range(len(devices))]
    same(jax.device_put_sharded(rows, devices), device_put_sharded(rows, devices))
    doubled = jax.pmap(lambda x: x * 2, devices=devices)(device_put_sharded(rows, devices))
    assert doubled.tolist() == [[2 * n] * 2 for n in range(len(devices))]
"""


def program() -> str:
    return COMPARISON.format(
        definitions="\n\n".join(
            NAMED.sub(lambda found: found[1], definition.format(name=name)) for name, definition in DEFINITIONS.items()
        )
    )


def test_the_drop_ins_are_python() -> None:
    compile(program(), "drop-ins", "exec")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.8.3", "0.9.2"])
def test_the_drop_ins_do_what_the_functions_did(version: str, tmp_path: Path) -> None:
    known: list[Any] = [environment for environment in script.environments() if environment.jax == Version(version)]
    if not known:
        pytest.skip(f"no environment with JAX {version}")
    path = tmp_path / "comparison.py"
    path.write_text(program())
    code, output = script.interpreter(known[0]).run(path)
    assert code == 0, output
