import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",))
with jax.set_mesh(mesh):
    weights = jax.device_put(jnp.ones((16,)), P("data"))
    x = jax.device_put(jnp.arange(16.0), P("data"))
    scale = jax.shard_map(lambda x: x * weights, out_specs=P("data"))
    print(scale(x))
