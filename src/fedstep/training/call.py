"""`fit`: from what the caller gives to a finished run."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from fedstep.algorithm import Algorithm, Server
from fedstep.core.errors import InputError
from fedstep.core.vec import Vec
from fedstep.data.federation import Federation
from fedstep.execute.base import Executor
from fedstep.execute.processes import one_thread
from fedstep.execute.store import DiskStore, Store, lives_on_disk
from fedstep.execute.task import Task
from fedstep.models.flat import FlatModel
from fedstep.models.losses import Loss
from fedstep.models.module import ModuleModel
from fedstep.report.report import write_report
from fedstep.run.columns import metric_infos
from fedstep.run.driver import RunFolder, Series, opened, program_versions
from fedstep.run.history import Run
from fedstep.run.identity import data_identity, identity, text_of
from fedstep.run.metrics.choose import GivenMetric
from fedstep.run.progress import show
from fedstep.run.record import RoundReport
from fedstep.run.scratch import scratch_folder
from fedstep.run.simulate import Simulation
from fedstep.training.arguments import (
    algorithm_of,
    cohort_size_of,
    executor_of,
    federation_of,
    flat_model_of,
    metrics_given,
    name_of,
    plan_of,
    test_fields_of,
    wants_progress,
)

REPORT = "report.html"


@dataclass(frozen=True)
class Fit:
    """A finished run."""

    name: str
    rows: list[RoundReport]  # one a round, in order
    server: Server
    model: nn.Module | None  # a trained copy in evaluation mode; None for a plain function
    settings: dict[str, Any]

    @property
    def x(self) -> Vec:
        """The trained parameters as one flat vector."""
        return self.server.readout

    def report(self, path: str | Path = REPORT) -> Path:
        """Write a self-contained HTML page of the run and return its path."""
        title = f"{self.name}: a run of fedstep"
        return write_report(Path(path), title, [self.run], settings=self.settings)

    @property
    def run(self) -> Run:
        """The rows under the method's name, as tables and reports take them."""
        rows = [row.to_dict() for row in self.rows]
        return Run(self.name, rows, metric_infos(self.settings))


def fit(
    model: nn.Module | FlatModel,
    clients: Sequence[Any] | Federation,
    algorithm: Algorithm | str = "fedsls",
    rounds: int = 100,
    per_round: int | None = None,
    *,
    loss: Loss = functional.cross_entropy,
    test: Any = None,
    seed: int = 0,
    out: str | Path | None = None,
    batch: int = 50,
    local_steps: int | None = None,
    local_epochs: int | None = None,
    every: int = 1,
    metrics: Sequence[GivenMetric] | None = None,
    executor: Executor | None = None,
    workers: int = 1,
    progress: bool | None = None,
    on_round: Callable[[RoundReport], None] | None = None,
) -> Fit:
    """Train over clients; nothing is changed in what is passed in.

    model: any nn.Module (with `loss`), or a FunctionModel. clients: a list of `(inputs, targets)`
    or of Datasets. algorithm: a name or spec such as "fedexpsls(c=0.1)", or an Algorithm.
    per_round: clients a round, 20 or all by default. local_steps: mini-batch steps a client takes
    in a round (default 20), or local_epochs. test: `(inputs, targets)`. metrics: names such as
    "accuracy" or "top_k(k=5)", metrics, or functions of (predictions, targets) that give a value a
    sample; the first is compared and drawn. By default accuracy for classes, squared error and R2
    for numbers. workers: processes that share the clients of a round, one torch thread each; the
    results do not depend on their number.
    out: a directory for the run, which `fedstep report`, `compare` and `export` open. A call that
    was interrupted goes on from there when it is made again, to the same bits; one that was
    finished is read back.
    """
    method = algorithm_of(algorithm)
    flat = flat_model_of(model, loss)
    federation = federation_of(clients)
    plan = plan_of(batch, local_steps, local_epochs)
    if rounds < 1:
        raise InputError(f"rounds={rounds}: give at least 1")
    simulation = Simulation(
        task=Task(method, flat, federation, plan, seed),
        per_round=cohort_size_of(per_round, federation),
        executor=executor_of(executor, workers, flat),
        test=test_fields_of(test),
        every=every,
        metrics=metrics_given(metrics),
    )
    training = _Training(
        name=name_of(algorithm),
        simulation=simulation,
        rounds=rounds,
        flat=flat,
        loss=text_of(getattr(loss, "__name__", loss)),
        progress=wants_progress(progress),
        on_round=on_round,
    )
    with one_thread(), simulation.executor:
        result = training.run(out)
    _warn_if_nothing_was_trained(result.rows)
    return result


@dataclass(frozen=True)
class _Training:
    """A call of `fit` after its arguments have been understood."""

    name: str
    simulation: Simulation
    rounds: int
    flat: FlatModel
    loss: str
    progress: bool
    on_round: Callable[[RoundReport], None] | None

    def run(self, out: str | Path | None) -> Fit:
        """Train, with or without a folder."""
        if out is None:
            return self._in_memory()
        with opened(Path(out)) as folder:
            return self._in_folder(folder)

    def _in_memory(self) -> Fit:
        """Nothing is written but the memories of clients that do not fit into this process."""
        server = self.simulation.begin(self.rounds)
        rows: list[RoundReport] = []
        with _memories(self.simulation.task) as store:
            series = self.simulation.run(server, store, self.rounds)
            for after_round, row in self._watched(series):
                server = after_round
                rows.append(row)
        settings = {
            "method": self.name,
            **identity(self.simulation, self.rounds),
            "versions": program_versions(),
        }
        return self._result(rows, server, settings)

    def _in_folder(self, folder: RunFolder) -> Fit:
        """From where the last call stopped to the finished mark; a finished run is read back."""
        run_identity = {
            **identity(self.simulation, self.rounds),
            **data_identity(self.simulation),
            "loss": self.loss,
        }
        # before asking whether it is finished: the finished run of somebody else is not ours
        settings = folder.identify(run_identity, about={"method": self.name})
        if folder.is_finished(self.rounds):
            server = folder.finished_server()
        else:
            # a page of the run before it was damaged, or of a call that was interrupted
            (folder.path / REPORT).unlink(missing_ok=True)
            server = folder.complete(
                self.simulation,
                self.rounds,
                model_of=self._model_tensors,
                watch=self._watched,
            )
        result = self._result(folder.rows(), server, settings)
        # always: nothing says whether one that is there is whole
        result.report(folder.path / REPORT)
        for note in folder.notes:
            warnings.warn(note, stacklevel=4)
        return result

    def _module(self, server: Server) -> nn.Module | None:
        """The trained module; None for a plain function."""
        if isinstance(self.flat, ModuleModel):
            return self.flat.load(server.readout)
        return None

    def _model_tensors(self, server: Server) -> dict[str, Tensor]:
        """What model.safetensors holds: what the user's module loads, or the flat vector."""
        module = self._module(server)
        if module is None:
            return {"x": server.readout}
        return module.state_dict()

    def _watched(self, series: Series) -> Series:
        """Every round is shown and passed to the caller's function."""
        if self.progress:
            series = show(series, self.rounds, self.name)
        for server, row in series:
            if self.on_round is not None:
                self.on_round(row)
            yield server, row

    def _result(self, rows: list[RoundReport], server: Server, settings: dict[str, Any]) -> Fit:
        return Fit(self.name, rows, server, self._module(server), settings)


@contextmanager
def _memories(task: Task) -> Iterator[Store]:
    """Clients' memories of a run that leaves nothing behind."""
    if not lives_on_disk(task):
        yield Store()
        return
    with scratch_folder() as folder:
        yield DiskStore(folder=folder / "memories", history=False)


def _warn_if_nothing_was_trained(rows: Sequence[RoundReport]) -> None:
    failed = sum(row.failed for row in rows)
    median_steps = [row.steps[2] for row in rows]
    if failed and all(math.isnan(step) for step in median_steps):
        warnings.warn(
            "every search failed, nothing was trained: scale the inputs, or lower max_step",
            stacklevel=3,
        )
