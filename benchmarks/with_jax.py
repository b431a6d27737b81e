"""The workload as JAX sees it, for all competitors that are built on JAX."""

from __future__ import annotations

import os
from importlib import import_module
from math import ceil

import jax
import numpy as np
from jax import numpy as jnp

from work import Work


def cores(count: int) -> None:
    """As many devices as cores to be used; to be called before JAX is used.

    One core: XLA's thread pool is as wide as the affinity mask it finds, so the process is bound to one processor.
    """
    if count == 1:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    else:
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={count}"


def start_of(work: Work) -> dict[str, jax.Array]:
    return {name: jnp.asarray(value) for name, value in work.start.items()}


def loss_of(work: Work):
    """Mean cross-entropy as a function of (parameters, inputs, targets, weights); the weight of padding is 0."""
    logits = import_module(f"workloads.{work.name}").logits

    def loss(p, x, y, weight):
        each = -jnp.take_along_axis(jax.nn.log_softmax(logits(p, x)), y[:, None], axis=1)[:, 0]
        return (weight * each).sum() / weight.sum()

    return loss


def orders(work: Work, clients: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Shuffled sample numbers (clients, batches, batch) of a round, and weights that are 0 where a batch is padded."""
    each_pass = ceil(work.samples / work.batch)
    padded = each_pass * work.batch
    order = rng.permuted(
        np.broadcast_to(np.arange(work.samples), (clients, work.epochs, work.samples)), axis=-1
    )
    index = np.zeros((clients, work.epochs, padded), np.int32)
    index[..., : work.samples] = order
    weight = np.broadcast_to(np.arange(padded) < work.samples, index.shape)
    shape = clients, work.epochs * each_pass, work.batch
    return index.reshape(shape), weight.reshape(shape).astype(np.float32)
