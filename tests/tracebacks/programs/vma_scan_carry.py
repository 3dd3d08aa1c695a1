import os
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
import functools
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))

def body(x):
    def step(carry, t):
        a, b = carry
        return (a + x.sum(), b + x), t
    init = (0.0, jnp.zeros(2))
    return jax.lax.scan(step, init, jnp.arange(3))[0][1]
f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
print(f(jnp.arange(16.0)))
