import jax
import jax.numpy as jnp

mesh = jax.make_mesh((8,), ("data",))
with jax.set_mesh(mesh):
    spec = jax.ShapeDtypeStruct((16,), jnp.float32, sharding="data")
    print(jax.jit(jnp.sin).lower(spec).out_info)
