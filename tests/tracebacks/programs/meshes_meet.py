import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

mesh1 = jax.make_mesh((8,), ("x",))
mesh2 = jax.make_mesh((8,), ("y",))
a = jax.device_put(jnp.ones(16), NamedSharding(mesh1, P("x")))
b = jax.device_put(jnp.ones(16), NamedSharding(mesh2, P("y")))
print(a + b)
