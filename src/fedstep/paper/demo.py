"""The main job in small: a non-IID federated task, FedAvg at three learning rates against the methods that need none."""

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

METHODS = ("fedavg(step=0.01)", "fedavg(step=0.1)", "fedavg(step=1.0)", "fedsls", "fedexpsls")
CLIENTS, PER_ROUND, ALPHA, BATCH, HIDDEN = 30, 10, 0.3, 32, 64


@dataclass(frozen=True)
class Problem:
    """Clients, a test set and a model to begin with."""

    name: str
    federation: Federation
    test: tuple[Tensor, Tensor]
    model: nn.Module


def problem(data: str = "digits", seed: int = 0) -> Problem:
    """Handwritten digits (scikit-learn's, real images) or generated clusters, dealt to clients by Dirichlet label priors."""
    makers = {"digits": digits, "synthetic": synthetic}
    if data not in makers:
        raise InputError(f"--data {data}: choose {' or '.join(makers)}")
    x, y = makers[data](seed)
    order = torch.randperm(len(y), generator=generator(seed, "demo split"))
    train, held = order[len(y) // 5 :], order[: len(y) // 5]
    parts = Dirichlet(ALPHA, CLIENTS)(y[train].numpy(), seed)
    federation = Federation((x[train], y[train]), parts)
    return Problem(data, federation, (x[held], y[held]), mlp(x.shape[1], int(y.max()) + 1, seed))


def mlp(inputs: int, classes: int, seed: int) -> nn.Module:
    """A small network whose start depends on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))


def run(
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
        progress=False,
        on_round=on_round,
    )
