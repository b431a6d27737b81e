"""A round as one compiled JAX function: `lax.scan` over the steps, clients mapped or looped over, one or two devices."""

from __future__ import annotations

from functools import partial

import numpy as np

import with_jax

ENVIRONMENT = "jax"
PACKAGES = ("jax", "jaxlib")
VARIANTS = {"JAX scan, 1 core": {"devices": 1}, "JAX scan, 2 devices": {"devices": 2}}
WORKLOADS = ("w1", "w3", "empty")
SKIPPED = {
    "w2": "XLA's convolutions are very slow inside a scan on CPUs: the first round takes more than 100 s"
}

STACKED = (
    "w1",
    "empty",
)  # stacked convolutions and recurrences are slower than a loop over clients


def compete(work, rounds, devices=1):
    with_jax.cores(devices)
    import jax
    from jax import lax
    from jax import numpy as jnp
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    slope = jax.value_and_grad(with_jax.loss_of(work))
    mesh = Mesh(np.array(jax.devices()[:devices]), ("clients",))
    everywhere, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("clients"))

    def client(p, x, y, index, weight):
        def step(q, now):
            i, w = now
            loss, g = slope(q, x[i], y[i], w)
            return jax.tree.map(lambda a, b: a - work.step * b, q, g), loss

        q, losses = lax.scan(step, p, (index, weight))
        return q, losses.mean()

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=(P(), *[P("clients")] * 5), out_specs=P())
    def mean_of_clients(p, counts, *data):
        p = jax.tree.map(lambda a: lax.pcast(a, "clients", to="varying"), p)
        stacked = work.name in STACKED
        each = (
            jax.vmap(partial(client, p))(*data)
            if stacked
            else lax.map(lambda one: client(p, *one), data)
        )
        total = jax.tree.map(lambda a: jnp.tensordot(counts, a, 1), each)
        return jax.tree.map(lambda a: a / work.clients, lax.psum(total, "clients"))

    clients = -(-work.clients // devices) * devices
    rows = (
        np.arange(clients) % work.clients
    )  # an odd number of clients is filled up with ones that count nothing
    counts = jax.device_put((np.arange(clients) < work.clients).astype(np.float32), split)
    x, y = jax.device_put((work.inputs[rows], work.targets[rows].astype(np.int32)), split)
    p, rng = jax.device_put(with_jax.start_of(work), everywhere), np.random.default_rng(0)
    for done in rounds:
        orders = jax.device_put(with_jax.orders(work, clients, rng), split)
        p, loss = jax.block_until_ready(mean_of_clients(p, counts, x, y, *orders))
        done(batches=work.clients * work.batches, loss=float(loss))
