"""Block norms of a matrix that is split over all devices: one number a block."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("rows", "columns"))


def block_norm(block):
    return jnp.sqrt(jnp.vdot(block, block))


def block_norms(matrix):
    return jax.shard_map(block_norm, mesh=mesh, in_specs=P("rows", "columns"), out_specs=P("rows", "columns"))(matrix)


if __name__ == "__main__":
    print(block_norms(jnp.ones((8, 8))))
