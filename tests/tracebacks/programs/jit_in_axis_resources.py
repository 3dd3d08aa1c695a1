import os
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
import functools
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

from jax.experimental.pjit import pjit
f = pjit(lambda x: x, in_axis_resources=P("i"), out_axis_resources=P("i"))
