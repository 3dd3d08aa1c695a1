import os
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
import functools
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))

def per_shard_loss(w, x):
    return jnp.mean((w * x) ** 2)
sharded = jax.shard_map(per_shard_loss, mesh=mesh, in_specs=(P(), P("i")), out_specs=P("i"))
print(jax.grad(lambda w: sharded(w, jnp.arange(16.0)).mean())(3.0))
