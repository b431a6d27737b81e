"""A run made again in memory, from its first round, as far as one likes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from fedstep.run.files import plain
from fedstep.run.record import RoundReport
from fedstep.study.dealt import dealt_task_of
from fedstep.study.plan import Job
from fedstep.study.work import executor_for, manifest, simulation


@dataclass(frozen=True)
class RunAgain:
    """What decides the numbers of a run today, and its rows."""

    identity: dict[str, Any]
    rows: list[dict[str, Any]]


def run_again(
    job: Job,
    data: Path | None,
    rounds: int,
    workers: int,
    watch: Callable[[RoundReport], None],
) -> RunAgain:
    """The first rounds of a run. Nothing that lies in a results folder is read, or written."""
    torch.set_num_threads(1)  # as runs of a study have it
    made, split = simulation(job, data)
    identity, _ = manifest(job, made, split, dealt_task_of(job, data).data_digest)
    rows = []
    with (
        TemporaryDirectory(prefix="fedstep-") as scratch,
        executor_for(made.task, workers) as executor,
    ):
        made = replace(made, executor=executor)
        # the horizon stays that of the whole run: schedules may depend on it
        server = made.begin(job.setting.rounds)
        # what clients remember may be too large for the memory
        store = made.new_store(Path(scratch))
        for _, row in made.run(server, store, rounds):
            watch(row)
            rows.append(plain(row.to_dict()))  # as a results folder has it
    return RunAgain(identity, rows)
