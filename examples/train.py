"""A linear model trained on data that is split over all devices."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType

mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))


def batch(key):
    features = jax.random.normal(key, (64, 4), out_sharding="data")
    return features, jnp.einsum("bf,f->b", features, jnp.arange(4.0), out_sharding=("data",))


def loss(weights, features, targets):
    return jnp.mean((features @ weights - targets) ** 2)


@jax.jit
@partial(
    jax.shard_map,
    mesh=mesh,
    in_specs=(jax.P(), jax.P("data"), jax.P("data")),
    out_specs=(jax.P(), jax.P("data")),
)
def step(weights, features, targets):
    local = lax.pcast(weights, "data", to="varying")
    value, gradient = jax.value_and_grad(loss)(local, features, targets)
    return weights - 0.1 * lax.pmean(gradient, "data"), value


if __name__ == "__main__":
    with jax.set_mesh(mesh):
        features, targets = batch(jax.random.key(0))
        weights = jnp.zeros(4)
        for _ in range(50):
            weights, losses = step(weights, features, targets)
            losses.block_until_ready()  # devices that are simulated on few cores lock up with many steps under way
    print("loss on each device:", losses)
