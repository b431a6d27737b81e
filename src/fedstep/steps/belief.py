"""What noisy values and slopes along a line say about the function between them: an integrated Wiener process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import pi, sqrt

import torch
from torch import Tensor

OFFSET = 10.0  # how far left of 0 the process begins: makes the prior at 0 wide
NODES = 500  # of the quadrature of a bivariate normal probability


@dataclass(frozen=True)
class Belief:
    """The posterior of f on t >= 0, given values y and slopes dy at t with independent Gaussian noise.

        cov(f(s), f(t)) = m^3 / 3 + |s - t| m^2 / 2,  m = min(s, t) + 10

    f' is a Wiener process, so that the posterior mean is a cubic spline with its knots at the observations. All is in units in
    which the first slope is -1 (Mahsereci and Hennig, 2015). Vectors have one entry per observation, float64.
    """

    t: Tensor
    y: Tensor
    dy: Tensor
    var_y: Tensor
    var_dy: Tensor

    @staticmethod
    def of(*observations: tuple[float, float, float, float, float]) -> Belief:
        """From (t, y, dy, var_y, var_dy) tuples."""
        return Belief(*torch.tensor(observations, dtype=torch.float64).T)

    def observe(self, t: float, y: float, dy: float, var_y: float, var_dy: float) -> Belief:
        new = torch.tensor((t, y, dy, var_y, var_dy), dtype=torch.float64)
        old = (self.t, self.y, self.dy, self.var_y, self.var_dy)
        return Belief(*(torch.cat([a, b[None]]) for a, b in zip(old, new, strict=True)))

    def at(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and covariance of (f(t_1), ..., f(t_m), f'(t_1), ..., f'(t_m))."""
        factor, weights = self._solved
        cross = covariance(t, self.t)
        return cross @ weights, covariance(t, t) - cross @ torch.cholesky_solve(cross.T, factor)

    @cached_property
    def _solved(self) -> tuple[Tensor, Tensor]:
        """Factor of the observations' covariance, and the weights of the posterior mean."""
        noise = torch.diag(torch.cat([self.var_y, self.var_dy]) + 1e-10)  # the last for rounding
        factor = torch.linalg.cholesky(covariance(self.t, self.t) + noise)
        return factor, torch.cholesky_solve(torch.cat([self.y, self.dy])[:, None], factor).squeeze(
            -1
        )

    def wolfe(self, t: float, c1: float, c2: float) -> float:
        """Probability that t satisfies the strong Wolfe conditions.

        a = f(0) - f(t) + c1 t f'(0) >= 0,  0 <= b = f'(t) - c2 f'(0) <= 2 c2 (|mean f'(0)| + 2 sd f'(0))

        The upper end stands for f'(t) <= -c2 f'(0), whose bound is itself uncertain.
        """
        mean, cov = self.at(torch.tensor((0.0, t), dtype=torch.float64))  # f(0), f(t), f'(0), f'(t)
        ways = torch.tensor(((1.0, -1.0, c1 * t, 0.0), (0.0, 0.0, -c2, 1.0)), dtype=torch.float64)
        (a, b), ((aa, ab), (_, bb)) = (ways @ mean).tolist(), (ways @ cov @ ways.T).tolist()
        top = 2 * c2 * (abs(float(mean[2])) + 2 * sqrt(max(float(cov[2, 2]), 0.0)))
        return orthant(a, b, top, aa, ab, bb)

    def candidates(self, beyond: float) -> list[float]:
        """Minima of the posterior mean between observations, and a point beyond the last."""
        knots = self.t.sort().values
        value, slope = self.at(knots)[0].chunk(2)
        h, rise = knots.diff(), value.diff()
        left, right = slope[:-1], slope[1:]
        a, b = (3 * rise / h - 2 * left - right) / h, (left + right - 2 * rise / h) / h**2
        root = (a * a - 3 * b * left).sqrt()  # NaN where the cubic has no minimum
        inner = -left / (a + root)
        good = torch.isfinite(inner) & (inner > 0) & (inner < h)
        return [*(knots[:-1] + inner)[good].tolist(), float(knots[-1]) + beyond]

    def improvement(self, t: float) -> float:
        """Expected amount by which f(t) lies below the lowest posterior mean of the observations."""
        lowest = float(self.at(self.t)[0][: len(self.t)].min())
        mean, cov = self.at(torch.tensor((t,), dtype=torch.float64))
        gap, spread = lowest - float(mean[0]), sqrt(max(float(cov[0, 0]), 1e-24))
        z = torch.tensor(gap / spread, dtype=torch.float64)
        return float(gap * torch.special.ndtr(z) + spread * torch.exp(-z * z / 2) / sqrt(2 * pi))


def covariance(s: Tensor, t: Tensor) -> Tensor:
    """Prior covariance of (f(s), f'(s)) with (f(t), f'(t)), shape (2 len(s), 2 len(t))."""
    a, b = (s + OFFSET)[:, None], (t + OFFSET)[None, :]
    least = torch.minimum(a, b)
    value = least**3 / 3 + (a - b).abs() * least**2 / 2
    by_t = torch.where(a < b, a * a / 2, a * b - b * b / 2)
    by_s = torch.where(b < a, b * b / 2, a * b - a * a / 2)
    return torch.cat([torch.cat([value, by_t], 1), torch.cat([by_s, least], 1)])


def orthant(a: float, b: float, top: float, aa: float, ab: float, bb: float) -> float:
    """P(A >= 0, 0 <= B <= top) for a normal (A, B) with means a, b and covariance ((aa, ab), (ab, bb)), by quadrature over B."""
    sd_a, sd_b = sqrt(max(aa, 1e-24)), sqrt(max(bb, 1e-24))
    rho = max(-1.0, min(1.0, ab / (sd_a * sd_b)))
    low, high = max(-b / sd_b, -9.0), min((top - b) / sd_b, 9.0)
    if not low < high:
        return 0.0
    width = (high - low) / NODES
    u = low + width * (torch.arange(NODES, dtype=torch.float64) + 0.5)
    rest = sqrt(max(1 - rho * rho, 1e-12))
    inside = torch.special.ndtr((a / sd_a + rho * u) / rest)
    return float((inside * torch.exp(-u * u / 2)).sum() * width / sqrt(2 * pi))
