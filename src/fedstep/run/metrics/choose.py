"""Which metrics: named as text, given as objects or functions, or chosen by the targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from torch import Tensor

from fedstep.core.calls import Language
from fedstep.core.errors import InputError
from fedstep.run.metrics.base import MeanOf, Metric
from fedstep.run.metrics.classification import Accuracy, MacroF1, Perplexity, TopKAccuracy
from fedstep.run.metrics.ranking import AUROC
from fedstep.run.metrics.regression import R2, MeanAbsoluteError, MeanSquaredError

GivenMetric: TypeAlias = str | Metric | Callable[[Tensor, Tensor], Tensor]

KINDS: tuple[type[Metric], ...] = (
    Accuracy,
    TopKAccuracy,
    MacroF1,
    Perplexity,
    MeanSquaredError,
    MeanAbsoluteError,
    R2,
    AUROC,
)

# the text form of metrics: name(argument=value), with two examples for its error messages
_LANGUAGE = Language(
    "metric",
    {kind.kind: kind for kind in KINDS},
    {},
    "top_k(k=5)",
    "5",
)


def named_metric(text: str) -> Metric:
    """The metric that a text names.

    >>> named_metric("top_k(k=3)")
    TopKAccuracy(k=3)
    """
    made: Metric = _LANGUAGE.build(text)
    return made


def metrics_of(given: Sequence[GivenMetric]) -> tuple[Metric, ...]:
    """Metrics from texts, objects and functions; the first is what is tuned, compared and drawn."""
    # a text is a sequence too, of its letters
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InputError(f"metrics = {given!r}: give a list, such as ['accuracy']")
    metrics = tuple(_metric(one) for one in given)
    names = [metric.info.name for metric in metrics]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"metrics: {name} is named twice")
    return metrics


def _metric(given: Any) -> Metric:
    if isinstance(given, str):
        return named_metric(given)
    if isinstance(given, Metric):
        return given
    # a class can be called, but TopKAccuracy without its brackets is a slip
    if isinstance(given, type) or not callable(given):
        raise InputError(
            f"metric {given!r}: give a name such as 'accuracy', a metric such as TopKAccuracy(5), "
            "or a function of predictions and targets"
        )
    return MeanOf(given)


def default_metrics(
    predictions: Tensor | None,
    targets: Tensor,
    binary: bool = False,
) -> tuple[Metric, ...]:
    """What is measured where nothing is named; nothing where the model gives only a loss.

    Numbers: mean squared error, then R2. Classes: accuracy, also of several labels of 0 and 1 a
    sample (binary). A sequence of classes for every sample, as of a language model: accuracy, then
    perplexity.
    """
    if predictions is None:
        return ()
    fitting = []
    for metric in _usual(targets, binary):
        # nobody asked for these: one that does not fit is left out, not refused
        if metric.problem(predictions, targets) is None:
            fitting.append(metric)
    return tuple(fitting)


def _usual(targets: Tensor, binary: bool) -> tuple[Metric, ...]:
    if targets.is_floating_point():
        return (MeanSquaredError(), R2())
    if targets.dim() > 1 and not binary:
        return (Accuracy(), Perplexity())
    return (Accuracy(),)
