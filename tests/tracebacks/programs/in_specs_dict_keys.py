import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
params = {"kernel": jnp.ones((4, 4)), "bias": jnp.zeros(4)}


def dense(params, x):
    return x @ params["kernel"] + params["bias"]


f = jax.shard_map(dense, mesh=mesh, in_specs=({"kernel": P(), "biases": P()}, P("i")), out_specs=P("i"))
print(f(params, jnp.ones((16, 4))).shape)
