import jax
import numpy as np
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("i",))
data = np.arange(16.0)
print(jax.make_array_from_callback((16,), P("i"), lambda index: data[index]).sharding)
