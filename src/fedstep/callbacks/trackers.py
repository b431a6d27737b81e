"""Experiment trackers (extra `trackers`): the columns of every row, under their own names.

Rounds of earlier calls are logged first, so a run that goes on is whole in every tracker.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from fedstep.callbacks.base import Callback, RoundEnd, RunStart, hidden
from fedstep.core.errors import InputError
from fedstep.run.record import RoundReport

MEDIAN = 2  # of the quantiles of accepted steps


def numbers_of(report: RoundReport) -> dict[str, float]:
    """The columns of a row that are finite numbers; of the steps their median."""
    columns = report.to_dict()
    # trackers draw numbers: five quantiles would be five curves
    columns["step"] = columns.pop("steps")[MEDIAN]
    numbers = {}
    for name, value in columns.items():
        # the round is the axis; a gap is not logged, or it would be drawn as 0
        if name != "round" and math.isfinite(value):
            numbers[name] = float(value)
    return numbers


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that every tracker can show: numbers and texts."""
    return {name: value for name, value in settings.items() if isinstance(value, int | float | str)}


@dataclass
class TensorBoard(Callback):
    """Event files for TensorBoard in a folder."""

    folder: str | Path = "runs"
    _writer: Any = hidden()

    def start(self, run: RunStart) -> None:
        writer = _module("torch.utils.tensorboard", "tensorboard").SummaryWriter
        self._writer = writer(str(self.folder))
        self._writer.add_text("settings", str(plain_settings(run.settings)))
        for row in run.earlier:
            self._log(row)

    def round(self, moment: RoundEnd) -> None:
        self._log(moment.report)

    def _log(self, row: RoundReport) -> None:
        for name, value in numbers_of(row).items():
            self._writer.add_scalar(name, value, row.round)

    def end(self, result: Any) -> None:
        self._writer.close()


@dataclass
class MLflow(Callback):
    """A run of MLflow; without `uri` its files lie in ./mlruns, and nothing leaves the machine."""

    experiment: str = "fedstep"
    uri: str | None = None
    _mlflow: Any = hidden()

    def start(self, run: RunStart) -> None:
        self._mlflow = _module("mlflow", "mlflow")
        uri = self.uri or Path("mlruns").absolute().as_uri()
        if uri.startswith("file:"):
            # MLflow asks for this word since it prefers a data base, which mlflow-skinny lacks
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        self._mlflow.set_tracking_uri(uri)
        self._mlflow.set_experiment(self.experiment)
        self._mlflow.start_run(run_name=run.name)
        self._mlflow.log_params(plain_settings(run.settings))
        for row in run.earlier:
            self._log(row)

    def round(self, moment: RoundEnd) -> None:
        self._log(moment.report)

    def _log(self, row: RoundReport) -> None:
        self._mlflow.log_metrics(numbers_of(row), step=row.round)

    def end(self, result: Any) -> None:
        self._mlflow.end_run()


@dataclass
class WandB(Callback):
    """A run of Weights & Biases, offline unless told otherwise (`wandb sync` sends it later)."""

    project: str = "fedstep"
    folder: str | Path | None = None
    mode: str = "offline"
    _run: Any = hidden()

    def start(self, run: RunStart) -> None:
        wandb = _module("wandb", "wandb")
        folder = None
        if self.folder is not None:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            folder = str(self.folder)
        self._run = wandb.init(
            project=self.project,
            name=run.name,
            dir=folder,
            mode=self.mode,
            config=plain_settings(run.settings),
        )
        for row in run.earlier:
            self._log(row)

    def round(self, moment: RoundEnd) -> None:
        self._log(moment.report)

    def _log(self, row: RoundReport) -> None:
        self._run.log(numbers_of(row), step=row.round)

    def end(self, result: Any) -> None:
        self._run.finish()


def _module(name: str, package: str) -> Any:
    try:
        # at the start of a run, not when the package is imported: they are heavy
        return import_module(name)
    except ModuleNotFoundError:
        raise InputError(f"{package} is not installed: pip install 'fedstep[trackers]'") from None
