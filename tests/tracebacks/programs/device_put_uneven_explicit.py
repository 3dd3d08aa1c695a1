import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"))
batch = jax.device_put(jnp.ones((6, 3)), NamedSharding(mesh, P("data")))
print(batch.sharding)
