"""A data set dealt to clients, and what is to be recorded of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from fedstep.core.errors import InputError, unknown
from fedstep.core.seeds import generator
from fedstep.data.federation import Federation
from fedstep.data.partition import Natural, Partitioner
from fedstep.data.parts import Parts, partition_hash
from fedstep.data.sets import data_set, data_sets
from fedstep.data.sets.record import FromFiles, Pair, Raw


@dataclass(frozen=True)
class Split:
    """A federated task: clients, test samples, samples of unseen clients."""

    federation: Federation
    test: Pair | None
    heldout: Pair | None
    digest: str  # of the partition
    note: str  # what a reader of the results should know
    validation: Pair | None = None  # samples of clients that were set aside


def load(
    name: str,
    partition: Partitioner | None,
    data: Path | None = None,
    seed: int = 0,
    limit: int | None = None,
) -> Split:
    """The data set dealt to clients; `limit` keeps the first clients only.

    Test samples that also occur in the training data are dropped, and the note says how many.
    """
    raw = data_set(name).read(data)
    parts = _dealt(name, raw, partition, seed)
    notes = [parts.note]
    test = raw.test
    if test is not None:
        inputs, targets = test
        # a sample that was trained on would be scored too well
        new = unseen(inputs, raw.train[0])
        test = inputs[new], targets[new]
        dropped = int((~new).sum())
        if dropped:
            notes.append(f"{dropped} test samples that occur in the training data are left out")
    return Split(
        federation=Federation(
            raw.train,
            parts[:limit],
            raw.transform,
        ),
        test=test,
        heldout=raw.heldout,
        # of all clients: the first ten of a hundred and of a thousand are not the same part
        digest=partition_hash(parts),
        note="; ".join(note for note in notes if note),
    )


def _dealt(
    name: str,
    raw: Raw,
    partition: Partitioner | None,
    seed: int,
) -> Parts:
    if partition is not None and not isinstance(partition, Natural):
        targets = raw.train[1]
        return partition(targets, seed)
    if raw.ids is None:
        raise InputError(
            f"task {name} has no natural clients: "
            "give a partition such as Dirichlet(alpha=0.3, clients=100)"
        )
    # of the ids, not of the labels as all other rules
    return Natural()(raw.ids, seed)


def set_aside(split: Split, count: int, seed: int) -> Split:
    """The task without `count` of its clients, whose samples take the place of the test samples.

    What is chosen by them has never seen a test sample. The seed decides which clients they are.
    """
    federation = split.federation
    population = len(federation)
    if not 1 <= count < population:
        raise InputError(
            f"{count} clients to set aside: there are {population}; give 1 to {population - 1}"
        )
    order = torch.randperm(population, generator=generator(seed, "set aside"))
    aside = set(order[:count].tolist())
    parts = list(federation.parts)
    rows = torch.cat([parts[client] for client in sorted(aside)])
    inputs, targets = federation.fields
    staying = [part for client, part in enumerate(parts) if client not in aside]
    return replace(
        split,
        federation=replace(federation, parts=Parts.of(staying)),
        test=None,
        heldout=None,
        validation=(inputs[rows], targets[rows]),
    )


def unseen(
    test: Tensor,
    train: Tensor,
) -> Tensor:
    """Which of the test inputs do not occur in the training data."""
    # digests: the rows themselves would be a second copy of the data
    seen = {_digest(row) for row in train.numpy()}
    return torch.tensor([_digest(row) not in seen for row in test.numpy()])


def _digest(row: NDArray[Any]) -> bytes:
    return blake2b(row.tobytes(), digest_size=16).digest()


def fetch(name: str) -> Raw:
    """Download a data set from the Hugging Face hub and keep it in the cache.

    `load` finds it there where there are no files.
    """
    on_hub = [known.name for known in data_sets().values() if known.hub]
    record = data_sets().get(name)
    if not isinstance(record, FromFiles) or name not in on_hub:
        raise InputError(unknown("task of the hub", name, on_hub))
    return record.fetch_and_keep()
