import jax
import jax.numpy as jnp

mesh = jax.make_mesh((8,), ("i",))
with jax.set_mesh(mesh):
    print(jax.lax.full((16,), 1.0, sharding="i"))
