"""The workload as torch sees it, for all competitors that are built on torch."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import torch
from torch import Tensor, nn

from work import Work


def module_of(work: Work) -> nn.Module:
    """The workload's module at its start."""
    module = import_module(f"workloads.{work.name}").module()
    module.load_state_dict(
        {name: torch.from_numpy(value.copy()) for name, value in work.start.items()}
    )
    return module


def clients_of(work: Work) -> list[tuple[Tensor, Tensor]]:
    """(inputs, targets) of every client."""
    return list(zip(torch.from_numpy(work.inputs), torch.from_numpy(work.targets), strict=True))


def batches(work: Work, x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """A client's batches of a round, shuffled anew in every pass."""
    for _ in range(work.epochs):
        for index in torch.randperm(len(y)).split(work.batch):
            yield x[index], y[index]
