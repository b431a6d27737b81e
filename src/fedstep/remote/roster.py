"""Which client is where: nodes say so when they join, and are held to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.types import TargetKind
from fedstep.models.flat import FlatModel
from fedstep.models.module import ModuleModel
from fedstep.remote.parcel import DTYPES, Parcel, RefusedReply, dtype_name
from fedstep.run.identity import tensors_digest

MOST_SAMPLES = 2**40


class TwiceHeld(RefusedReply):
    """Two nodes claim the same client."""


@dataclass(frozen=True)
class Enrolment:
    """What a node says of itself."""

    node: int
    samples: Mapping[int, int]  # by client
    targets: TargetKind
    machine: str  # torch and processor: bits may depend on both

    @staticmethod
    def of(
        node: int,
        parcel: Parcel,
        model: str,
    ) -> Enrolment:
        """Read and check it; `model` is the digest of the server's."""
        values: Mapping[str, Any] = parcel.values
        # everything below comes from outside and is looked at before it is used
        clients = _numbers(values, "clients")
        counts = _numbers(values, "samples")
        if not clients or len(clients) != len(counts) or len(set(clients)) != len(clients):
            raise RefusedReply("its clients are not listed once each, with a number of samples")
        if min(counts) < 1:
            raise RefusedReply("it has a client without samples")
        if values.get("model") != model:
            raise RefusedReply(
                "its model is another one (layers, sizes, frozen values): "
                "build the same on server and clients"
            )
        dtype = DTYPES.get(str(values.get("target_dtype")))
        rank = values.get("target_rank")
        if dtype is None or type(rank) is not int:
            raise RefusedReply("it does not say what its targets are")
        # shown in a warning: cut, so that nobody floods the log
        torch_version = str(values.get("torch"))[:40]
        cpu = str(values.get("cpu"))[:40]
        return Enrolment(
            node=node,
            samples=dict(zip(clients, counts, strict=True)),
            targets=TargetKind(dtype, rank),
            machine=f"torch {torch_version}, {cpu}",
        )


@dataclass
class Roster:
    """All clients, where they are, and how many samples each has.

    Sample counts are what a client said when it was first seen: they decide weights, so they
    cannot be changed later.
    """

    samples: dict[int, int] = field(default_factory=dict)  # by client
    node_of: dict[int, int] = field(default_factory=dict)  # by client
    silent: set[int] = field(default_factory=set)  # nodes that owe an answer

    @property
    def nodes(self) -> set[int]:
        return set(self.node_of.values())

    def enrol(self, enrolment: Enrolment, present: Iterable[int]) -> None:
        """Take a node's clients in, or move them to it if their old node is gone or silent."""
        # a node that owes an answer may be the same machine under its old number
        reachable = set(present) - self.silent
        for client, samples in enrolment.samples.items():
            before = self.samples.get(client, samples)
            if before != samples:
                raise RefusedReply(
                    f"client {client} had {before} samples, and now it claims {samples}"
                )
            holder = self.node_of.get(client, enrolment.node)
            if holder != enrolment.node and holder in reachable:
                raise TwiceHeld(
                    f"client {client} is held by node {holder} and claimed by node "
                    f"{enrolment.node}; give every node a partition-id of its own"
                )
        # after all were checked: a node is taken in whole or not at all
        for client, samples in enrolment.samples.items():
            self.samples[client] = samples
            self.node_of[client] = enrolment.node
        self.silent.discard(enrolment.node)

    def missing(self, clients: int | None) -> list[int]:
        """The numbers nobody holds; without a given number of clients, those below the largest."""
        if clients is None:
            clients = max(self.samples, default=-1) + 1
        return [client for client in range(clients) if client not in self.samples]

    def counts(self) -> Tensor:
        """Samples of every client, in the order of their numbers."""
        return torch.tensor([self.samples[client] for client in sorted(self.samples)])


def model_digest(model: FlatModel) -> str:
    """What two ends must agree on: names, sizes and types, and the values that are not trained."""
    start = model.init()
    lines = [f"{type(model).__name__} {model.dim} {dtype_name(start.dtype)}"]
    frozen: list[Tensor] = []
    if isinstance(model, ModuleModel):
        for name, value in model.parameters(start).items():
            lines.append(f"{name} {tuple(value.shape)}")
        for name, value in model.untrained().items():
            lines.append(f"{name} {tuple(value.shape)} untrained")
            frozen.append(value)
    digest = hashlib.sha256("\n".join(lines).encode())
    digest.update(tensors_digest(frozen).encode())
    return digest.hexdigest()[:16]


def check_complete(
    roster: Roster,
    clients: int | None,
    refused: Mapping[int, str],
) -> None:
    """Refuse to begin while somebody is missing; says who, and whom we turned away."""
    missing = roster.missing(clients)
    if roster.samples and not missing:
        return
    text = "no node has answered"
    if roster.samples:
        named = ", ".join(map(str, missing[:10]))
        text = f"nobody holds client {named}"
        # one line, however many are missing
        if len(missing) > 10:
            text += f" and {len(missing) - 10} more"
    for node, reason in refused.items():
        text += f"; node {node} was refused: {reason}"
    raise InputError(f"{text}; start the nodes, or give a longer patience")


def _numbers(values: Mapping[str, Any], name: str) -> list[int]:
    given = values.get(name)
    if not isinstance(given, list | tuple):
        raise RefusedReply(f"{name} is no list")
    for number in given:
        if type(number) is not int or not 0 <= number <= MOST_SAMPLES:
            raise RefusedReply(f"{name} has {str(number)[:40]!r}, expected whole numbers")
    return list(given)
