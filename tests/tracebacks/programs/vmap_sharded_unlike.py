import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"))
with jax.set_mesh(mesh):
    left = jax.device_put(jnp.ones((8, 8)), P("data", None))
    right = jax.device_put(jnp.ones((8, 8)), P("model", None))
    print(jax.vmap(jnp.dot)(left, right))
