"""What a round leaves behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import torch
from torch import Tensor

from fedstep.algorithm import Broadcast, Server, Update
from fedstep.core.aggregate import Aggregate
from fedstep.core.vec import State
from fedstep.run.evaluate import Score

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class RoundReport:
    """One row of results. Counts and bytes are of this round, over all its clients."""

    round: int  # 1, 2, ...
    loss: float  # mean over participating clients of phi on their batches, during the round
    train_loss: float  # mean over all clients, at the readout
    test_loss: float  # at the readout, as the two below
    accuracy: float
    heldout_accuracy: float  # on clients that never train
    last_accuracy: float  # at the last iterate, where the readout is another point
    eta_g: float  # step the server took
    steps: tuple[float, ...]  # minimum, quartiles and maximum of the accepted client steps
    trials: float  # mean number of trials a searched step
    failed: int  # searches that found nothing
    forwards: int
    backwards: int
    bytes_up: int
    bytes_down: int
    seconds: float
    clients: int  # whose updates counted
    rejected: int  # whose updates were not finite

    @property
    def gradients(self) -> float:
        """Cost in gradient-equivalents: a forward pass alone costs a third of forward and backward."""
        return (self.forwards + 2 * self.backwards) / 3

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "steps": list(self.steps)}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> RoundReport:
        """A row as JSON gives it back: null is NaN."""
        row: dict[str, Any] = {k: nan if v is None else v for k, v in values.items()}
        return RoundReport(**{**row, "steps": tuple(nan if v is None else v for v in row["steps"])})


@dataclass(frozen=True)
class Scores:
    """What was evaluated after a round; NaN where nothing was."""

    test: Score = Score()
    last: Score = Score()
    heldout: Score = Score()
    train_loss: float = nan


def report(
    server: Server,
    sent: Broadcast,
    updates: Sequence[Update],
    total: Aggregate,
    scores: Scores,
    seconds: float,
    asked: Sequence[Update] = (),
    delta_bytes: int | None = None,
    silent: bool = False,
) -> RoundReport:
    """The row of the round that led to `server`; `asked` are the updates of its probe, delta_bytes what one delta weighs.

    The updates of a `silent` probe were not sent.
    """
    traces, all_traces = [u.trace for u in updates], [u.trace for u in (*updates, *asked)]
    up = _bytes(total.delta) if delta_bytes is None else delta_bytes
    heard = () if silent else asked
    probed = sum(u.aggregate.clients + u.aggregate.rejected for u in heard)
    told = sum(
        (u.aggregate.clients + u.aggregate.rejected) * _size(u.aggregate.message) for u in heard
    )
    taken = torch.cat([t.sizes[t.live & (t.sizes > 0)] for t in traces]).double()
    trials = torch.cat([t.trials[t.trials > 0] for t in traces]).double()
    means = torch.cat([t.mean_loss.reshape(-1) for t in traces]).double()
    clients = total.clients + total.rejected
    return RoundReport(
        round=server.round,
        loss=float(means[torch.isfinite(means)].mean()),
        train_loss=scores.train_loss,
        test_loss=scores.test.loss,
        accuracy=scores.test.accuracy,
        heldout_accuracy=scores.heldout.accuracy,
        last_accuracy=scores.last.accuracy,
        eta_g=float(server.rule["eta_g"]),
        steps=tuple(float(taken.quantile(q)) if len(taken) else nan for q in QUANTILES),
        trials=float(trials.mean()) if len(trials) else 0.0,
        failed=sum(int(t.failed.sum()) for t in traces),
        forwards=sum(t.total_forwards for t in all_traces),
        backwards=sum(t.total_backwards for t in all_traces),
        bytes_up=clients * (up + _size(total.message)) + probed * _bytes(total.delta) + told,
        # who was probed has the model already when the local phase begins
        bytes_down=(probed or clients) * _bytes(sent.x) + (clients + probed) * _size(sent.shared),
        seconds=seconds,
        clients=total.clients,
        rejected=total.rejected,
    )


def _bytes(t: Tensor) -> int:
    return t.numel() * t.element_size()


def _size(state: State) -> int:
    return sum(_bytes(v) for v in state.values())
