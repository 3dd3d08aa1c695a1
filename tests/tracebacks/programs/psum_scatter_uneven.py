import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
scatter = jax.shard_map(lambda x: jax.lax.psum_scatter(x, "i"), mesh=mesh, in_specs=P(None), out_specs=P("i"))
print(scatter(jnp.ones(16)))
