"""Metrics of predictions that score classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import nan

import torch
from torch import Tensor
from torch.nn import functional

from fedstep.core.errors import InputError
from fedstep.run.metrics.base import Metric, Sums, ratio, target_weights, weighted_sum


@dataclass(frozen=True)
class Labelled:
    """One row a target, whatever axes the targets had: a sequence of T tokens is T rows."""

    scores: Tensor  # (M, classes) as the model made them: in float64 a vocabulary may not fit
    labels: Tensor  # (M,) in range, also where the weight is 0
    weights: Tensor  # (M,) float64


def class_problem(predictions: Tensor, targets: Tensor) -> str | None:
    """Why these are not scores of classes and class targets; None where they are."""
    if targets.is_floating_point():
        return f"targets are {targets.dtype}, not classes"
    if predictions.dim() != targets.dim() + 1:
        return (
            f"predictions of shape {tuple(predictions.shape)} do not score classes on axis 1 "
            f"for targets of shape {tuple(targets.shape)}"
        )
    return None


def labelled(
    predictions: Tensor,
    targets: Tensor,
    weights: Tensor | None,
) -> Labelled:
    """Scores and labels as rows.

    A negative label is padding, as cross_entropy's ignore_index is.
    """
    classes = predictions.shape[1]  # on axis 1, as cross_entropy has them
    classes_last = predictions.detach().movedim(1, -1)
    scores = classes_last.reshape(-1, classes)
    # sums are taken on the CPU: bincount on a GPU adds in no fixed order
    labels = targets.reshape(-1).cpu().long()
    weighed = target_weights(targets, weights).reshape(-1)
    weighed = torch.where(
        labels >= 0,
        weighed,
        torch.zeros_like(weighed),
    )
    # padding may have any label: one in range lets it pass through gather and bincount
    labels = torch.where(
        weighed > 0,
        labels,
        torch.zeros_like(labels),
    )
    return Labelled(scores.cpu(), labels, weighed)


@dataclass(frozen=True)
class Accuracy(Metric):
    """The share of targets whose class has the highest score."""

    kind = "accuracy"
    higher_is_better = True
    percent = True
    of_classes = True

    def problem(self, predictions: Tensor, targets: Tensor) -> str | None:
        return class_problem(predictions, targets)

    def statistics(
        self,
        predictions: Tensor,
        targets: Tensor,
        weights: Tensor | None = None,
    ) -> Sums:
        rows = labelled(predictions, targets, weights)
        right = rows.scores.argmax(1) == rows.labels
        return weighted_sum(right, rows.weights)


@dataclass(frozen=True)
class TopKAccuracy(Metric):
    """The share of targets whose class is among the k of highest score; k = 1 is `Accuracy`.

    Of equal scores the class of the lower number comes first.
    """

    k: int = 5
    kind = "top_k"
    higher_is_better = True
    percent = True
    of_classes = True

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 1:
            raise InputError(f"top_k(k={self.k}): k must be a whole number, 1 or more")

    @property
    def name(self) -> str:
        return f"top_{self.k}"

    def problem(self, predictions: Tensor, targets: Tensor) -> str | None:
        return class_problem(predictions, targets)

    def statistics(
        self,
        predictions: Tensor,
        targets: Tensor,
        weights: Tensor | None = None,
    ) -> Sums:
        rows = labelled(predictions, targets, weights)
        labels = rows.labels.unsqueeze(1)
        chosen = rows.scores.gather(1, labels)
        # `not <=`, so that a NaN ranks before the target and a diverged model hits nothing
        before = (~(rows.scores <= chosen)).sum(1)
        classes = torch.arange(rows.scores.shape[1])
        # without this a model that gives all classes the same score would hit everything
        tied = (rows.scores == chosen) & (classes < labels)
        rank = before + tied.sum(1)
        return weighted_sum(rank < self.k, rows.weights)


@dataclass(frozen=True)
class MacroF1(Metric):
    """The mean over classes of F1 = 2 TP / (2 TP + FP + FN), every class counting the same.

    Classes that are neither targets nor predicted have no F1 and are left out.
    """

    kind = "macro_f1"
    higher_is_better = True
    percent = True
    of_classes = True

    def problem(self, predictions: Tensor, targets: Tensor) -> str | None:
        return class_problem(predictions, targets)

    def statistics(
        self,
        predictions: Tensor,
        targets: Tensor,
        weights: Tensor | None = None,
    ) -> Sums:
        rows = labelled(predictions, targets, weights)
        classes = rows.scores.shape[1]
        guesses = rows.scores.argmax(1)
        right = rows.weights * (guesses == rows.labels)
        return {
            "hits": torch.bincount(rows.labels, right, classes),
            "targets": torch.bincount(rows.labels, rows.weights, classes),
            "guesses": torch.bincount(guesses, rows.weights, classes),
        }

    def value(self, sums: Sums) -> float:
        if not sums:
            return nan
        # 2 TP + FP + FN: every target is a TP or an FN, every guess a TP or an FP
        occurring = sums["targets"] + sums["guesses"]
        there = occurring > 0
        hits = sums["hits"][there]
        scores = 2 * hits / occurring[there]
        return float(scores.mean())


@dataclass(frozen=True)
class Perplexity(Metric):
    """exp of the mean of -log p(target), p the softmax of the scores; 1 is certainty of the truth.

    The mean is over all targets: a sequence of many tokens counts as its tokens.
    """

    kind = "perplexity"
    higher_is_better = False
    of_classes = True

    def problem(self, predictions: Tensor, targets: Tensor) -> str | None:
        return class_problem(predictions, targets)

    def statistics(
        self,
        predictions: Tensor,
        targets: Tensor,
        weights: Tensor | None = None,
    ) -> Sums:
        rows = labelled(predictions, targets, weights)
        surprise = functional.cross_entropy(
            rows.scores.double(),
            rows.labels,
            reduction="none",
        )
        return weighted_sum(surprise, rows.weights)

    def value(self, sums: Sums) -> float:
        mean = ratio(sums)
        try:
            return math.exp(mean)
        except OverflowError:
            # a diverged model is a result, not an error
            return math.inf
