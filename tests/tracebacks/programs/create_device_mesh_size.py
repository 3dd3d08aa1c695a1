import jax
from jax.experimental import mesh_utils
from jax.sharding import Mesh

mesh = Mesh(mesh_utils.create_device_mesh((4, 4)), ("data", "model"))
print(mesh.shape)
