import os
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
import functools
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
f = jax.smap(lambda x: x, in_axes=0, out_axes=0, axis_name="data")
with jax.set_mesh(mesh):
    print(f(jnp.arange(16.0)))
