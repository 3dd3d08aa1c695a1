import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",))
with jax.set_mesh(mesh):
    rows = jax.device_put(jnp.ones((16, 8)), P("data", None))
    weights = jax.device_put(jnp.ones((8,)), P("data"))
    print(jax.vmap(lambda row, weights: row * weights, in_axes=(0, None))(rows, weights))
