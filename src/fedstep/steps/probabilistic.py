"""A line search that knows that values and slopes are noisy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec, dot, norm_sq, scale
from fedstep.steps.belief import Belief, Observation
from fedstep.steps.rule import Outcome, PassCounter, Phi, StepRule
from fedstep.steps.search import ZERO_GRADIENT


@dataclass(frozen=True)
class NoisyValue:
    """phi and its slope along d, as means over a batch, and the variances of both means."""

    value: Scalar
    slope: Scalar
    value_variance: Scalar
    slope_variance: Scalar


@runtime_checkable
class Noisy(Phi, Protocol):
    """A client's function that knows how much its samples disagree."""

    @property
    def work(self) -> PassCounter: ...

    def rows(self, index: Tensor) -> Noisy: ...

    def noisy(
        self,
        x: Vec,
        d: Vec,
    ) -> NoisyValue: ...


@dataclass(frozen=True)
class ProbabilisticSearch(StepRule):
    """Accept a step that satisfies the Wolfe conditions with enough probability.

        P(f(x + eta d) <= f(x) + c1 eta <g, d>
          and |<grad f(x + eta d), d>| <= c2 |<g, d>|) > threshold

    f is the loss of which the batch is a sample (Mahsereci and Hennig, 2015). Values and slopes
    along d, with variances from the samples of the batch, are joined by a Gaussian process; the
    next trial is the candidate with the largest expected improvement times probability. The first
    trial is the last step times `grow`, unless that is `wild` times off the running mean of steps
    (memory `mean`). When the trials are used up the one with the lowest posterior mean is taken;
    if that is x itself, the search has failed.

    The process takes the noise of the trials for independent; here they share a batch, so that
    the noise of their differences is smaller and the search more cautious than it need be. Its
    loop is its own: trials are chosen by the belief, not by a grid. Cost: a trial is one forward
    and two backward passes (the slope of every sample), and so is the noise at x, besides its
    gradient. The model must give the loss of every sample. A batch of one sample counts as free
    of noise.
    """

    c1: float = 0.05  # of the decrease that the slope promises
    c2: float = 0.5  # of the slope, that may remain
    threshold: float = 0.3  # probability from which a trial is accepted
    trials: int = 7  # at most, in one search
    start: float = 0.1  # first trial of a round
    max_step: float = inf  # no trial is longer
    grow: float = 1.3  # from the last step to the next first trial
    wild: float = 100.0  # factor off the usual step that is not believed
    mean: float = 0.95  # memory of the usual step
    carry: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.c1 < self.c2 < 1:
            raise InputError(
                f"ProbabilisticSearch(c1={self.c1}, c2={self.c2}): need 0 < c1 < c2 < 1; "
                "try 0.05 and 0.5"
            )
        if not 0 < self.threshold < 1:
            raise InputError(
                f"ProbabilisticSearch(threshold={self.threshold}): must lie in (0, 1); try 0.3"
            )
        if self.trials < 1 or not 0 < self.start <= self.max_step:
            raise InputError(
                f"ProbabilisticSearch(trials={self.trials}, start={self.start}, "
                f"max_step={self.max_step}): at least one trial, and a start in (0, max_step]"
            )
        if not (self.grow > 0 and self.wild > 1 and 0 <= self.mean < 1):
            raise InputError(
                f"ProbabilisticSearch(grow={self.grow}, wild={self.wild}, mean={self.mean}): "
                "grow must be positive, wild above 1, mean in [0, 1)"
            )

    def init(self, x: Vec) -> NewState:
        start = x.new_full(x.shape[:-1], self.start)
        return {"first": start, "usual": start}

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        if not isinstance(phi, Noisy):
            raise InputError(
                "ProbabilisticSearch needs the loss of every sample: use it in a LocalSolver"
            )
        slope = dot(g, d)
        usable = torch.isfinite(f) & torch.isfinite(slope)
        still = usable & (norm_sq(g) < ZERO_GRADIENT**2)
        begin = usable & ~still & (slope < 0)
        step, trials = self._walk(
            phi,
            x,
            d,
            state["first"],
            begin,
        )
        failed = ~still & (step == 0)

        moved = step > 0
        usual = self.mean * state["usual"] + (1 - self.mean) * step
        usual = torch.where(moved, usual, state["usual"])
        unmoved = torch.where(still, state["first"], usual)
        first = torch.where(moved, self.grow * step, unmoved)
        # one lucky or unlucky batch must not send the next search to another order of magnitude
        tame = (first <= self.wild * usual) & (first >= usual / self.wild)
        first = torch.where(tame, first, usual).clamp(max=self.max_step)
        return Outcome(step, trials, failed), {"first": first, "usual": usual}

    def _walk(
        self,
        phi: Noisy,
        x: Vec,
        d: Vec,
        first: Scalar,
        begin: Tensor,
    ) -> tuple[Scalar, Tensor]:
        """Steps and numbers of trials of a block, whose clients make their trials together.

        Each has its own belief, in units of its first trial and its first slope.
        """
        units = first.reshape(-1).double().tolist()
        searching = begin.reshape(-1).nonzero().squeeze(-1).tolist()
        at_x = _probe(
            phi,
            x,
            d,
            dict.fromkeys(searching, 0.0),
        )
        phi.work.add(len(searching), 1, 2)
        walks = {}
        for i, probe in at_x.items():
            if probe.slope < 0:
                walks[i] = _Walk(units[i], probe)

        for _ in range(self.trials):
            trials = {i: walk.eta for i, walk in walks.items() if walk.step is None}
            if not trials:
                break
            phi.work.add(len(trials), 0, 2)
            for i, probe in _probe(
                phi,
                x,
                d,
                trials,
            ).items():
                walks[i].observe(self, probe)

        steps = torch.zeros_like(first).reshape(-1)
        counts = torch.zeros_like(first, dtype=torch.int64).reshape(-1)
        for i, walk in walks.items():
            steps[i] = walk.best()
            counts[i] = walk.trials
        return steps.reshape(first.shape), counts.reshape(first.shape)


class _Probe(NamedTuple):
    """`NoisyValue` of one client, as plain numbers."""

    value: float
    slope: float
    value_variance: float
    slope_variance: float


def _probe(
    phi: Noisy,
    x: Vec,
    d: Vec,
    steps: Mapping[int, float],
) -> dict[int, _Probe]:
    """Value, slope and their variances of some rows of a block, each at its own step."""
    if not steps:
        return {}
    eta = torch.tensor(list(steps.values()), dtype=x.dtype, device=x.device)
    if x.dim() > 1:
        rows = torch.tensor(list(steps), device=x.device)
        phi = phi.rows(rows)
        x = x[rows]
        d = d[rows]
    noisy = phi.noisy(x + scale(eta.reshape(x.shape[:-1]), d), d)
    columns = (noisy.value, noisy.slope, noisy.value_variance, noisy.slope_variance)
    numbers = torch.stack([column.reshape(-1).double() for column in columns], -1)
    return {i: _Probe(*row) for i, row in zip(steps, numbers.tolist(), strict=True)}


class _Walk:
    """One client's search: its belief, where it looks next, and the step it has settled on."""

    def __init__(
        self,
        unit: float,
        at_x: _Probe,
    ) -> None:
        self.unit = unit
        self.value = at_x.value
        self.slope = -at_x.slope
        self.belief = Belief.of(
            Observation(
                t=0.0,
                y=0.0,
                dy=-1.0,
                var_y=at_x.value_variance / (unit * at_x.slope) ** 2,
                var_dy=at_x.slope_variance / at_x.slope**2,
            )
        )
        self.next = 1.0
        self.beyond = 1.0
        self.trials = 0
        self.step: float | None = None

    @property
    def eta(self) -> float:
        """The next trial."""
        return self.next * self.unit

    def observe(
        self,
        rule: ProbabilisticSearch,
        probe: _Probe,
    ) -> None:
        """Take in a trial, and settle or look for the next one."""
        self.trials += 1
        if not all(map(isfinite, probe)):
            self.next /= 10  # too long for the loss to be a number
            return
        height = self.unit * self.slope
        self.belief = self.belief.observe(
            Observation(
                t=self.next,
                y=(probe.value - self.value) / height,
                dy=probe.slope / self.slope,
                var_y=probe.value_variance / height**2,
                var_dy=probe.slope_variance / self.slope**2,
            )
        )
        # a new trial can change the mind about an old one; the newest comes first
        for t in reversed(self.belief.t.tolist()[1:]):
            if self.belief.wolfe(t, rule.c1, rule.c2) > rule.threshold:
                self.step = t * self.unit
                return
        self._look_further(rule)

    def _look_further(self, rule: ProbabilisticSearch) -> None:
        places = self.belief.candidates(self.beyond)
        worth = []
        for t in places:
            probability = self.belief.wolfe(t, rule.c1, rule.c2)
            worth.append(self.belief.improvement(t) * probability)
        best = max(range(len(places)), key=worth.__getitem__)
        # the last candidate lies beyond all trials: if it was chosen, look further the next time
        if best == len(places) - 1:
            self.beyond *= 2
        self.next = min(places[best], rule.max_step / self.unit)

    def best(self) -> float:
        """The step settled on, or the trial with the lowest posterior mean; 0: x itself."""
        if self.step is not None:
            return self.step
        t, _ = self.belief.lowest()
        return t * self.unit
