import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def build_mesh():
    return jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))


def apply(x):
    return jax.shard_map(jnp.square, in_specs=P("i"), out_specs=P("i"))(x)


if __name__ == "__main__":
    mesh = build_mesh()
    print(apply(jnp.arange(16.0)).shape)
