import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",))
step = jax.jit(lambda x: x + 1, in_shardings=NamedSharding(mesh, P("data")), backend="cpu")
print(step(jnp.ones(16)))
