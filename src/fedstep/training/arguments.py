"""What a caller of `fit` may give, and what it comes to."""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.data.federation import Federation, fields_of
from fedstep.data.plan import Plan
from fedstep.execute.base import Executor, Local
from fedstep.execute.choose import choose
from fedstep.execute.processes import Processes
from fedstep.models.flat import FlatModel
from fedstep.models.losses import Loss
from fedstep.models.module import ModuleModel
from fedstep.run.metrics.base import Metric
from fedstep.run.metrics.choose import GivenMetric, metrics_of
from fedstep.spec import build

COHORT = 20  # clients a round where nothing is said
LOCAL_STEPS = 20


def name_of(algorithm: Algorithm | str) -> str:
    """What the run is called."""
    if isinstance(algorithm, str):
        return algorithm
    return "custom"


def algorithm_of(given: Any) -> Algorithm:
    """The algorithm, built from its spec where it is text."""
    if isinstance(given, str):
        return build(given)
    if not isinstance(given, Algorithm):
        raise InputError(
            f"algorithm is {given!r}: give a name such as 'fedsls', "
            "or call the constructor: zoo.fedsls()"
        )
    return given


def flat_model_of(model: Any, loss: Loss) -> FlatModel:
    """The model as a function of one flat vector."""
    if isinstance(model, FlatModel):
        # a model learns about itself when it is run: the caller's stays as it is
        return copy.copy(model)
    if not isinstance(model, nn.Module):
        raise InputError(
            f"model is a {type(model).__name__}: give an nn.Module, or FunctionModel(loss, start)"
        )
    return ModuleModel(model, loss)


def federation_of(clients: Sequence[Any] | Federation) -> Federation:
    """The clients' data."""
    if isinstance(clients, Federation):
        return clients
    return Federation.of(clients)


def plan_of(batch: int, local_steps: int | None, local_epochs: int | None) -> Plan:
    """Batches and local steps."""
    if local_steps is not None and local_epochs is not None:
        raise InputError(
            f"local_steps={local_steps} and local_epochs={local_epochs}: give one of them"
        )
    if local_steps is None and local_epochs is None:
        local_steps = LOCAL_STEPS
    return Plan(batch, local_steps, local_epochs)


def cohort_size_of(per_round: int | None, federation: Federation) -> int:
    """Clients a round."""
    if per_round is None:
        return min(COHORT, len(federation))
    return per_round


def test_fields_of(test: Any) -> tuple[Tensor, ...] | None:
    """The samples that are scored."""
    if test is None:
        return None
    return fields_of(test, "test")


def metrics_given(given: Sequence[GivenMetric] | None) -> tuple[Metric, ...] | None:
    """What is measured; None: what is usual for such targets."""
    if given is None:
        return None
    return metrics_of(given)


def executor_of(given: Executor | None, workers: int, flat: FlatModel) -> Executor:
    """Who runs the clients."""
    if given is None:
        given = choose(flat)
    if workers == 1:
        return given
    if not isinstance(given, Local):
        raise InputError(
            f"workers={workers}: this executor runs in one place; leave `workers` or `executor` out"
        )
    return Processes(given, workers)


def wants_progress(progress: bool | None) -> bool:
    """Whether to show progress: by default on a terminal only."""
    if progress is None:
        return sys.stderr.isatty()
    return progress
