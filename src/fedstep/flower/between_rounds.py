"""What Flower does between rounds: logs, and evaluation on clients and server."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from logging import INFO
from math import isfinite
from typing import Any, TypeAlias

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedstep.algorithm import Server
from fedstep.core.errors import InputError
from fedstep.models.flat import FlatModel
from fedstep.models.module import ModuleModel
from fedstep.run.driver import Series
from fedstep.run.record import RoundReport

EvaluateFn: TypeAlias = Callable[[int, ArrayRecord], MetricRecord | None]


class RoundWatch:
    """What Flower does between rounds: logs, and evaluation on clients and server."""

    def __init__(
        self,
        strategy: Strategy,
        model: FlatModel,
        grid: Grid,
        config: ConfigRecord,
        evaluate_fn: EvaluateFn | None,
        timeout: float,
    ) -> None:
        self.strategy = strategy
        self.model = model
        self.grid = grid
        self.config = config
        self.evaluate_fn = evaluate_fn
        self.timeout = timeout
        self.result = Result()

    def begin(self, server: Server) -> None:
        self.strategy.summary()
        # round 0, as Flower does: what the model was worth before anybody trained it
        self._evaluate_here(0, model_arrays(self.model, server))

    def __call__(self, series: Series) -> Series:
        for server, row in series:
            log(INFO, "[ROUND %d/%d]", row.round, server.horizon)
            self.result.train_metrics_clientapp[row.round] = _metrics(row)
            log(INFO, "\t└──> %s", self.result.train_metrics_clientapp[row.round])
            arrays = model_arrays(self.model, server)
            # before the row is handed on: a run that is killed here evaluates the round again
            self._evaluate_there(row.round, arrays)
            self._evaluate_here(row.round, arrays)
            yield server, row

    def _evaluate_there(self, round: int, arrays: ArrayRecord) -> None:
        messages = self.strategy.configure_evaluate(round, arrays, self.config, self.grid)
        replies = self.grid.send_and_receive(list(messages), timeout=self.timeout)
        means = self.strategy.aggregate_evaluate(round, replies)
        # nobody evaluates: no entry, which is not the same as an entry without numbers
        if means is not None:
            self.result.evaluate_metrics_clientapp[round] = means

    def _evaluate_here(self, round: int, arrays: ArrayRecord) -> None:
        if self.evaluate_fn is None:
            return
        metrics = self.evaluate_fn(round, arrays)
        if metrics is not None:
            self.result.evaluate_metrics_serverapp[round] = metrics


def _metrics(row: RoundReport) -> MetricRecord:
    """A row as Flower's metrics: numbers only, and none that is missing."""
    numbers = {}
    for name, value in row.to_dict().items():
        # Flower would carry a NaN as a number, and whoever draws it would not see the gap
        if isinstance(value, int | float) and isfinite(value):
            numbers[name] = value
    return MetricRecord(numbers)


def model_state(model: FlatModel, server: Server) -> dict[str, Any]:
    """What the user's module loads, or the flat vector of a plain function."""
    # the readout, not x: a method may ship another point than it goes on from
    if isinstance(model, ModuleModel):
        return model.load(server.readout).state_dict()
    return {"x": server.readout}


def model_arrays(model: FlatModel, server: Server) -> ArrayRecord:
    """All of the module's state, frozen parameters and buffers included."""
    return ArrayRecord(model_state(model, server))


def model_from(model: FlatModel, arrays: ArrayRecord | None) -> FlatModel:
    """The model that training begins at: the given arrays, or the module as it is."""
    if arrays is None or len(arrays) == 0:
        return model
    if not isinstance(model, ModuleModel):
        raise InputError("initial_arrays: they need an nn.Module; leave them out")
    # a copy: the caller's module is not changed by where training begins
    module = copy.deepcopy(model.module)
    try:
        module.load_state_dict(arrays.to_torch_state_dict())
    except RuntimeError as error:
        raise InputError(f"initial_arrays do not fit the model: {error}") from None
    return ModuleModel(module, model.loss)


def start_command(method: str, settings: Mapping[str, Any]) -> str:
    """What makes a run again, as far as its settings tell; without a text, "algorithm" stands."""
    algorithm = "algorithm"
    if method:
        algorithm = repr(method)
    arguments = [algorithm, "model"]
    for name in ("clients", "per_round", "batch", "seed"):
        arguments.append(f"{name}={settings[name]}")
    listed = ", ".join(arguments)
    return f"FedStep({listed}).start(grid, num_rounds={settings['rounds']})"
