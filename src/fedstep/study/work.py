"""One run of a study, from the last checkpoint to the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from fedstep.algorithm import Server
from fedstep.core.errors import InputError
from fedstep.core.seeds import key
from fedstep.data import tasks
from fedstep.data.partition import partitioner
from fedstep.data.plan import Plan
from fedstep.execute.base import Executor, Local
from fedstep.execute.choose import choose
from fedstep.execute.processes import Processes
from fedstep.execute.profiler import TimeProfiler
from fedstep.execute.task import Task
from fedstep.models.first_call import check_fit
from fedstep.models.text import named_model
from fedstep.run.cpu import cpu_kind
from fedstep.run.devices import placed
from fedstep.run.driver import RunFolder, Series, opened
from fedstep.run.files import write_sealed
from fedstep.run.guarded import usually_guarded
from fedstep.run.identity import fields_digest, text_of
from fedstep.run.metrics import Metric, metrics_of
from fedstep.run.profile import PROFILE_FILE, profile_of
from fedstep.run.record import RoundReport
from fedstep.run.simulate import Simulation
from fedstep.server.weighting import BySamples, Equal, Weighting
from fedstep.spec import build
from fedstep.study.dealt import dealt_task_of
from fedstep.study.kept import folder_of
from fedstep.study.plan import Job, Setting, Study

WEIGHTING: dict[str, Weighting] = {"equal": Equal(), "samples": BySamples()}

Watch = Callable[[RoundReport], None]
Spread = Callable[[Local], Executor]  # who does the work that an executor alone would do


def prepare(study: Study) -> None:
    """Refuse a model or a partition that cannot be made."""
    named_model(study.setting.model, 0)
    if study.setting.partition:
        partitioner(study.setting.partition)


def simulation(run: Job, data: Path | None) -> tuple[Simulation, tasks.Split]:
    """The run as a simulation."""
    setting = run.setting
    split = dealt_task_of(run, data).split
    if setting.set_aside is not None:
        split = tasks.set_aside(split, setting.set_aside, run.seed)
    # a key of its own: all methods of a seed start from the same model
    model = placed(named_model(setting.model, key(run.seed, "model")))
    # torch would say so in the middle of a round, in a hundred lines
    try:
        check_fit(model, split.federation)
    except InputError as error:
        raise InputError(f"{setting.model} on {setting.data}: {error}") from None
    algorithm = build(run.method)
    if setting.weighting is not None:
        algorithm = replace(algorithm, weighting=WEIGHTING[setting.weighting])
    if setting.guard:
        algorithm = usually_guarded(algorithm)
    plan = Plan(setting.batch, setting.steps, setting.epochs)
    made = Simulation(
        task=Task(algorithm, model, split.federation, plan, run.seed),
        per_round=min(setting.per_round, len(split.federation)),
        executor=choose(model),
        test=_first(split.test, setting.eval_limit),
        every=setting.every,
        heldout=_first(split.heldout, setting.eval_limit),
        train=setting.train_loss,
        metrics=_metrics(setting),
        validation=_first(split.validation, setting.eval_limit),
    )
    return made, split


def _metrics(setting: Setting) -> tuple[Metric, ...] | None:
    """What the study measures; None: what is usual for such targets."""
    if not setting.metrics:
        return None
    return metrics_of(setting.metrics)


def _first(
    fields: tuple[Tensor, ...] | None,
    limit: int | None,
) -> tuple[Tensor, ...] | None:
    if fields is None:
        return None
    return tuple(field[:limit] for field in fields)


def work(
    run: Job,
    home: Path,
    data: Path | None,
    watch: Watch | None = None,
    workers: int = 1,
    profile: bool = False,
    patience: float = 0.0,
    spread: Spread | None = None,
) -> list[str]:
    """Bring a run to its end; returns what there is to say about damaged files.

    `patience`: seconds to wait for another process that holds the run, such as one that is dying on
    another machine. `spread`: other workers for the rounds than processes of this machine.
    """
    torch.set_num_threads(1)  # the same bits on every machine size, and room for other workers
    with opened(folder_of(run, home), patience) as folder:
        if not folder.is_finished(run.setting.rounds):
            made, split = simulation(run, data)
            # of all samples: which of them train is part of the digest
            data_digest = dealt_task_of(run, data).data_digest
            identity, about = manifest(run, made, split, data_digest)
            # before the first round: the folder of another run is refused untouched
            folder.identify(identity, about)
            with executor_for(made.task, workers, spread) as executor:
                made = replace(made, executor=executor)
                if profile:
                    _complete_timed(folder, run, made, watch, workers)
                else:
                    _complete(folder, run, made, watch)
        return folder.notes


def executor_for(task: Task, workers: int, spread: Spread | None = None) -> Executor:
    """Whoever does the rounds of a run; the bits are the same."""
    alone = choose(task.model)
    if spread is not None:
        return spread(alone)
    if workers == 1:
        return alone
    return Processes(alone, workers)


def _complete(
    folder: RunFolder,
    run: Job,
    made: Simulation,
    watch: Watch | None,
) -> None:
    def watched(series: Series) -> Series:
        for server, row in series:
            if watch is not None:
                watch(row)
            yield server, row

    folder.complete(made, run.setting.rounds, _model_tensors, watched)


def _complete_timed(
    folder: RunFolder,
    run: Job,
    made: Simulation,
    watch: Watch | None,
    workers: int,
) -> None:
    """The same, with a profile of where the time went."""
    profiler = TimeProfiler()
    begun = perf_counter()
    timed_task = replace(made.task, profiler=profiler)
    timed = replace(made, task=timed_task)
    _complete(folder, run, timed, watch)
    # what workers wait for is nobody's work: no hook lies there
    if isinstance(made.executor, Processes):
        profiler.merge({"idle": made.executor.idle})
    wall = perf_counter() - begun
    profile = profile_of(
        profiler.drain(),
        wall,
        run.setting.rounds,
        workers,
    )
    write_sealed(folder.path / PROFILE_FILE, profile)


def _model_tensors(server: Server) -> dict[str, Tensor]:
    return {"readout": server.readout, "x": server.x}


def manifest(
    run: Job,
    made: Simulation,
    split: tasks.Split,
    data_digest: str,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What decides the numbers, and what else is worth knowing."""
    sizes = split.federation.sizes.tolist()
    # the samples too: a run that goes on over changed data would be neither run
    identity = {
        "digest": run.digest,  # of setting, method and seed
        # the parts that the method has today: another version may have made it of others
        "algorithm": text_of(made.task.algorithm),
        "partition": split.digest,
        "data": data_digest,
        "test": fields_digest(made.test),
        "heldout": fields_digest(made.heldout),
        "validation": fields_digest(made.validation),
        "cut": made.executor.cut,
    }
    about = {
        **asdict(run),
        "note": split.note,
        "cpu": cpu_kind(),
        "parameters": made.task.model.dim,
        "clients": len(sizes),
        "samples": sum(sizes),
        "test_samples": _count(split.test),
        "heldout_samples": _count(split.heldout),
        "metrics": [asdict(metric.info) for metric in made.measured],
    }
    return identity, about


def _count(fields: tuple[Tensor, ...] | None) -> int:
    if fields is None:
        return 0
    return len(fields[1])
