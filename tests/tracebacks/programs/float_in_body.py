import os
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
import functools
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))

def f(x):
    return float(x.sum())
print(jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P())(jnp.arange(16.0)))
