"""What noisy values and slopes along a line say about the function between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import pi, sqrt
from typing import NamedTuple

import torch
from torch import Tensor

OFFSET = 10.0  # how far left of 0 the process begins: makes the prior at 0 wide
NODES = 500  # of the quadrature of a bivariate normal probability


class Observation(NamedTuple):
    """A value y and a slope dy, learnt at t, and the variances of their noise."""

    t: float
    y: float
    dy: float
    var_y: float
    var_dy: float


@dataclass(frozen=True)
class Belief:
    """The posterior of f on t >= 0, given values and slopes with independent Gaussian noise.

        cov(f(s), f(t)) = m^3 / 3 + |s - t| m^2 / 2,  m = min(s, t) + 10

    The prior is an integrated Wiener process: f' is a Wiener process, so that the posterior mean
    is a cubic spline with its knots at the observations. All is in units in which the first slope
    is -1 (Mahsereci and Hennig, 2015). Vectors have one entry per observation, float64.
    """

    t: Tensor
    y: Tensor
    dy: Tensor
    var_y: Tensor
    var_dy: Tensor

    @staticmethod
    def of(*observations: Observation) -> Belief:
        """What some observations say."""
        return Belief(*torch.tensor(observations, dtype=torch.float64).T)

    def observe(self, observation: Observation) -> Belief:
        """What one more observation makes of it."""
        new = Belief.of(observation)
        return Belief(
            t=torch.cat([self.t, new.t]),
            y=torch.cat([self.y, new.y]),
            dy=torch.cat([self.dy, new.dy]),
            var_y=torch.cat([self.var_y, new.var_y]),
            var_dy=torch.cat([self.var_dy, new.var_dy]),
        )

    def at(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and covariance of (f(t_1), ..., f(t_m), f'(t_1), ..., f'(t_m))."""
        factor, weights = self._solved
        cross = covariance(t, self.t)
        mean = cross @ weights
        explained = cross @ torch.cholesky_solve(cross.T, factor)
        return mean, covariance(t, t) - explained

    @cached_property
    def _solved(self) -> tuple[Tensor, Tensor]:
        """Factor of the observations' covariance, and the weights of the posterior mean."""
        variances = torch.cat([self.var_y, self.var_dy])
        # observations without noise make the covariance singular up to rounding
        noise = torch.diag(variances + 1e-10)
        factor = torch.linalg.cholesky(covariance(self.t, self.t) + noise)
        observed = torch.cat([self.y, self.dy])[:, None]
        weights = torch.cholesky_solve(observed, factor).squeeze(-1)
        return factor, weights

    def wolfe(
        self,
        t: float,
        c1: float,
        c2: float,
    ) -> float:
        """Probability that t satisfies the strong Wolfe conditions.

            a = f(0) - f(t) + c1 t f'(0) >= 0
            0 <= b = f'(t) - c2 f'(0) <= 2 c2 (|mean f'(0)| + 2 sd f'(0))

        The upper end stands for f'(t) <= -c2 f'(0), whose bound is itself uncertain.
        """
        mean, cov = self.at(_points(0.0, t))  # of f(0), f(t), f'(0), f'(t)
        conditions = torch.tensor(
            (
                (1.0, -1.0, c1 * t, 0.0),  # a
                (0.0, 0.0, -c2, 1.0),  # b
            ),
            dtype=torch.float64,
        )
        a, b = (conditions @ mean).tolist()
        (var_a, cov_ab), (_, var_b) = (conditions @ cov @ conditions.T).tolist()
        slope_spread = sqrt(max(float(cov[2, 2]), 0.0))
        top = 2 * c2 * (abs(float(mean[2])) + 2 * slope_spread)
        return orthant(a, b, top, var_a, cov_ab, var_b)

    def candidates(self, beyond: float) -> list[float]:
        """Minima of the posterior mean between observations, and a point beyond the last."""
        knots = self.t.sort().values
        value, slope = self.at(knots)[0].chunk(2)
        h = knots.diff()
        rise = value.diff()
        left = slope[:-1]
        right = slope[1:]
        # between two knots the mean is value + left u + a u^2 + b u^3
        a = (3 * rise / h - 2 * left - right) / h
        b = (left + right - 2 * rise / h) / h**2
        root = (a * a - 3 * b * left).sqrt()  # NaN where the cubic has no minimum
        inner = -left / (a + root)
        inside = torch.isfinite(inner) & (inner > 0) & (inner < h)
        minima = (knots[:-1] + inner)[inside].tolist()
        return [*minima, float(knots[-1]) + beyond]

    def lowest(self) -> tuple[float, float]:
        """The observed t with the lowest posterior mean, and that mean."""
        values = self.at(self.t)[0][: len(self.t)]
        return float(self.t[int(values.argmin())]), float(values.min())

    def improvement(self, t: float) -> float:
        """Expected amount by which f(t) lies below the lowest posterior mean observed."""
        _, lowest = self.lowest()
        mean, cov = self.at(_points(t))
        gap = lowest - float(mean[0])
        spread = sqrt(max(float(cov[0, 0]), 1e-24))
        z = torch.tensor(gap / spread, dtype=torch.float64)
        below = gap * torch.special.ndtr(z)
        beside = spread * torch.exp(-z * z / 2) / sqrt(2 * pi)
        return float(below + beside)


def covariance(s: Tensor, t: Tensor) -> Tensor:
    """Prior covariance of (f(s), f'(s)) with (f(t), f'(t)), shape (2 len(s), 2 len(t))."""
    a = (s + OFFSET)[:, None]
    b = (t + OFFSET)[None, :]
    least = torch.minimum(a, b)
    value = least**3 / 3 + (a - b).abs() * least**2 / 2
    by_t = torch.where(
        a < b,
        a * a / 2,
        a * b - b * b / 2,
    )
    by_s = torch.where(
        b < a,
        b * b / 2,
        a * b - a * a / 2,
    )
    upper = torch.cat([value, by_t], 1)
    lower = torch.cat([by_s, least], 1)
    return torch.cat([upper, lower])


def orthant(
    a: float,
    b: float,
    top: float,
    var_a: float,
    cov_ab: float,
    var_b: float,
) -> float:
    """P(A >= 0, 0 <= B <= top) for a normal (A, B) with means a and b, by quadrature over B."""
    sd_a = sqrt(max(var_a, 1e-24))
    sd_b = sqrt(max(var_b, 1e-24))
    rho = max(-1.0, min(1.0, cov_ab / (sd_a * sd_b)))
    # beyond nine standard deviations there is nothing that float64 would see
    low = max(-b / sd_b, -9.0)
    high = min((top - b) / sd_b, 9.0)
    if not low < high:
        return 0.0
    width = (high - low) / NODES
    u = low + width * (torch.arange(NODES, dtype=torch.float64) + 0.5)
    rest = sqrt(max(1 - rho * rho, 1e-12))
    inside = torch.special.ndtr((a / sd_a + rho * u) / rest)
    return float((inside * torch.exp(-u * u / 2)).sum() * width / sqrt(2 * pi))


def _points(*t: float) -> Tensor:
    return torch.tensor(t, dtype=torch.float64)
