"""The main job in small: a non-IID federated task.

FedAvg at three learning rates against the methods that need none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedstep.core.errors import InputError
from fedstep.core.seeds import generator
from fedstep.data.federation import Federation
from fedstep.data.partition import Dirichlet
from fedstep.data.samples import digits, synthetic
from fedstep.run.record import RoundReport
from fedstep.training import Fit, fit

METHODS = (
    "fedpace",
    # Three rates a decade apart: whoever has to choose one does not know which is right.
    "fedavg(step=0.01)",
    "fedavg(step=0.1)",
    "fedavg(step=1.0)",
    "fedsls",
    "fedexpsls",
)
# Small on purpose: six methods are trained while somebody watches.
CLIENTS = 30
PER_ROUND = 10
ALPHA = 0.3  # of the Dirichlet priors: the smaller, the more the clients differ
BATCH = 32
HIDDEN = 64  # units


@dataclass(frozen=True)
class Problem:
    """Clients, a test set and a model to begin with."""

    name: str  # of the data
    federation: Federation
    test: tuple[Tensor, Tensor]  # inputs and classes that no client has
    model: nn.Module


def problem(data: str = "digits", seed: int = 0) -> Problem:
    """Handwritten digits (scikit-learn's, real images) or generated clusters.

    Dealt to clients by Dirichlet label priors.
    """
    makers = {"digits": digits, "synthetic": synthetic}
    if data not in makers:
        raise InputError(f"--data {data}: choose {' or '.join(makers)}")
    x, y = makers[data](seed)
    # A stream of its own: the test set stays the same when something else draws more.
    split = generator(seed, "demo split")
    order = torch.randperm(len(y), generator=split)
    fifth = len(y) // 5
    train = order[fifth:]
    held = order[:fifth]
    deal = Dirichlet(ALPHA, CLIENTS)
    parts = deal(y[train].numpy(), seed)
    classes = int(y.max()) + 1
    return Problem(
        name=data,
        federation=Federation((x[train], y[train]), parts),
        test=(x[held], y[held]),
        model=demo_network(x.shape[1], classes, seed),
    )


def demo_network(inputs: int, classes: int, seed: int) -> nn.Module:
    """A small network whose start depends on the seed alone."""
    # torch's layers draw from the global generator: it is put back as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(inputs, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, classes),
        )


def run_demo(
    task: Problem,
    method: str,
    rounds: int,
    seed: int,
    on_round: Callable[[RoundReport], None] | None = None,
) -> Fit:
    """One method on the task."""
    return fit(
        task.model,
        task.federation,
        method,
        rounds,
        PER_ROUND,
        test=task.test,
        seed=seed,
        batch=BATCH,
        guard=False,  # no paper has a guard: nobody is hostile here
        # The command shows all methods on one board; a bar for each would break it.
        progress=False,
        on_round=on_round,
    )
