"""A small Flower app, its functions at module level: simulation pickles them."""

from __future__ import annotations

from fakes import PLAN, SEED, SIZES, clients, model

from fedstep.flower import FedStep

SETTINGS = dict(per_round=4, seed=SEED, batch=PLAN.batch, local_steps=PLAN.steps, patience=0.0)


def make(context):
    """One client a node."""
    number = int(context.node_config["partition-id"])
    return model(), {number: clients()[number]}


def make_several(context):
    """Node k of n has the clients k, k + n, ..."""
    first = int(context.node_config["partition-id"])
    step = int(context.node_config["num-partitions"])
    data = clients()
    return model(), {number: data[number] for number in range(first, len(SIZES), step)}


def strategy(method, **changes):
    return FedStep(
        method, model(), **{**SETTINGS, "fraction_evaluate": 0.0, "guard": False, **changes}
    )
