"""Global generators that are set for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Global generators set to `seed` inside, and left afterwards as they were found."""
    devices = []
    if device.type == "cuda":
        devices.append(device)
    with torch.random.fork_rng(devices=devices):
        if device.type == "cpu":
            # its generator alone: `torch.manual_seed` notes the stack for devices that are not
            # there, which costs more than a step of a small model
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)
        yield
