"""What happened on the client, one column a local step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.vec import Scalar


@dataclass(frozen=True)
class Trace:
    """Per client and local step; a client with fewer steps than its block has `live` False in the last columns."""

    live: Tensor  # (..., K) bool
    losses: Tensor  # (..., K) phi before the step
    sizes: Tensor  # (..., K) step taken, 0 where none
    trials: Tensor  # (..., K) trials of the search
    failed: Tensor  # (..., K) bool
    forwards: int  # of one gradient; trials and their slopes come on top
    backwards: int
    slopes: Tensor | None = (
        None  # (..., K) slopes learnt at trials: a forward and a backward pass each; None: none
    )
    more_forwards: int = (
        0  # of all clients and steps together: gradients elsewhere than at the point and at trials
    )
    more_backwards: int = 0

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
        """Whether any batch had a finite loss (or there was none), per client: a client without one has learnt nothing."""
        return (self.live & torch.isfinite(self.losses)).any(-1) | ~self.live.any(-1)

    @property
    def total_forwards(self) -> int:
        return (
            int(self.live.sum()) * self.forwards
            + int(self.trials.sum())
            + self._slopes
            + self.more_forwards
        )

    @property
    def total_backwards(self) -> int:
        return int(self.live.sum()) * self.backwards + self._slopes + self.more_backwards

    @property
    def _slopes(self) -> int:
        return 0 if self.slopes is None else int(self.slopes.sum())

    @property
    def mean_loss(self) -> Scalar:
        """Mean of phi over the client's local steps."""
        return torch.where(self.live, self.losses, 0.0).sum(-1) / self.steps

    @property
    def last_loss(self) -> Scalar:
        """phi where it was evaluated last, per client; 0 without any step."""
        if self.live.shape[-1] == 0:
            return self.sizes.new_zeros(self.sizes.shape[:-1])
        place = (self.live.sum(-1, keepdim=True) - 1).clamp(min=0)
        return self.losses.gather(-1, place).squeeze(-1)
