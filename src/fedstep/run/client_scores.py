"""How the clients fare one by one: the mean hides who pays for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan

from torch import Tensor

from fedstep.core.vec import Vec
from fedstep.data.federation import Transform
from fedstep.data.parts import Parts
from fedstep.models.flat import FlatModel
from fedstep.run.evaluate import Score, evaluate
from fedstep.run.metrics.base import Metric

WORST = 0.1  # the share of clients that the worst tenth is


@dataclass(frozen=True)
class ClientSamples:
    """Samples that are scored client by client."""

    fields: tuple[Tensor, ...]
    parts: Parts


def client_values(
    model: FlatModel,
    x: Vec,
    samples: ClientSamples,
    transform: Transform | None,
    metric: Metric | None,
) -> list[float]:
    """The metric of every client on its own samples; its loss where there is no metric."""
    metrics: tuple[Metric, ...] = ()
    if metric is not None:
        metrics = (metric,)
    values = []
    for part in samples.parts:
        fields = tuple(field[part] for field in samples.fields)
        score = evaluate(model, x, fields, transform, metrics=metrics)
        if metric is None:
            values.append(score.loss)
        else:
            values.append(score.metrics[metric.name])
    return values


def spread_columns(values: Sequence[float], metric: Metric | None) -> dict[str, float]:
    """Mean, mean of the worst tenth, and standard deviation over clients, every client alike."""
    name = "loss"
    higher_is_better = False
    if metric is not None:
        name = metric.name
        higher_is_better = metric.higher_is_better
    # a client without a value, such as a ranking of one class, says nothing
    known = sorted(value for value in values if not math.isnan(value))
    if not higher_is_better:
        known.reverse()
    if not known:
        return {f"mean_{name}": nan, f"worst_{name}": nan, f"spread_{name}": nan}
    count = math.ceil(WORST * len(known))
    mean = sum(known) / len(known)
    squares = sum((value - mean) ** 2 for value in known)
    return {
        f"mean_{name}": mean,
        f"worst_{name}": sum(known[:count]) / count,
        f"spread_{name}": math.sqrt(squares / len(known)),
    }


def scored_columns(score: Score) -> Mapping[str, float]:
    """Loss and metrics of a score as columns."""
    return {"loss": score.loss, **score.metrics}
