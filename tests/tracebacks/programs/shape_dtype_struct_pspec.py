import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",))
spec = jax.ShapeDtypeStruct((16,), jnp.float32, sharding=P("data"))
print(jax.jit(jnp.sin).lower(spec).out_info)
