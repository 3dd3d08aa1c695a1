import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
cosine = jax.shard_map(jnp.cos, mesh=mesh, in_specs=P("dta"), out_specs=P("data"))
print(cosine(jnp.ones(16)).shape)
