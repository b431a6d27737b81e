"""The task of a study's runs: data dealt to clients, once for the runs that share it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fedstep.data import tasks
from fedstep.data.partition import partitioner
from fedstep.data.parts import label_counts
from fedstep.data.sets import data_set
from fedstep.run.files import write_sealed
from fedstep.run.identity import federation_digest
from fedstep.study.plan import Job, Study


@dataclass(frozen=True)
class DealtTask:
    """A task dealt to clients, and the hash of all its samples."""

    split: tasks.Split
    data_digest: str  # costs a pass over all samples, so it is kept with them


# two: the runs of a study come seed by seed, and data may be as large as the memory
@lru_cache(maxsize=2)
def dealt_task(
    data: str,
    partition: str | None,
    seed: int,
    limit: int | None,
    directory: Path | None,
) -> DealtTask:
    """The task of a run; runs that follow one another share it."""
    partition_rule = None
    if partition:
        partition_rule = partitioner(partition)
    split = tasks.load(data, partition_rule, directory, seed, limit)
    return DealtTask(split, federation_digest(split.federation))


def dealt_task_of(run: Job, data: Path | None) -> DealtTask:
    """The task of a job, from the data directory."""
    setting = run.setting
    return dealt_task(
        setting.data,
        setting.partition,
        run.seed,
        setting.limit,
        data,
    )


def note_labels(
    study: Study,
    home: Path,
    data: Path | None,
) -> None:
    """Write which labels the clients of the first seed hold, for the report.

    Nothing is written where targets are no classes.
    """
    setting = study.setting
    seed = study.seeds[0]
    split = dealt_task(
        setting.data,
        setting.partition,
        seed,
        setting.limit,
        data,
    ).split
    targets = split.federation.fields[-1]
    if targets.is_floating_point() or targets.dim() != 1:
        return
    counts = label_counts(split.federation.parts, targets.numpy())
    present = []
    for label in range(counts.shape[1]):
        # a label that no client holds would be an empty row of the chart
        if counts[:, label].any():
            present.append(label)
    record = data_set(setting.data)
    write_sealed(
        home / "labels.json",
        {
            "seed": seed,
            "labels": [record.label_name(label) for label in present],
            "counts": counts[:, present].tolist(),
        },
    )
