"""Metrics of predictions that are numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import torch
from torch import Tensor

from fedstep.run.metrics.base import Metric, Sums, target_weights, weighted_sum

ROUNDING = 1e-12  # a variance below this share of the mean square is the rounding of its sums


def number_problem(predictions: Tensor, targets: Tensor) -> str | None:
    """Why predictions are not numbers for these targets; None where they are."""
    same_samples = len(predictions) == len(targets)
    if predictions.numel() != targets.numel() or not same_samples:
        return (
            f"predictions of shape {tuple(predictions.shape)} are not one number for each of the "
            f"targets of shape {tuple(targets.shape)}"
        )
    return None


def errors(predictions: Tensor, targets: Tensor) -> Tensor:
    """Prediction less target in float64, in the shape of the targets."""
    # (N, 1) less (N,) would be broadcast to (N, N): the shape is taken from the targets
    guesses = predictions.detach().cpu().double()
    guesses = guesses.reshape(targets.shape)
    return guesses - targets.cpu().double()


def outputs(values: Tensor) -> Tensor:
    """One row a sample, one column an output; a single number is one output."""
    return values.unsqueeze(-1).flatten(1)


@dataclass(frozen=True)
class MeanSquaredError(Metric):
    """The mean over samples and outputs of (prediction - target)^2."""

    kind = "mean_squared_error"
    higher_is_better = False

    def problem(self, predictions: Tensor, targets: Tensor) -> str | None:
        return number_problem(predictions, targets)

    def statistics(
        self,
        predictions: Tensor,
        targets: Tensor,
        weights: Tensor | None = None,
    ) -> Sums:
        squares = errors(predictions, targets) ** 2
        weighed = target_weights(targets, weights)
        return weighted_sum(squares, weighed)


@dataclass(frozen=True)
class MeanAbsoluteError(Metric):
    """The mean over samples and outputs of |prediction - target|."""

    kind = "mean_absolute_error"
    higher_is_better = False

    def problem(self, predictions: Tensor, targets: Tensor) -> str | None:
        return number_problem(predictions, targets)

    def statistics(
        self,
        predictions: Tensor,
        targets: Tensor,
        weights: Tensor | None = None,
    ) -> Sums:
        sizes = errors(predictions, targets).abs()
        weighed = target_weights(targets, weights)
        return weighted_sum(sizes, weighed)


@dataclass(frozen=True)
class R2(Metric):
    """The share of the targets' variance that is explained, the mean over outputs of

        1 - sum (prediction - target)^2 / sum (target - mean target)^2

    1 is perfect, 0 is no better than the mean. An output whose targets are all the same has none
    and is left out. The variance is that of plain sums: targets far from 0 against their spread
    (more than about 1e5 times) lose digits; centre them.
    """

    kind = "r2"
    higher_is_better = True

    def problem(self, predictions: Tensor, targets: Tensor) -> str | None:
        return number_problem(predictions, targets)

    def statistics(
        self,
        predictions: Tensor,
        targets: Tensor,
        weights: Tensor | None = None,
    ) -> Sums:
        # output by output: each has a variance of its own
        weighed = outputs(target_weights(targets, weights))
        zero = torch.zeros_like(weighed)
        wrong = outputs(errors(predictions, targets))
        wanted = outputs(targets.cpu().double())
        # padding may hold NaN, which no weight of 0 would silence
        wrong = torch.where(weighed > 0, wrong, zero)
        wanted = torch.where(weighed > 0, wanted, zero)
        return {
            "errors": (weighed * wrong**2).sum(0),
            "targets": (weighed * wanted).sum(0),
            "squares": (weighed * wanted**2).sum(0),
            "weight": weighed.sum(0),
        }

    def value(self, sums: Sums) -> float:
        if not sums:
            return nan
        # sum (t - mean)^2 = sum t^2 - (sum t)^2 / n: the mean is known only in the end
        squared_mean = sums["targets"] ** 2 / sums["weight"]
        variance = sums["squares"] - squared_mean
        varying = variance > ROUNDING * sums["squares"]
        if not bool(varying.any()):
            return nan
        unexplained = sums["errors"][varying] / variance[varying]
        return float((1 - unexplained).mean())
