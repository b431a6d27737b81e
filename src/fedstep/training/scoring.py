"""What is evaluated besides the test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Scoring:
    """Further evaluations of `fit`, each a few columns of every row.

    clients: mean, worst tenth and spread over clients of the first metric, on each client's own
    test samples where `test` has one set a client, else on its training samples (columns
    clients_mean_accuracy, clients_worst_accuracy, clients_spread_accuracy). heldout: samples of
    clients that never train, given like `test` (columns heldout_accuracy, ...).
    """

    clients: bool = False
    heldout: Any = None
