"""Values of a metric in words: shares in per cent, other numbers in four digits."""

from __future__ import annotations

from math import isnan

from fedstep.analysis.statistics import Difference, Spread
from fedstep.run.columns import MetricInfo

NONE = "-"  # nothing was measured
REFERENCE = "reference"  # in the row of the method that the others are compared with


def metric_value(value: float, metric: MetricInfo) -> str:
    """A value without its unit."""
    if isnan(value):
        return NONE
    # Two decimals of a per cent: seeds differ in the first.
    if metric.percent:
        return f"{100 * value:.2f}"
    return f"{value:.4g}"


def metric_spread(values: Spread, metric: MetricInfo) -> str:
    """Mean ± deviation; the mean alone for one seed."""
    mean = metric_value(values.mean, metric)
    if mean == NONE:
        return NONE
    if isnan(values.std):
        return mean
    deviation = metric_value(values.std, metric)
    return f"{mean} ± {deviation}"


def metric_gap(difference: Difference | None, metric: MetricInfo) -> str:
    """A difference, of shares in percentage points, with its interval."""
    if difference is None:
        return REFERENCE
    if isnan(difference.mean):
        return NONE
    mean = _signed(difference.mean, metric)
    # One pair of seeds has a difference and no interval.
    if isnan(difference.low):
        return mean
    low = _signed(difference.low, metric)
    high = _signed(difference.high, metric)
    return f"{mean} [{low}, {high}]"


def with_unit(words: str, metric: MetricInfo) -> str:
    """Words or a number, followed by the metric's unit."""
    if metric.percent:
        return f"{words} %"
    return words


def axis_label(metric: MetricInfo) -> str:
    """The label of an axis."""
    if metric.percent:
        return f"{metric.title}, %"
    return metric.title


def _signed(value: float, metric: MetricInfo) -> str:
    # The sign also where it is a plus: it says which of the two is ahead.
    if metric.percent:
        return f"{100 * value:+.2f}"
    return f"{value:+.4g}"
