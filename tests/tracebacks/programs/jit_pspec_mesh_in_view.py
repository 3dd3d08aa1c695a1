import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("b",), axis_types=(jax.sharding.AxisType.Auto,))
step = jax.jit(lambda x: x + 1, in_shardings=P("b"), out_shardings=P("b"))
print(step(jnp.ones((16, 2))).shape)
