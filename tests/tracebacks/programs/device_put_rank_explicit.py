import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",))
bias = jax.device_put(jnp.ones(16), NamedSharding(mesh, P("data", None)))
print(bias.sharding)
