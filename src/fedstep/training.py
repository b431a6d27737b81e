"""The front door: train a model over clients without naming a learning rate."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import platform
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import fedstep
from fedstep.algorithm import Algorithm, Server
from fedstep.core.errors import InputError
from fedstep.core.vec import Vec
from fedstep.data.federation import Federation, fields_of
from fedstep.data.plan import Plan
from fedstep.execute.base import Executor, Local
from fedstep.execute.choose import choose
from fedstep.execute.processes import Processes, one_thread
from fedstep.execute.store import store_for
from fedstep.execute.task import Task
from fedstep.models.flat import FlatModel
from fedstep.models.module import Loss, ModuleModel
from fedstep.report.report import write_report
from fedstep.run.columns import metric_infos
from fedstep.run.files import plain, write_json, write_tensors
from fedstep.run.history import Run
from fedstep.run.journal import Journal
from fedstep.run.metrics.choose import GivenMetric, metrics_of
from fedstep.run.progress import show
from fedstep.run.record import RoundReport
from fedstep.run.simulate import Simulation
from fedstep.spec import build


@dataclass(frozen=True)
class Fit:
    """A finished run."""

    name: str
    metrics: list[RoundReport]
    server: Server
    model: (
        nn.Module | None
    )  # a copy of the module given, trained, in evaluation mode; None for a plain function
    settings: dict[str, Any]

    @property
    def x(self) -> Vec:
        """The trained parameters as one flat vector."""
        return self.server.readout

    def report(self, path: str | Path = "report.html") -> Path:
        """Write a self-contained HTML page of the run and return its path."""
        return write_report(
            Path(path), f"{self.name}: a run of fedstep", [self.run], settings=self.settings
        )

    @property
    def run(self) -> Run:
        """The rows under the method's name, as tables and reports take them."""
        rows = [row.to_dict() for row in self.metrics]
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

    model: any nn.Module (with `loss`), or a FunctionModel. clients: a list of `(inputs, targets)` or of Datasets.
    algorithm: a name or spec such as "fedexpsls(c=0.1)", or an Algorithm. per_round: clients a round, 20 or all by default.
    local_steps: mini-batch steps a client takes in a round (default 20), or local_epochs. test: `(inputs, targets)`.
    metrics: names such as "accuracy" or "top_k(k=5)", metrics, or functions of (predictions, targets) that give a value a
    sample; the first is compared and drawn. By default accuracy for classes, squared error and R2 for numbers.
    workers: processes that share the clients of a round, one torch thread each; the results do not depend on their number.
    out: a directory for run.json, metrics.jsonl, model.safetensors and report.html.
    """
    name = algorithm if isinstance(algorithm, str) else "custom"
    alg = build(algorithm) if isinstance(algorithm, str) else algorithm
    if not isinstance(alg, Algorithm):
        raise InputError(
            f"algorithm is {alg!r}: give a name such as 'fedsls', or call the constructor: zoo.fedsls()"
        )
    flat = copy.copy(model) if isinstance(model, FlatModel) else _wrapped(model, loss)
    federation = clients if isinstance(clients, Federation) else Federation.of(clients)
    if local_steps is not None and local_epochs is not None:
        raise InputError(
            f"local_steps={local_steps} and local_epochs={local_epochs}: give one of them"
        )
    plan = Plan(
        batch, 20 if local_steps is None and local_epochs is None else local_steps, local_epochs
    )
    if rounds < 1:
        raise InputError(f"rounds={rounds}: give at least 1")
    per_round = min(20, len(federation)) if per_round is None else per_round
    tested = None if test is None else fields_of(test, "test")
    who = choose(flat) if executor is None else executor
    if workers != 1:
        if not isinstance(who, Local):
            raise InputError(
                f"workers={workers}: this executor runs in one place; leave `workers` or `executor` out"
            )
        who = Processes(who, workers)
    simulation = Simulation(
        Task(alg, flat, federation, plan, seed),
        per_round,
        executor=who,
        test=tested,
        every=every,
        metrics=None if metrics is None else metrics_of(metrics),
    )
    settings = _settings(name, simulation, rounds)
    journal = None
    if out is not None:
        settings |= {
            "data": _data(federation),
            "loss": getattr(loss, "__name__", repr(loss)),
            "every": every,
        }
        journal = _claim(Path(out), settings)

    scratch = TemporaryDirectory(prefix="fedstep-")
    series = simulation.run(
        simulation.begin(rounds), store_for(simulation.task, Path(scratch.name)), rounds
    )
    if progress or (progress is None and sys.stderr.isatty()):
        series = show(series, rounds, name)
    rows: list[RoundReport] = []
    server = simulation.begin(rounds)
    with scratch, one_thread(), who:
        for server, row in series:  # noqa: B007
            rows.append(row)
            if journal is not None:
                journal.append(row.to_dict())
            if on_round:
                on_round(row)
    trained = flat.load(server.readout) if isinstance(flat, ModuleModel) else None
    result = Fit(name, rows, server, trained, settings)
    if out is not None:
        _save(Path(out), result)
    if sum(r.failed for r in rows) and all(math.isnan(r.steps[2]) for r in rows):
        warnings.warn(
            "every search failed, nothing was trained: scale the inputs, or lower max_step",
            stacklevel=2,
        )
    return result


def _wrapped(model: Any, loss: Loss) -> ModuleModel:
    if not isinstance(model, nn.Module):
        raise InputError(
            f"model is a {type(model).__name__}: give an nn.Module, or FunctionModel(loss, start)"
        )
    return ModuleModel(model, loss)


def _settings(name: str, simulation: Simulation, rounds: int) -> dict[str, Any]:
    task = simulation.task
    return {
        "method": name,
        "algorithm": repr(task.algorithm),
        "parameters": task.model.dim,
        "start": _digest(task.model.init()),
        "clients": len(task.federation),
        "samples": len(task.federation.parts.samples),
        "per_round": simulation.per_round,
        "rounds": rounds,
        "plan": repr(task.plan),
        "executor": repr(simulation.executor),
        "seed": task.seed,
        "metrics": [asdict(metric.info) for metric in simulation.measured],
        "versions": {
            "fedstep": fedstep.__version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
    }


def _digest(x: Tensor) -> str:
    return hashlib.sha256(x.detach().cpu().numpy().tobytes()).hexdigest()[:16]


def _data(federation: Federation) -> str:
    """A hash of all samples and of who has which."""
    digest = hashlib.sha256()
    for tensor in (*federation.fields, federation.parts.samples):
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _claim(out: Path, settings: dict[str, Any]) -> Journal:
    """Take a directory before anything is trained; refuse one that holds the results of another run."""
    old = out / "run.json"
    try:
        if old.exists() and json.loads(old.read_text()).get("settings") != plain(settings):
            raise InputError(
                f"out={out}: it holds the results of another run; choose another directory or remove it"
            )
        write_json(old, {"settings": settings})
        (out / "metrics.jsonl").write_text("")
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"out={out}: {error}; choose another directory") from None
    return Journal(out / "metrics.jsonl")


def _save(out: Path, result: Fit) -> None:
    state = {"x": result.x} if result.model is None else result.model.state_dict()
    write_tensors(out / "model.safetensors", state)
    result.report(out / "report.html")
