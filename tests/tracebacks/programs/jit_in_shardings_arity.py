import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
split = NamedSharding(mesh, P("x"))
total = jax.jit(lambda a, b, c: a + b + c, in_shardings=(split, split), out_shardings=split)
print(total(jnp.ones(8), jnp.ones(8), jnp.ones(8)))
