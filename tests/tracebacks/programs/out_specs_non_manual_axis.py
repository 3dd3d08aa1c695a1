import os
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
import functools
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)

g = jax.jit(jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("i"), out_specs=P("i", "j"), axis_names={"i"}))
print(g(jnp.ones((8, 8))))
