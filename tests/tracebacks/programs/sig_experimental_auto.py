import os
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
import functools
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)

from jax.experimental.shard_map import shard_map
g = shard_map(lambda x: x, mesh, in_specs=P("i"), out_specs=P("i"), auto=frozenset({"j"}))
