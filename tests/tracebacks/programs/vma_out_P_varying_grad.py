import os
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
import functools
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))

def total(w, x):
    return (w * x).sum()
f = jax.shard_map(total, mesh=mesh, in_specs=(P(), P("i")), out_specs=P())
print(jax.grad(f)(2.0, jnp.arange(16.0)))
