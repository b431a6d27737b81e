"""What a study would cost here, from a few measured steps."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from fedstep.core.seeds import generator
from fedstep.core.types import Batch, Context
from fedstep.local.objective import Objective
from fedstep.local.oracles import Autograd
from fedstep.models.named import named
from fedstep.spec import build
from fedstep.steps.search import LineSearch
from fedstep.study.plan import Method, Study

SHAPES = {
    "femnist": (784,),
    "femnist-ink": (784,),
    "mnist": (784,),
    "cifar10": (3, 32, 32),
    "cifar100": (3, 32, 32),
    "digits": (64,),
    "synthetic": (40,),
}
TRIALS = 2.0  # a searched step, over a whole run


@dataclass(frozen=True)
class Estimate:
    """Seconds on one core: of a gradient step, of tuning, of all runs."""

    step: float
    tuning: float
    runs: float

    @property
    def total(self) -> float:
        return self.tuning + self.runs


def estimate(study: Study) -> Estimate:
    """Time gradient steps on samples of the right shape and multiply; evaluation is not counted."""
    s = study.setting
    step = seconds_a_step(study)
    local = s.steps if s.steps is not None else 10 * (s.epochs or 0)
    rounds = s.per_round * local * step
    searched = sum(_searches(method) for method in study.methods)
    fixed = len(study.methods) - searched
    runs = len(study.seeds) * s.rounds * rounds * (fixed + searched * (1 + TRIALS / 3))
    points = sum(len(m.candidates()) for m in study.methods if m.grid)
    return Estimate(step, points * study.tuning.rounds * rounds, runs)


def _searches(method: Method) -> bool:
    """Whether the clients' steps cost trials; the grid of a spec does not change that."""
    return isinstance(build(method.candidates()[0]).local.step, LineSearch)


def seconds_a_step(study: Study) -> float:
    """The quickest of a few gradient steps on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = named(study.setting.model, 0)
        phi = Objective(Context(model.init(), model), _batch(study))
        times = []
        for _ in range(3):
            clock = perf_counter()
            Autograd()(phi, model.init())
            times.append(perf_counter() - clock)
            if sum(times) > 5:
                break
        return min(times)
    finally:
        torch.set_num_threads(before)


def _batch(study: Study) -> Batch:
    n, g = study.setting.batch, generator(0, "estimate")
    targets = torch.randint(10, (n,), generator=g)
    if study.setting.data == "shakespeare":
        inputs: Tensor = torch.randint(80, (n, 80), generator=g)
    else:
        inputs = torch.randn(n, *SHAPES.get(study.setting.data, (2,)), generator=g)
    return Batch((inputs, targets), torch.tensor(1.0), torch.tensor(0))
