"""What happened on the client, one column a local step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
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
class Passes:
    """How often the model was run."""

    forwards: int
    backwards: int


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
        none = None
        if not records:
            # a client without batches has a trace of no columns, not no trace
            none = _no_steps(x)

        def column(name: str) -> Tensor:
            if none is not None:
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

    def cut(self, blocks: Sequence[slice]) -> list[Trace]:
        """The traces of blocks of clients that lie one behind the other in this one."""
        if len(blocks) == 1:
            return [self]
        sizes = [block.stop - block.start for block in blocks]
        # all blocks of a column at once: a slice for each would cost more than its arithmetic
        columns = [self.live, self.losses, self.sizes, self.trials, self.failed]
        if self.slopes is not None:
            columns.append(self.slopes)
        pieces = zip(*[torch.split(column, sizes) for column in columns], strict=True)
        each = []
        for live, losses, steps, trials, failed, *rest in pieces:
            slopes = None
            if rest:
                (slopes,) = rest
            part = Trace(
                live=live,
                losses=losses,
                sizes=steps,
                trials=trials,
                failed=failed,
                forwards=self.forwards,
                backwards=self.backwards,
                slopes=slopes,
            )
            each.append(part)
        # they were counted for all together: the first block stands for the others
        each[0] = replace(
            each[0],
            more_forwards=self.more_forwards,
            more_backwards=self.more_backwards,
        )
        return each

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
    def passes(self) -> Passes:
        """All that the clients did, their trials included."""
        gradients = int(self.live.sum())
        slopes = 0
        if self.slopes is not None:
            slopes = int(self.slopes.sum())
        trials = int(self.trials.sum())
        return Passes(
            forwards=gradients * self.forwards + trials + slopes + self.more_forwards,
            backwards=gradients * self.backwards + slopes + self.more_backwards,
        )

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


def joined_traces(traces: Sequence[Trace]) -> list[Trace]:
    """Traces with the same number of columns as one, neighbours only: order and sums stay."""
    whole: list[Trace] = []
    for _, alike in groupby(traces, key=_form):
        whole.append(_one_behind_the_other(list(alike)))
    return whole


def _form(trace: Trace) -> tuple[object, ...]:
    """What traces must agree in to be joined."""
    return trace.live.shape[-1], trace.slopes is None, trace.forwards, trace.backwards


def _one_behind_the_other(traces: Sequence[Trace]) -> Trace:
    first = traces[0]
    if len(traces) == 1:
        return first

    def column(name: str) -> Tensor:
        return torch.cat([_with_clients(getattr(trace, name)) for trace in traces])

    slopes = None
    if first.slopes is not None:
        slopes = column("slopes")
    return Trace(
        live=column("live"),
        losses=column("losses"),
        sizes=column("sizes"),
        trials=column("trials"),
        failed=column("failed"),
        forwards=first.forwards,
        backwards=first.backwards,
        slopes=slopes,
        more_forwards=sum(trace.more_forwards for trace in traces),
        more_backwards=sum(trace.more_backwards for trace in traces),
    )


def _with_clients(column: Tensor) -> Tensor:
    """One client alone has no axis of clients."""
    if column.dim() == 1:
        return column.unsqueeze(0)
    return column


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
