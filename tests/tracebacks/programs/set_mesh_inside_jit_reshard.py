import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))


@jax.jit
def step(x):
    with jax.set_mesh(mesh):
        return jax.sharding.reshard(x, P("x")) * 2


print(step(jnp.arange(16.0)))
