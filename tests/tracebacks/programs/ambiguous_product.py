import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("data", "model"))
x = jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, P("data", "model")))
w = jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, P("model", None)))
print(jnp.dot(x, w).sharding)
