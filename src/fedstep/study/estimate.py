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
from fedstep.models.text import named_model
from fedstep.spec import build
from fedstep.steps.search import LineSearch
from fedstep.study.plan import Method, Setting, Study

# of one sample, as the loaders give it: nothing need be downloaded for an estimate
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
STEPS_AN_EPOCH = 10  # a guess
SAMPLE_STEPS = 3  # timed; the quickest counts, others were disturbed
LONGEST = 5.0  # seconds spent on them


@dataclass(frozen=True)
class Estimate:
    """Seconds on one core: of a gradient step, of tuning, of all runs."""

    step: float
    tuning: float
    runs: float  # of all methods and seeds

    @property
    def total(self) -> float:
        return self.tuning + self.runs


def estimate(study: Study) -> Estimate:
    """Time gradient steps on samples of the right shape and multiply; evaluation is not counted."""
    setting = study.setting
    step = seconds_a_step(study)
    round_seconds = setting.per_round * _local_steps(setting) * step
    searched = sum(_searches(method) for method in study.methods)
    fixed = len(study.methods) - searched
    # a trial is a forward pass: a third of a gradient step
    methods = fixed + searched * (1 + TRIALS / 3)
    runs = len(study.seeds) * setting.rounds * round_seconds * methods
    grid_points = 0
    for method in study.methods:
        # without a grid there is one candidate, and nothing to tune
        if method.grid:
            grid_points += len(method.candidates())
    tuning = grid_points * study.tuning.rounds * round_seconds
    return Estimate(step, tuning, runs)


def _local_steps(setting: Setting) -> int:
    """Steps of a client and round; what an epoch is depends on the client, so it is a guess."""
    if setting.steps is not None:
        return setting.steps
    return STEPS_AN_EPOCH * (setting.epochs or 0)


def _searches(method: Method) -> bool:
    """Whether the clients' steps cost trials; the grid of a spec does not change that."""
    first = build(method.candidates()[0])
    return isinstance(first.local.step, LineSearch)


def seconds_a_step(study: Study) -> float:
    """The quickest of a few gradient steps on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as the runs have it
    try:
        model = named_model(study.setting.model, 0)
        start = model.init()
        phi = Objective(Context(start, model), _batch(study, start.dtype))
        times = []
        for _ in range(SAMPLE_STEPS):
            clock = perf_counter()
            Autograd()(phi, start)
            times.append(perf_counter() - clock)
            if sum(times) > LONGEST:
                break  # an estimate that takes minutes is not asked for twice
        return min(times)
    finally:
        torch.set_num_threads(before)


def _batch(study: Study, dtype: torch.dtype) -> Batch:
    """Random samples of the right shape: how long a step takes does not depend on their values.

    dtype: the model's, which loaders give to numbers as well.
    """
    size = study.setting.batch
    draw = generator(0, "estimate")
    targets = torch.randint(10, (size,), generator=draw)
    inputs = _inputs(study.setting.data, size, draw)
    if inputs.is_floating_point():
        inputs = inputs.to(dtype)
    return Batch(
        (inputs, targets),
        torch.tensor(1.0),
        torch.tensor(0),
    )


def _inputs(
    data: str,
    size: int,
    draw: torch.Generator,
) -> Tensor:
    if data == "shakespeare":  # characters, not numbers
        return torch.randint(80, (size, 80), generator=draw)
    shape = SHAPES.get(data, (2,))
    return torch.randn(size, *shape, generator=draw)
