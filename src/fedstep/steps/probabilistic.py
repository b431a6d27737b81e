"""A line search that knows that values and slopes are noisy."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar, State, Vec, dot, norm_sq, scale
from fedstep.steps.adaptive import Counter
from fedstep.steps.belief import Belief
from fedstep.steps.rule import Outcome, Phi, StepRule
from fedstep.steps.search import ZERO_GRADIENT


@runtime_checkable
class Noisy(Phi, Protocol):
    """A client's function that knows how much its samples disagree."""

    @property
    def work(self) -> Counter: ...
    def rows(self, index: Tensor) -> Noisy: ...
    def noisy(self, x: Vec, d: Vec) -> tuple[Scalar, Scalar, Scalar, Scalar]:
        """Value and slope along d, and the variances of both means."""
        ...


@dataclass(frozen=True)
class ProbabilisticSearch(StepRule):
    """Accept a step that satisfies the Wolfe conditions with enough probability (Mahsereci and Hennig, 2015).

        P(f(x + eta d) <= f(x) + c1 eta <g, d>  and  |<grad f(x + eta d), d>| <= c2 |<g, d>|) > threshold

    f is the loss of which the batch is a sample. Values and slopes along d, with variances from the samples of the batch, are
    joined by a Gaussian process; the next trial is the candidate with the largest expected improvement times probability. The
    first trial is the last step times `grow`, unless that is `wild` times off the running mean of steps (memory `mean`). When the
    trials are used up the one with the lowest posterior mean is taken; if that is x itself, the search has failed.

    The process takes the noise of the trials for independent; here they share a batch, so that the noise of their differences is
    smaller and the search more cautious than it need be. Its loop is its own: trials are chosen by the belief, not by a grid.
    Cost: a trial is one forward and two backward passes (the slope of every sample), and so is the noise at x, besides its
    gradient. The model must give the loss of every sample. A batch of one sample counts as free of noise.
    """

    c1: float = 0.05
    c2: float = 0.5
    threshold: float = 0.3
    trials: int = 7
    start: float = 0.1
    max_step: float = inf
    grow: float = 1.3
    wild: float = 100.0
    mean: float = 0.95
    carry: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.c1 < self.c2 < 1:
            raise InputError(
                f"ProbabilisticSearch(c1={self.c1}, c2={self.c2}): need 0 < c1 < c2 < 1; try 0.05 and 0.5"
            )
        if not 0 < self.threshold < 1:
            raise InputError(
                f"ProbabilisticSearch(threshold={self.threshold}): must lie in (0, 1); try 0.3"
            )
        if self.trials < 1 or not 0 < self.start <= self.max_step:
            raise InputError(
                f"ProbabilisticSearch(trials={self.trials}, start={self.start}, max_step={self.max_step}): "
                "at least one trial, and a start in (0, max_step]"
            )
        if not (self.grow > 0 and self.wild > 1 and 0 <= self.mean < 1):
            raise InputError(
                f"ProbabilisticSearch(grow={self.grow}, wild={self.wild}, mean={self.mean}): "
                "grow must be positive, wild above 1, mean in [0, 1)"
            )

    def init(self, x: Vec) -> dict[str, Tensor]:
        start = x.new_full(x.shape[:-1], self.start)
        return {"first": start, "usual": start}

    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, dict[str, Tensor]]:
        if not isinstance(phi, Noisy):
            raise InputError(
                "ProbabilisticSearch needs the loss of every sample: use it in a LocalSolver"
            )
        slope = dot(g, d)
        usable = torch.isfinite(f) & torch.isfinite(slope)
        still = usable & (norm_sq(g) < ZERO_GRADIENT**2)
        begin = usable & ~still & (slope < 0)
        step, trials = self._walk(phi, x, d, state["first"], begin)
        failed = ~still & (step == 0)

        usual = torch.where(
            step > 0, self.mean * state["usual"] + (1 - self.mean) * step, state["usual"]
        )
        first = torch.where(step > 0, self.grow * step, torch.where(still, state["first"], usual))
        tame = (first <= self.wild * usual) & (first >= usual / self.wild)
        first = torch.where(tame, first, usual).clamp(max=self.max_step)
        return Outcome(step, trials, failed), {"first": first, "usual": usual}

    def _walk(
        self, phi: Noisy, x: Vec, d: Vec, first: Scalar, begin: Tensor
    ) -> tuple[Scalar, Tensor]:
        """All clients of a block in step; each has its own belief, in units of its first trial and first slope."""
        step, trials = torch.zeros_like(first), torch.zeros_like(first, dtype=torch.int64)
        going = begin.reshape(-1).nonzero().squeeze(-1).tolist()
        unit = first.reshape(-1).double().tolist()
        lines = dict(zip(going, self._probe(phi, x, d, dict.fromkeys(going, 0.0)), strict=True))
        phi.work.add(len(going), 1, 2)
        walks = {i: _Walk(unit[i], *seen) for i, seen in lines.items() if seen[1] < 0}
        found, count = step.reshape(-1), trials.reshape(-1)
        for _ in range(self.trials):
            live = {i: walk.eta for i, walk in walks.items() if walk.step is None}
            if not live:
                break
            phi.work.add(len(live), 0, 2)
            for i, seen in zip(live, self._probe(phi, x, d, live), strict=True):
                walks[i].see(self, *seen)
                count[i] += 1
        for i, walk in walks.items():
            found[i] = walk.lowest() if walk.step is None else walk.step
        return found.reshape(step.shape), count.reshape(trials.shape)

    def _probe(
        self, phi: Noisy, x: Vec, d: Vec, at: dict[int, float]
    ) -> list[tuple[float, float, float, float]]:
        """Value, slope and their variances of some rows, each at its own step."""
        if not at:
            return []
        eta = torch.tensor(list(at.values()), dtype=x.dtype, device=x.device)
        if x.dim() > 1:
            rows = torch.tensor(list(at), device=x.device)
            phi, x, d = phi.rows(rows), x[rows], d[rows]
        seen = phi.noisy(x + scale(eta.reshape(x.shape[:-1]), d), d)
        return list(zip(*(s.reshape(-1).double().tolist() for s in seen), strict=True))


class _Walk:
    """One client's search: what it believes, where it looks next, and the step it has settled on."""

    def __init__(self, unit: float, f: float, slope: float, var_f: float, var_slope: float) -> None:
        self.unit, self.f, self.slope = unit, f, -slope
        self.belief = Belief.of((0.0, 0.0, -1.0, var_f / (unit * slope) ** 2, var_slope / slope**2))
        self.next, self.beyond = 1.0, 1.0
        self.step: float | None = None

    @property
    def eta(self) -> float:
        return self.next * self.unit

    def see(
        self, rule: ProbabilisticSearch, f: float, slope: float, var_f: float, var_slope: float
    ) -> None:
        """Take in a trial, and settle or look for the next one."""
        if not all(map(isfinite, (f, slope, var_f, var_slope))):
            self.next /= 10  # too long for the loss to be a number
            return
        y, height = (f - self.f) / (self.unit * self.slope), (self.unit * self.slope) ** 2
        self.belief = self.belief.observe(
            self.next, y, slope / self.slope, var_f / height, var_slope / self.slope**2
        )  # fmt: skip
        for t in reversed(
            self.belief.t.tolist()[1:]
        ):  # a new trial can change the mind about an old one
            if self.belief.wolfe(t, rule.c1, rule.c2) > rule.threshold:
                self.step = t * self.unit
                return
        places = self.belief.candidates(self.beyond)
        worth = [
            self.belief.improvement(t) * self.belief.wolfe(t, rule.c1, rule.c2) for t in places
        ]
        best = max(range(len(places)), key=worth.__getitem__)
        if best == len(places) - 1:
            self.beyond *= 2
        self.next = min(places[best], rule.max_step / self.unit)

    def lowest(self) -> float:
        """The trial with the lowest posterior mean, 0 if none is below that of the start."""
        value = self.belief.at(self.belief.t)[0][: len(self.belief.t)]
        return float(self.belief.t[int(value.argmin())]) * self.unit
