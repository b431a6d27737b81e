"""The stochastic Armijo search of JAXopt (ArmijoSGD), scanned over the steps and looped over the clients; one core.

Its settings are those of the other searches: from 10 on, factor 0.9, c = 0.1, growth 2^(batch / samples). It counts no trials.
"""

from __future__ import annotations

import numpy as np

import with_jax

ENVIRONMENT = "jax"
PACKAGES = ("jaxopt", "jax", "jaxlib")
VARIANTS = {"JAXopt ArmijoSGD": {}}
WORKLOADS = ("w1",)


def compete(work, rounds):
    with_jax.cores(1)
    import jax
    import jaxopt
    from jax import lax

    optimizer = jaxopt.ArmijoSGD(
        with_jax.loss_of(work),
        aggressiveness=0.9,  # c = 1 - aggressiveness
        decrease_factor=0.9,
        increase_factor=2 ** (work.batch / work.samples),
        reset_option="increase",
        max_stepsize=10.0,
        maxls=100,
        maxiter=work.batches,
        tol=0.0,
    )

    @jax.jit
    def mean_of_clients(p, *data):
        def client(one):
            x, y, index, weight = one

            def step(now, batch):
                i, w = batch
                following = optimizer.update(*now, x[i], y[i], w)
                return tuple(following), following.state.value

            first = p, optimizer.init_state(p, x[index[0]], y[index[0]], weight[0])
            (q, _), losses = lax.scan(step, first, (index, weight))
            return q, losses.mean()

        return jax.tree.map(lambda a: a.mean(0), lax.map(client, data))

    x, y = jax.device_put((work.inputs, work.targets.astype(np.int32)))
    p, rng = with_jax.start_of(work), np.random.default_rng(0)
    for done in rounds:
        orders = with_jax.orders(work, work.clients, rng)
        p, loss = jax.block_until_ready(mean_of_clients(p, x, y, *orders))
        done(batches=work.clients * work.batches, loss=float(loss))
