"""What a metric is: statistics of samples that add up, and a value of their sum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan
from typing import TypeAlias

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.run.columns import MetricInfo

# Float64 tensors by name. {} is the sum over no samples, the neutral element of `merge`.
Sums: TypeAlias = Mapping[str, Tensor]


class Metric(ABC):
    """A number of a model's predictions on samples: value(sum over samples of statistics).

    A leaf is a frozen dataclass. It gives the sums over any set of samples; sums of two sets are
    added by `merge`, so the value does not depend on how samples were cut into chunks or dealt to
    machines (beyond the rounding of float64), and a server learns only the sum.
    Unless `value` is replaced it is the mean, "total" over "weight".
    """

    # Leaves assign these without an annotation, so that they are no fields of the dataclass.
    kind: str  # its name in texts
    higher_is_better: bool  # which way tuning and tables sort
    percent: bool = False  # a share of [0, 1], which people read in per cent
    of_classes: bool = False  # sees scores of classes, two where a model has one binary output

    @property
    def name(self) -> str:
        """The column of its values."""
        return self.kind

    @property
    def info(self) -> MetricInfo:
        """What tables and charts need to know of it."""
        return MetricInfo(self.name, self.higher_is_better, self.percent)

    @abstractmethod
    def problem(self, predictions: Tensor, targets: Tensor) -> str | None:
        """Why it cannot be taken of such predictions and targets; None where it can."""

    @abstractmethod
    def statistics(
        self,
        predictions: Tensor,
        targets: Tensor,
        weights: Tensor | None = None,
    ) -> Sums:
        """The sums over these samples, in float64.

        weights: of every sample `(N,)`, or of every target where a sample has several; one of
        weight 0, such as padding, counts for nothing, whatever its target is.
        """

    def value(self, sums: Sums) -> float:
        """The metric of a sum; NaN of no samples."""
        return ratio(sums)


def merge(one: Sums, other: Sums) -> Sums:
    """The sums over both sets of samples."""
    if not one:
        return other
    if not other:
        return one
    # both come from the same metric, so they have the same names
    return {name: one[name] + other[name] for name in one}


def ratio(sums: Sums) -> float:
    """Total over weight; NaN where nothing was weighed."""
    if not sums or float(sums["weight"]) == 0:
        return nan
    return float(sums["total"] / sums["weight"])


def weighted_sum(values: Tensor, weights: Tensor) -> Sums:
    """What a weighted mean is made of."""
    # a value of weight 0 may be NaN or infinite (padding), and 0 * NaN would not be 0
    counted = torch.where(
        weights > 0,
        values.double() * weights,
        torch.zeros_like(weights),
    )
    return {"total": counted.sum(), "weight": weights.sum()}


def target_weights(targets: Tensor, weights: Tensor | None) -> Tensor:
    """A weight in float64 for every target; those given may leave out trailing axes."""
    if weights is None:
        return torch.ones(targets.shape, dtype=torch.float64)
    missing = targets.dim() - weights.dim()
    leading_axes = targets.shape[: weights.dim()]
    if missing < 0 or weights.shape != leading_axes:
        raise InputError(
            f"weights of shape {tuple(weights.shape)} do not fit targets of {tuple(targets.shape)}"
        )
    # trailing axes of size 1, which `expand` then repeats without copying
    trailing_axes = [1] * missing
    given = weights.double().cpu()
    spread = given.reshape(*weights.shape, *trailing_axes)
    return spread.expand(targets.shape)


@dataclass(frozen=True)
class MeanOf(Metric):
    """The mean of any function of predictions and targets that gives one value a sample.

    >>> def undershoot(predictions, targets):
    ...     return (targets - predictions).clamp(min=0)
    >>> MeanOf(undershoot, higher_is_better=False).name
    'undershoot'
    """

    function: Callable[[Tensor, Tensor], Tensor]
    higher_is_better: bool = True
    label: str | None = None  # the column's name; None: the function's own
    kind = "mean_of"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"MeanOf({self.function!r}): give a function of predictions, targets")
        if self.name == "<lambda>":
            raise InputError("MeanOf(lambda ...): name its column, MeanOf(f, label='my_metric')")

    @property
    def name(self) -> str:
        if self.label is not None:
            return self.label
        return getattr(self.function, "__name__", type(self.function).__name__)

    def problem(self, predictions: Tensor, targets: Tensor) -> str | None:
        return None  # only the function knows

    def statistics(
        self,
        predictions: Tensor,
        targets: Tensor,
        weights: Tensor | None = None,
    ) -> Sums:
        # a function of others may return a number or a numpy array
        result = self.function(predictions, targets)
        values = torch.as_tensor(result).detach().cpu()
        samples = len(targets)
        if values.dim() == 0 or len(values) != samples:
            shape = tuple(values.shape)
            raise InputError(
                f"metric {self.name}: it gives shape {shape} for {samples} "
                "samples; give one value a sample"
            )
        return weighted_sum(values, target_weights(values, weights))
