"""How well scores put the two classes of a binary task in order."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.run.metrics.base import Metric, Sums, target_weights
from fedstep.run.metrics.regression import outputs

MOST_BINS = 2**16  # two histograms of float64 are a megabyte then


@dataclass(frozen=True)
class AUROC(Metric):
    """The area under the ROC curve: how often a positive sample scores above a negative one.

    The score is the one output of a binary model, or the difference of two. Scores are counted in
    bins, so that the statistics add up: s goes to bin s / (1 + |s|), of equal width over (-1, 1).
    Pairs in the same bin count one half (the trapezoid rule), as ties do. The value is therefore
    off by at most half the share of pairs that meet in a bin; two scores near 0 are told apart when
    they differ by 2 / bins, scores near s when they differ by about 2 (1 + |s|)^2 / bins.
    NaN where there is only one class, or where a score is NaN.
    """

    bins: int = 4096
    kind = "auroc"
    higher_is_better = True
    percent = True

    def __post_init__(self) -> None:
        if not isinstance(self.bins, int) or not 2 <= self.bins <= MOST_BINS:
            raise InputError(f"auroc(bins={self.bins}): give 2 to {MOST_BINS} bins")

    def problem(self, predictions: Tensor, targets: Tensor) -> str | None:
        samples = len(targets)
        one_target = targets.numel() == samples
        one_score = predictions.numel() in (samples, 2 * samples)
        if len(predictions) != samples or not one_target or not one_score:
            return (
                f"predictions of shape {tuple(predictions.shape)} are not one or two numbers for "
                f"each of the targets of shape {tuple(targets.shape)}"
            )
        return None

    def statistics(
        self,
        predictions: Tensor,
        targets: Tensor,
        weights: Tensor | None = None,
    ) -> Sums:
        columns = outputs(predictions.detach().cpu().double())
        scores = _scores(columns)
        truth = targets.cpu().reshape(-1)
        weighed = target_weights(targets, weights).reshape(-1)
        positive = truth == 1
        other = (truth != 0) & ~positive & (weighed > 0)
        if bool(other.any()):
            example = truth[other][0].item()
            raise InputError(f"auroc: a target is {example}; give 0 and 1")
        # a NaN has no bin; it is counted apart, and makes the value NaN
        lost = torch.isnan(scores)
        place = torch.where(
            lost,
            torch.zeros_like(scores),
            self._place(scores),
        )
        # the upper end, place 1, belongs to the last bin
        index = (place * self.bins).long()
        index = index.clamp(0, self.bins - 1)
        return {
            "positive": torch.bincount(index, weighed * positive, self.bins),
            "negative": torch.bincount(
                index,
                weighed * ~positive,
                self.bins,
            ),
            "lost": weighed[lost].sum(),
        }

    def _place(self, scores: Tensor) -> Tensor:
        """A score's place in [0, 1]; infinite scores are at the ends."""
        folded = scores / (1 + scores.abs())
        # infinity over infinity is NaN, and an infinite score has its place all the same
        folded = torch.where(torch.isinf(scores), scores.sign(), folded)
        return (folded + 1) / 2

    def value(self, sums: Sums) -> float:
        if not sums or float(sums["lost"]) > 0:
            return nan
        positive = sums["positive"]
        negative = sums["negative"]
        pairs = positive.sum() * negative.sum()
        if float(pairs) == 0:
            return nan
        below = negative.cumsum(0) - negative
        won = positive * (below + negative / 2)
        return float(won.sum() / pairs)


def _scores(columns: Tensor) -> Tensor:
    """One score a sample: the output, or the second less the first."""
    if columns.shape[1] == 1:
        return columns[:, 0]
    return columns[:, 1] - columns[:, 0]
