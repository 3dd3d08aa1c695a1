import jax
import numpy as np
from jax.sharding import Mesh

mesh = Mesh(np.array(jax.devices()).reshape(4, 4), ("data", "model"))
print(mesh.shape)
