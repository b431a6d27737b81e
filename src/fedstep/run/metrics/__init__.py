"""Metrics: what is measured of a model's predictions, as sums over samples."""

from fedstep.run.metrics.base import MeanOf, Metric, Sums, merge
from fedstep.run.metrics.choose import default_metrics, metrics_of, named_metric
from fedstep.run.metrics.classification import Accuracy, MacroF1, Perplexity, TopKAccuracy
from fedstep.run.metrics.ranking import AUROC
from fedstep.run.metrics.regression import R2, MeanAbsoluteError, MeanSquaredError

__all__ = [
    "AUROC",
    "R2",
    "Accuracy",
    "MacroF1",
    "MeanAbsoluteError",
    "MeanOf",
    "MeanSquaredError",
    "Metric",
    "Perplexity",
    "Sums",
    "TopKAccuracy",
    "default_metrics",
    "merge",
    "metrics_of",
    "named_metric",
]
