"""The columns of a row on disk: which belong to a metric, and what is known of the metric.

No torch here: results are read, compared and drawn without it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedstep.core.errors import InputError

# A metric's column at the readout has its bare name, so rows written before there were metrics
# (accuracy, heldout_accuracy, last_accuracy) are rows of the metric `accuracy`.
HELDOUT = "heldout_"
LAST = "last_"
# Columns that rows have only where they were asked for.
VALIDATION = "validation_"  # loss and metrics on validation samples
BY_CLIENT = "clients_"  # mean, worst tenth and spread of a metric over clients

# Columns that a metric may not be called by.
ROW_COLUMNS = (
    "round",
    "loss",
    "train_loss",
    "test_loss",
    "eta_g",
    "steps",
    "trials",
    "failed",
    "forwards",
    "backwards",
    "bytes_up",
    "bytes_down",
    "seconds",
    "clients",
    "rejected",
    "clipped",
    "missing",
    "pace",
)
RESERVED = (*ROW_COLUMNS, "checksum")  # the last is the seal of a row


@dataclass(frozen=True)
class MetricInfo:
    """What tables and charts need to know of a metric; a run's manifest holds it."""

    name: str  # of its column
    higher_is_better: bool = True
    percent: bool = False  # a share of [0, 1], which people read in per cent

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise InputError(f"metric {self.name!r}: its name must be a word, as of a column")
        if self.name in RESERVED:
            raise InputError(f"metric {self.name!r}: rows have a column of that name already")
        prefixes = (HELDOUT, LAST, VALIDATION, BY_CLIENT)
        if self.name.startswith(prefixes):
            raise InputError(f"metric {self.name!r}: {', '.join(prefixes)} mark other columns")

    def rank(self, value: float) -> float:
        """A number that is larger for a better value; NaN ranks below all."""
        if math.isnan(value):
            return -math.inf
        if self.higher_is_better:
            return value
        return -value

    @property
    def title(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ")


ACCURACY = MetricInfo("accuracy", higher_is_better=True, percent=True)


@dataclass(frozen=True)
class MetricColumns:
    """The metrics of one row by the point and the samples they were taken at."""

    test: dict[str, float]  # at the readout
    heldout: dict[str, float]  # at the readout, on clients that never train
    last: dict[str, float]  # at the last iterate
    validation: dict[str, float]  # at the readout, its loss among them
    by_client: dict[str, float]  # at the readout: mean, worst tenth and spread over clients

    @staticmethod
    def of(row: Mapping[str, Any]) -> MetricColumns:
        """Pick the metrics out of a row; what is no column of every row is a metric."""
        columns = MetricColumns({}, {}, {}, {}, {})
        prefixed = {
            HELDOUT: columns.heldout,
            LAST: columns.last,
            VALIDATION: columns.validation,
            BY_CLIENT: columns.by_client,
        }
        for column, value in row.items():
            if column in ROW_COLUMNS:
                continue
            group = columns.test
            name = column
            for prefix, marked in prefixed.items():
                if column.startswith(prefix):
                    group = marked
                    name = column.removeprefix(prefix)
            group[name] = value
        return columns


def metric_columns(
    test: Mapping[str, float],
    heldout: Mapping[str, float],
    last: Mapping[str, float],
) -> dict[str, float]:
    """Metrics as the columns of a row."""
    return {**test, **marked_columns(HELDOUT, heldout), **marked_columns(LAST, last)}


def marked_columns(prefix: str, values: Mapping[str, float]) -> dict[str, float]:
    """Values under the names of their columns."""
    return {prefix + name: value for name, value in values.items()}


def metric_infos(manifest: Mapping[str, Any]) -> tuple[MetricInfo, ...]:
    """The metrics that a manifest names, the first of them the one to compare by.

    Manifests written before there were metrics name none: their rows have the accuracy.
    """
    listed: Sequence[Mapping[str, Any]] | None = manifest.get("metrics")
    if listed is None:
        return (ACCURACY,)
    return tuple(MetricInfo(**entry) for entry in listed)
