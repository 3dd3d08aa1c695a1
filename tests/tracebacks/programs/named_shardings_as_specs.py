import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
sharding = NamedSharding(mesh, P("i"))
sine = jax.shard_map(jnp.sin, mesh=mesh, in_specs=sharding, out_specs=sharding)
print(sine(jax.device_put(jnp.arange(16.0), sharding)).shape)
