import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
manual = ["x"]
sine = jax.jit(jax.shard_map(jnp.sin, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names=manual))
print(sine(jnp.ones((8, 8))).shape)
