"""What decides the numbers of a run.

Equal identities give equal bits, whoever runs it, and however often it is interrupted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from fedstep.data.federation import Federation
from fedstep.run.simulate import Simulation

# how a function or a plain object ends in its repr, another one in every process
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def identity(simulation: Simulation, rounds: int) -> dict[str, Any]:
    """The settings of a run without its data.

    Of the executor only the cut: the same jobs in one process, in several or on a cluster give the
    same bits.
    """
    task = simulation.task
    sizes = task.federation.sizes.tolist()
    return {
        "algorithm": text_of(task.algorithm),
        "parameters": task.model.dim,
        "start": tensors_digest([task.model.init()]),
        "clients": len(sizes),
        "samples": sum(sizes),
        "per_round": simulation.per_round,
        "rounds": rounds,
        "batch": task.plan.batch,
        "steps": task.plan.steps,
        "epochs": task.plan.epochs,
        "order": text_of(task.plan.order),
        "cut": simulation.executor.cut,
        "seed": task.seed,
        "every": simulation.every,
        "metrics": [asdict(metric.info) for metric in simulation.measured],
    }


def data_identity(simulation: Simulation) -> dict[str, str | None]:
    """Hashes of all samples, of who has which, and of what is scored. Reads all data once."""
    by_client = None
    if simulation.by_client is not None:
        by_client = simulation.by_client.fields
    return {
        "data": federation_digest(simulation.task.federation),
        "test": fields_digest(simulation.test),
        # callbacks choose by them, and rows have their columns
        "validation": fields_digest(simulation.validation),
        "heldout": fields_digest(simulation.heldout),
        "by_client": fields_digest(by_client),
    }


def fields_digest(fields: tuple[Tensor, ...] | None) -> str | None:
    """A hash of samples that are scored, if there are any."""
    if fields is None:
        return None
    return tensors_digest(fields)


def federation_digest(federation: Federation) -> str:
    """A hash of all samples and of who has which."""
    parts = federation.parts
    return tensors_digest([*federation.fields, parts.samples, parts.offsets])


def tensors_digest(tensors: Iterable[Tensor]) -> str:
    """A hash of values, types and shapes."""
    digest = hashlib.sha256()
    for tensor in tensors:
        # the same bytes are other values in another type or shape
        shape = tuple(tensor.shape)
        header = f"{tensor.dtype} {shape}\n"
        digest.update(header.encode())
        # as bytes: numpy knows no bfloat16
        values = tensor.detach().cpu()
        flat = values.contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    # 64 bits: against mistakes, not against forgers
    return digest.hexdigest()[:16]


def text_digest(text: str) -> str:
    """A hash of a text that is too long to be kept."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def text_of(part: object) -> str:
    """A part as text; where an object lies in memory is not what it is."""
    return ADDRESS.sub("", repr(part))
