"""What is varied in the answers of docs/evidence.md: one thing at a time, on digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from problems import Problem, Samples, digits, network
from torch import Tensor, nn
from torch.nn import functional

from fedstep.algorithm import Algorithm
from fedstep.spec import build
from fedstep.steps.common import CommonStep

# 8 x 8 pixels, one hidden layer, skewed labels: a run takes seconds
BASE = Problem("base", digits(), widths=(64,), rounds=40)
DEEP = replace(BASE, widths=(64, 64, 64, 64), rounds=80)
# every second one is a power of ten
STEPS = (
    *(0.0001, 0.000316, 0.001, 0.00316),
    *(0.01, 0.0316, 0.1, 0.316, 1.0, 3.16, 10.0),
    *(31.6, 100.0, 316.0, 1000.0),
)
DECADES = STEPS[::2]
IID = 100.0  # where the axis of the Dirichlet parameter ends: clients with equal shares

FEDPACE = "fedpace"
FEDSLS = "fedsls"
FEDADAM = "fedadam(step={step:g}, server_step={server_step:g}, tau=0.001)"
FEDAVG = "fedavg(step={step:g})"


@dataclass(frozen=True)
class Point:
    """A task of a question and its place on the axis."""

    at: float
    problem: Problem


@dataclass(frozen=True)
class Question:
    """Something that is varied."""

    name: str
    axis: str
    points: tuple[Point, ...]
    note: str = ""


def _points(values: dict[float, Problem]) -> tuple[Point, ...]:
    return tuple(Point(at, problem) for at, problem in values.items())


def _heterogeneity() -> Question:
    points = {alpha: replace(BASE, alpha=alpha) for alpha in (0.03, 0.1, 0.3, 1.0)}
    points[IID] = replace(BASE, alpha=None)
    return Question("heterogeneity", "Dirichlet parameter (100: i.i.d.)", _points(points))


def _participation() -> Question:
    many = replace(BASE, clients=100, steps=5)  # fewer steps: all of them at once take long
    points = {float(share): replace(many, per_round=share) for share in (1, 5, 20, 100)}
    return Question("participation", "clients in a round, % of 100", _points(points))


def _local_steps() -> Question:
    short = replace(BASE, rounds=25)
    points = {float(steps): replace(short, steps=steps) for steps in (1, 5, 20, 100)}
    return Question("local steps", "local steps", _points(points))


def _batch() -> Question:
    points = {float(batch): replace(BASE, batch=batch) for batch in (1, 2, 8, 32, 128)}
    return Question("batch", "samples of a batch", _points(points))


def _scale() -> Question:
    scales = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
    points = {scale: replace(BASE, samples=digits(scale)) for scale in scales}
    return Question("scale", "factor on all inputs", _points(points))


SWEEPS = (_heterogeneity(), _participation(), _local_steps(), _batch(), _scale())


@dataclass(frozen=True)
class Knob:
    """A setting of a method, and the values that it is given: `centre` times every factor."""

    name: str
    spec: Callable[[float], str]
    centre: float


FACTORS = tuple(10 ** (k / 2) for k in range(-4, 5))  # 0.01 to 100


FIRST_STEP = "fedpace, first step "


def built(method: str) -> str | Algorithm:
    """What `fit` takes: the text, or fedpace with another first step, which has no text."""
    if not method.startswith(FIRST_STEP):
        return method
    algorithm = build(FEDPACE)
    step = algorithm.local.step
    assert isinstance(step, CommonStep)
    begun = replace(step, first=float(method.removeprefix(FIRST_STEP)))
    return replace(algorithm, local=replace(algorithm.local, step=begun))


def knobs(step: float, adam_step: float, server_step: float) -> tuple[Knob, ...]:
    """Every setting around the best value that the base task has for it, or its default."""
    return (
        Knob("FedAvg: step", lambda v: f"fedavg(step={v:.4g})", step),
        Knob("SCAFFOLD: step", lambda v: f"scaffold(step={v:.4g})", step),
        Knob("FedExP: step", lambda v: f"fedexp(step={v:.4g})", step),
        Knob(
            "FedAdam: client step",
            lambda v: f"fedadam(step={v:.4g}, server_step={server_step:g}, tau=0.001)",
            adam_step,
        ),
        Knob(
            "FedAdam: server step",
            lambda v: f"fedadam(step={adam_step:g}, server_step={v:.4g}, tau=0.001)",
            server_step,
        ),
        Knob("FedSLS: max_step", lambda v: f"fedsls(max_step={v:.4g})", 1.0),
        Knob("FedPace: first step", lambda v: f"{FIRST_STEP}{v:.4g}", 0.01),
        Knob("FedPace: tau", lambda v: f"fedpace(tau={v:.4g})", 0.1),
        Knob("FedPace: gain", lambda v: f"fedpace(gain={v:.4g})", 0.5),
    )


@dataclass(frozen=True)
class Setting:
    """An argument of fedpace: two values below its default and two above."""

    name: str
    below: tuple[float, float]
    default: float
    above: tuple[float, float]

    @property
    def values(self) -> tuple[float, ...]:
        return (*self.below, self.default, *self.above)

    def method(self, value: float) -> str:
        """The default is the method as it is, so all settings share its runs."""
        if value == self.default:
            return FEDPACE
        return f"fedpace({self.name}={value:g})"


# all that fedpace can be told; FACTORS would lead out of where most of them may lie
SETTINGS = (
    Setting("aim", (0.1, 0.2), 0.3, (0.45, 0.6)),
    Setting("gain", (0.1, 0.25), 0.5, (1.0, 2.0)),
    Setting("memory", (0.5, 0.8), 0.9, (0.95, 0.98)),
    Setting("tau", (0.01, 0.03), 0.1, (0.3, 1.0)),
    Setting("beta", (0.0, 0.25), 0.5, (0.7, 0.9)),
    Setting("most", (1.0, 2.0), 4.0, (8.0, 16.0)),
    Setting("average", (1.0, 3.0), 8.0, (20.0, 50.0)),
)
# by the name of the question
SETTING_TASKS = {"settings": BASE, "settings, deep": DEEP}


def halves(samples: Samples, seed: int) -> tuple[Samples, Samples]:
    """Two halves of the samples, drawn by the seed."""
    x, y = samples
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(2000 + seed))
    first, second = order.chunk(2)
    return (x[first], y[first]), (x[second], y[second])


def pretrained(seed: int, epochs: int = 60) -> nn.Module:
    """A network that was trained in one place, on the half of the digits that no client has; its
    last layer begins anew.
    """
    (x, y), _ = halves(digits()(), seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network(x.shape[1], 64, 10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(epochs):
            for batch in torch.randperm(len(y)).split(64):
                _sgd_step(model, optimizer, x[batch], y[batch])
        last = list(model.children())[-1]
        assert isinstance(last, nn.Linear)
        last.reset_parameters()
    return model


def _sgd_step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    optimizer.zero_grad()
    functional.cross_entropy(model(x), y).backward()
    optimizer.step()
