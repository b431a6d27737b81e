"""What happened on the client, one column a local step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan

import torch
from torch import Tensor

from fedstep.core.vec import Scalar, Vec
from fedstep.steps.rule import Outcome


@dataclass(frozen=True)
class StepRecord:
    """What one local step leaves behind, one entry a client."""

    live: Tensor  # bool: False where the client's batches are used up
    loss: Scalar  # phi before the step
    step: Scalar  # step taken, 0 where none
    trials: Tensor  # trials of the search
    failed: Tensor  # bool
    slopes: Tensor  # slopes learnt at trials

    @staticmethod
    def of(loss: Scalar, outcome: Outcome) -> StepRecord:
        """A step of clients that are all at work."""
        slopes = outcome.slopes
        if slopes is None:
            slopes = torch.zeros_like(outcome.trials)
        return StepRecord(
            live=torch.ones_like(loss, dtype=torch.bool),
            loss=loss,
            step=outcome.step,
            trials=outcome.trials,
            failed=outcome.failed,
            slopes=slopes,
        )

    def of_rows(self, rows: Tensor, clients: int) -> StepRecord:
        """The record of a block in which only these rows took the step."""

        def placed(column: Tensor) -> Tensor:
            return column.new_zeros(clients).index_copy(0, rows, column)

        return StepRecord(
            live=placed(self.live),
            loss=placed(self.loss),
            step=placed(self.step),
            trials=placed(self.trials),
            failed=placed(self.failed),
            slopes=placed(self.slopes),
        )


@dataclass(frozen=True)
class Trace:
    """Per client and local step.

    A client with fewer steps than its block has `live` False in the last columns.
    """

    live: Tensor  # (..., K) bool
    losses: Tensor  # (..., K) phi before the step
    sizes: Tensor  # (..., K) step taken, 0 where none
    trials: Tensor  # (..., K) trials of the search
    failed: Tensor  # (..., K) bool
    forwards: int  # of one gradient; trials and their slopes come on top
    backwards: int
    # (..., K) slopes learnt at trials, a forward and a backward pass each; None: none
    slopes: Tensor | None = None
    # of all clients and steps together: gradients elsewhere than at the point and at trials
    more_forwards: int = 0
    more_backwards: int = 0

    @staticmethod
    def of(
        records: Sequence[StepRecord],
        x: Vec,
        forwards: int,
        backwards: int,
    ) -> Trace:
        """The records of a round, for clients at x whose gradients cost so many passes."""
        none = _no_steps(x)

        def column(name: str) -> Tensor:
            # a client without batches has a trace of no columns, not no trace
            if not records:
                empty: Tensor = getattr(none, name)
                return empty
            return torch.stack([getattr(record, name) for record in records], -1)

        return Trace(
            live=column("live"),
            losses=column("loss"),
            sizes=column("step"),
            trials=column("trials"),
            failed=column("failed"),
            forwards=forwards,
            backwards=backwards,
            slopes=column("slopes"),
        )

    @property
    def steps(self) -> Scalar:
        """Number of local steps (batches seen), per client."""
        return self.live.sum(-1).to(self.sizes.dtype)

    @property
    def length(self) -> Scalar:
        """Sum of the step sizes, per client: what takes the place of K * eta."""
        return self.sizes.sum(-1)

    @property
    def sane(self) -> Tensor:
        """Whether any batch had a finite loss (or there was none), per client.

        A client without one has learnt nothing.
        """
        # one finite batch is enough: a search refuses the others, and nothing is spoilt
        finite = self.live & torch.isfinite(self.losses)
        idle = ~self.live.any(-1)
        return finite.any(-1) | idle

    def without_losses(self, clients: Tensor) -> Trace:
        """Without the losses of these clients, which are means of nothing; steps are counted."""
        if not bool(clients.any()):
            return self
        return replace(self, losses=self.losses.masked_fill(clients.unsqueeze(-1), nan))

    @property
    def total_forwards(self) -> int:
        gradients = int(self.live.sum()) * self.forwards
        trials = int(self.trials.sum())
        return gradients + trials + self._slopes + self.more_forwards

    @property
    def total_backwards(self) -> int:
        gradients = int(self.live.sum()) * self.backwards
        return gradients + self._slopes + self.more_backwards

    @property
    def _slopes(self) -> int:
        if self.slopes is None:
            return 0
        return int(self.slopes.sum())

    @property
    def mean_loss(self) -> Scalar:
        """Mean of phi over the client's local steps."""
        return torch.where(self.live, self.losses, 0.0).sum(-1) / self.steps

    @property
    def last_loss(self) -> Scalar:
        """phi where it was evaluated last, per client; 0 without any step."""
        if self.live.shape[-1] == 0:
            return self.sizes.new_zeros(self.sizes.shape[:-1])
        # the last live column of each client: those behind it are padding
        place = (self.live.sum(-1, keepdim=True) - 1).clamp(min=0)
        return self.losses.gather(-1, place).squeeze(-1)


def _no_steps(x: Vec) -> StepRecord:
    """Columns of length 0, of the kinds that records have."""
    numbers = torch.zeros(*x.shape[:-1], 0, dtype=x.dtype)
    return StepRecord(
        live=numbers.bool(),
        loss=numbers,
        step=numbers,
        trials=numbers.long(),
        failed=numbers.bool(),
        slopes=numbers.long(),
    )
