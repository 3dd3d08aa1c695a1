"""Names that mean one object, and the groups of callables that the interpreter treats alike."""

from __future__ import annotations

CANONICAL = {
    "jax.P": "jax.sharding.PartitionSpec",
    "jax.NamedSharding": "jax.sharding.NamedSharding",
    "jax.reshard": "jax.sharding.reshard",
    "jax.experimental.shard.reshard": "jax.sharding.reshard",
    "jax.experimental.shard.auto_axes": "jax.sharding.auto_axes",
    "jax.experimental.shard.explicit_axes": "jax.sharding.explicit_axes",
    "jax.sharding.set_mesh": "jax.set_mesh",
    "jax.sharding.use_mesh": "jax.set_mesh",
    "jax.experimental.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax.experimental.pjit.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax.experimental.pjit.NamedSharding": "jax.sharding.NamedSharding",
    "jax.experimental.pjit.with_sharding_constraint": "jax.lax.with_sharding_constraint",
    "jax.experimental.shard_map.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax.experimental.shard_map.P": "jax.sharding.PartitionSpec",
    "jax.experimental.shard_map.Mesh": "jax.sharding.Mesh",
    "jax.experimental.multihost_utils.P": "jax.sharding.PartitionSpec",
    "jax.interpreters.pxla.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax.interpreters.pxla.Mesh": "jax.sharding.Mesh",
    "jax.experimental.maps.Mesh": "jax.sharding.Mesh",
    "jax._src.mesh.Mesh": "jax.sharding.Mesh",
    "jax._src.shard_map.shard_map": "jax.shard_map",
    "jax.experimental.pjit.pjit": "jax.jit",
    "jax.remat": "jax.checkpoint",
    "jax.ad_checkpoint.checkpoint": "jax.checkpoint",
    "jax.ad_checkpoint.remat": "jax.checkpoint",
    "jax.tree_util.tree_map": "jax.tree.map",
    "jax.tree_map": "jax.tree.map",
    "jax.tree_util.tree_leaves": "jax.tree.leaves",
    "jax.core.ShapeDtypeStruct": "jax.ShapeDtypeStruct",
    "jax.tree_leaves": "jax.tree.leaves",
    "jax.tree_util.tree_reduce": "jax.tree.reduce",
    "jax.tree_util.Partial": "functools.partial",
}
"""Other homes and spellings of one object."""


LEAVING_ALONE = frozenset(
    "jax jaxlib numpy math functools itertools builtins typing typing_extensions collections dataclasses copy enum logging "
    "warnings time datetime os sys pathlib re json abc contextlib inspect types string textwrap pprint optax flax haiku "
    "equinox einops chex jaxtyping absl".split()
)
"""Packages whose functions do not change the containers that they are handed."""
CHANGING = frozenset(
    "numpy.copyto numpy.put numpy.place numpy.putmask numpy.fill_diagonal numpy.random.shuffle builtins.exec builtins.eval".split()
)
"""Those of their functions that do."""


def leaves_arguments_alone(dotted: str) -> bool:
    """Whether a function that is not of the project certainly changes none of its arguments."""
    return dotted.partition(".")[0] in LEAVING_ALONE and dotted not in CHANGING


def canonical(dotted: str) -> str:
    """One name for objects that have several."""
    return CANONICAL.get(dotted, dotted)


MAPS = frozenset({"jax.shard_map", "jax.experimental.shard_map.shard_map", "jax.smap"})
SAME_CALL = frozenset(
    {
        "jax.jit",
        "jax.checkpoint",
        "jax.named_call",
        "jax.custom_jvp",
        "jax.custom_vjp",
        "jax.custom_gradient",
        "jax.sharding.auto_axes",
        "jax.sharding.explicit_axes",
        "jax.profiler.annotate_function",
    }
)
"""Transforms whose result is called as the function itself is."""
TRANSFORMS = SAME_CALL | {
    "jax.vmap",
    "jax.grad",
    "jax.value_and_grad",
    "jax.jacfwd",
    "jax.jacrev",
    "jax.jacobian",
    "jax.hessian",
}
NUMBERS = frozenset("inf nan pi e euler_gamma tau".split())
"""Constants of jax.numpy, numpy and math."""
LIMITS = ("jax.numpy.finfo()", "jax.numpy.iinfo()", "numpy.finfo()", "numpy.iinfo()")
"""What stands for the results of these calls; their attributes are scalars."""
LIKE = "like"
"""Stands in a :class:`Transformed` for a function whose result is like the first argument of the transform."""
SAME_VALUE = frozenset(
    {
        "jax.device_put",
        "jax.lax.with_sharding_constraint",
        "jax.sharding.reshard",
        "jax.lax.stop_gradient",
        "jax.block_until_ready",
        "jax.ad_checkpoint.checkpoint_name",
        "jax.device_get",
    }
)
"""Functions that give their first argument, pytree or not, back with its ranks."""
SHARDING_KEYWORDS = frozenset(
    {
        "out_sharding",
        "in_specs",
        "out_specs",
        "in_shardings",
        "out_shardings",
        "shardings",
        "sharding",
        "device",
        "in_sharding",
    }
)
