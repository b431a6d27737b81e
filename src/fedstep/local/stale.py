"""Several workers on one client, without locks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.seeds import generator
from fedstep.core.vec import NewState, Scalar, State, Vec
from fedstep.local.moves import Look, Move, advance


@dataclass(frozen=True)
class Stale(Move):
    """Several workers on one client share its model without locks: gradients are of old snapshots.

        x_{k+1} = x_k - eta_k grad phi(v_k),  v_k[j] = x_{k - a}[j],  a drawn from 0 ... workers - 1

    A simulation of asynchrony with bounded staleness that repeats its bits: the ages are keyed by
    the seed of the local step. With `torn` every coordinate j has its own age, a read that others
    write into; otherwise a snapshot is of one age. A search runs at the snapshot, the only point
    the worker knows.
    """

    workers: int = 4  # the oldest snapshot is workers - 1 steps old
    torn: bool = True  # False: snapshots are consistent

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"Stale(workers={self.workers}): at least one worker is needed")

    def init(self, x: Vec) -> NewState:
        return {"past": x.unsqueeze(-2).expand(*x.shape[:-1], self.workers, -1)}

    def view(self, x: Vec, seed: Tensor, state: State) -> Vec:
        # one worker reads what it wrote: the same tensor, so that bits and short cuts are FedAvg's
        if self.workers == 1:
            return x
        ages = self._ages(seed, x.shape[-1]).to(x.device)
        clients = x.shape[:-1]
        ages = ages.reshape(*clients, 1, -1)
        one_of_the_past = ages.expand(*clients, 1, x.shape[-1])
        return state["past"].gather(-2, one_of_the_past).squeeze(-2)

    def _ages(self, seed: Tensor, dim: int) -> Tensor:
        """How old each read is, one row a client: an age a coordinate, or one for all."""
        reads = dim
        if not self.torn:
            reads = 1
        ages = []
        for client_seed in seed.reshape(-1):
            draw = generator(int(client_seed), "age")
            ages.append(torch.randint(self.workers, (reads,), generator=draw))
        return torch.stack(ages)

    def __call__(
        self,
        x: Vec,
        step: Scalar,
        d: Vec,
        look: Look,
        state: State,
    ) -> tuple[Vec, NewState]:
        new = advance(x, step, d)
        # the newest first: an age is a place in this list
        younger = state["past"][..., :-1, :]
        return new, {"past": torch.cat([new.unsqueeze(-2), younger], -2)}
