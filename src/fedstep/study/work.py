"""One run of a study, from the last checkpoint to the end."""

from __future__ import annotations

import platform
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter

import numpy
import torch
from torch import Tensor

import fedstep
from fedstep.core.seeds import key
from fedstep.data import tasks
from fedstep.data.labels import label_name
from fedstep.data.parts import label_counts
from fedstep.data.plan import Plan
from fedstep.data.rules import rule
from fedstep.execute.choose import choose
from fedstep.execute.processes import Processes
from fedstep.execute.profiler import TimeProfiler
from fedstep.execute.store import store_for
from fedstep.execute.task import Task
from fedstep.models.named import named
from fedstep.run import checkpoint
from fedstep.run.claim import claimed
from fedstep.run.files import write_json, write_tensors
from fedstep.run.journal import Journal
from fedstep.run.metrics import metrics_of
from fedstep.run.profile import PROFILE_FILE, profile_of
from fedstep.run.record import RoundReport
from fedstep.run.simulate import Simulation
from fedstep.server.weighting import BySamples, Equal
from fedstep.spec import build
from fedstep.study.plan import Job, Study

SHARE = 0.05  # of the time may go into checkpoints


def folder_of(run: Job, home: Path) -> Path:
    """Where a run's files are."""
    return home / "runs" / run.digest


def finished(run: Job, home: Path) -> bool:
    """Whether there is nothing left to do: the run is closed and all its rows are there."""
    folder = folder_of(run, home)
    return (folder / "done.json").exists() and len(
        Journal(folder / "rounds.jsonl").rows()
    ) == run.setting.rounds


def prepare(study: Study) -> None:
    """Refuse a model or a partition that cannot be made."""
    named(study.setting.model, 0)
    if study.setting.partition:
        rule(study.setting.partition)


@lru_cache(maxsize=2)
def split(
    data: str, partition: str | None, seed: int, limit: int | None, directory: Path | None
) -> tasks.Split:
    """The task of a run; runs that follow one another share it."""
    return tasks.load(data, rule(partition) if partition else None, directory, seed, limit)


def simulation(run: Job, data: Path | None) -> tuple[Simulation, tasks.Split]:
    """The run as a simulation."""
    s = run.setting
    dealt = split(s.data, s.partition, run.seed, s.limit, data)
    model = named(s.model, key(run.seed, "model"))
    alg = build(run.method)
    if s.weighting is not None:
        alg = replace(alg, weighting=Equal() if s.weighting == "equal" else BySamples())
    task = Task(alg, model, dealt.federation, Plan(s.batch, s.steps, s.epochs), run.seed)
    sim = Simulation(
        task,
        min(s.per_round, len(dealt.federation)),
        executor=choose(model),
        test=_first(dealt.test, s.eval_limit),
        every=s.every,
        heldout=_first(dealt.heldout, s.eval_limit),
        train=s.train_loss,
        metrics=metrics_of(s.metrics) if s.metrics else None,
    )
    return sim, dealt


def note_labels(study: Study, home: Path, data: Path | None) -> None:
    """Write which labels the clients of the first seed hold, for the report; nothing where targets are no classes."""
    s = study.setting
    dealt = split(s.data, s.partition, study.seeds[0], s.limit, data).federation
    if dealt.fields[-1].is_floating_point() or dealt.fields[-1].dim() != 1:
        return
    table = label_counts([p.numpy() for p in dealt.parts], dealt.fields[-1].numpy())
    held = [k for k in range(table.shape[1]) if table[:, k].any()]
    names = [label_name(s.data, k) for k in held]
    write_json(
        home / "labels.json",
        {"seed": study.seeds[0], "labels": names, "counts": table[:, held].tolist()},
    )


def _first(fields: tuple[Tensor, ...] | None, limit: int | None) -> tuple[Tensor, ...] | None:
    return None if fields is None else tuple(f[:limit] for f in fields)


def work(
    run: Job,
    home: Path,
    data: Path | None,
    watch: Callable[[RoundReport], None] | None = None,
    workers: int = 1,
    profile: bool = False,
) -> list[str]:
    """Bring a run to its end; returns what there is to say about damaged checkpoints."""
    torch.set_num_threads(1)  # the same bits on every machine size, and room for other workers
    with claimed(folder_of(run, home)):
        if finished(run, home):
            return []
        sim, dealt = simulation(run, data)
        profiler = TimeProfiler()
        begun = perf_counter()
        if profile:
            sim = replace(sim, task=replace(sim.task, profiler=profiler))
        with Processes(choose(sim.task.model), workers) if workers > 1 else nullcontext() as crew:
            said = _work(
                run, replace(sim, executor=crew or sim.executor), dealt, folder_of(run, home), watch
            )
        if profile:
            if crew is not None:
                profiler.merge({"idle": crew.idle})
            wall = perf_counter() - begun
            spent = profile_of(profiler.drain(), wall, run.setting.rounds, workers)
            write_json(folder_of(run, home) / PROFILE_FILE, spent)
        return said


def _work(
    run: Job,
    sim: Simulation,
    dealt: tasks.Split,
    folder: Path,
    watch: Callable[[RoundReport], None] | None,
) -> list[str]:
    state = checkpoint.restore(folder)
    fresh = store_for(sim.task, folder / checkpoint.MEMORIES)
    begin, store, said = state or (sim.begin(run.setting.rounds), fresh, [])
    journal = Journal(folder / "rounds.jsonl")
    journal.keep(begin.round)
    write_json(
        folder / "spec.json",
        {**asdict(run), "digest": run.digest, "partition": dealt.digest, **_about(dealt, sim)},
    )
    spent, cost, since = 0.0, 0.0, perf_counter()
    server = begin
    for server, row in sim.run(begin, store, run.setting.rounds):
        journal.append(row.to_dict())
        if watch:
            watch(row)
        if (perf_counter() - since) * SHARE >= cost:
            journal.flush()
            clock = perf_counter()
            checkpoint.save(folder, server, store)
            since = perf_counter()
            cost = since - clock
            spent += cost
    journal.flush()
    write_tensors(folder / "model.safetensors", {"readout": server.readout, "x": server.x})
    write_json(
        folder / "done.json", {"rounds": server.round, "checkpoint_seconds": round(spent, 3)}
    )
    checkpoint.remove(folder)
    return said


def _about(dealt: tasks.Split, sim: Simulation) -> dict[str, object]:
    sizes = [p.numel() for p in dealt.federation.parts]
    return {
        "note": dealt.note,
        "algorithm": repr(sim.task.algorithm),
        "parameters": sim.task.model.dim,
        "clients": len(sizes),
        "samples": sum(sizes),
        "test_samples": 0 if dealt.test is None else len(dealt.test[1]),
        "metrics": [asdict(metric.info) for metric in sim.measured],
        "heldout_samples": 0 if dealt.heldout is None else len(dealt.heldout[1]),
        "versions": {
            "fedstep": fedstep.__version__,
            "torch": str(torch.__version__),
            "numpy": numpy.__version__,
            "python": platform.python_version(),
        },
    }
