"""Google's FedJAX: its federated averaging with the jit backend, on one core.

Its batches run over the ends of passes, so 100 steps see 100 full batches where the others see 80 full and 20 short ones; the
number of steps is the same. Its algorithm returns no losses: the loss given is that of the model after the round.
"""

from __future__ import annotations

import numpy as np

import with_jax

ENVIRONMENT = "fedjax"
PACKAGES = ("fedjax", "jax", "jaxlib")
VARIANTS = {"FedJAX": {}}
WORKLOADS = ("w1", "empty")


def compete(work, rounds):
    with_jax.cores(1)
    import fedjax
    import jax
    from fedjax.algorithms import fed_avg

    mean = with_jax.loss_of(work)

    def slope(p, batch, rng):
        return jax.grad(mean)(p, batch["x"], batch["y"], np.ones(len(batch["y"]), np.float32))

    data = fedjax.InMemoryFederatedData(
        {
            str(k): {"x": x, "y": y}
            for k, (x, y) in enumerate(zip(work.inputs, work.targets, strict=True))
        }
    )
    plan = fedjax.ShuffleRepeatBatchHParams(
        batch_size=work.batch, num_epochs=None, num_steps=work.batches, seed=0
    )
    sgd = fedjax.optimizers.sgd
    algorithm = fed_avg.federated_averaging(slope, sgd(work.step), sgd(1.0), plan)
    sampler = fedjax.client_samplers.UniformGetClientSampler(data, num_clients=work.clients, seed=0)
    x, y = (a.reshape(-1, *a.shape[2:]) for a in (work.inputs, work.targets))
    loss_of = jax.jit(mean)
    state = algorithm.init(with_jax.start_of(work))
    for done in rounds:
        state, _ = algorithm.apply(state, sampler.sample())
        p = jax.block_until_ready(state.params)
        done(
            batches=work.clients * work.batches,
            after=lambda p=p: float(loss_of(p, x, y, np.float32(y >= 0))),
        )
