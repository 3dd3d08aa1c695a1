import jax.numpy as jnp

print(jnp.ones(8).device_buffers)
