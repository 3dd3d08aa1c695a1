import os
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
import functools
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
x = jax.device_put(jnp.arange(16.0), jax.devices()[0])
y = jax.device_put(jnp.arange(16.0), NamedSharding(mesh, P("i")))
print(x + y)
