import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
add = jax.shard_map(
    jnp.add, mesh=mesh, in_specs=(P("data", "model"), P(None, "model")), out_specs=P("data", "model")
)
print(add(jnp.ones((8, 8)), jnp.ones((8,))).shape)
