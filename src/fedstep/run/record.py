"""What a round leaves behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan
from typing import Any

import torch
from torch import Tensor

from fedstep.algorithm import Algorithm
from fedstep.core.exchange import SharedState
from fedstep.core.vec import State
from fedstep.local.trace import Trace, joined_traces
from fedstep.run.columns import (
    BY_CLIENT,
    ROW_COLUMNS,
    VALIDATION,
    MetricColumns,
    marked_columns,
    metric_columns,
)
from fedstep.run.evaluate import Score
from fedstep.run.metrics.base import Metric
from fedstep.run.rounds import CohortResult, RoundDone

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the accepted steps; RoundReport.steps has them


@dataclass(frozen=True)
class RoundReport:
    """One row of results. Counts and bytes are of this round, over all its clients."""

    round: int  # 1, 2, ...
    loss: float  # mean over participating clients of phi on their batches, during the round
    train_loss: float  # mean over all clients, at the readout
    test_loss: float  # at the readout
    test: Mapping[str, float]  # metrics by name, at the readout; the first is the one to compare by
    heldout: Mapping[str, float]  # the same on clients that never train
    last: Mapping[str, float]  # the same at the last iterate, where the readout is another point
    eta_g: float  # step the server took
    steps: tuple[float, ...]  # minimum, quartiles and maximum of the accepted client steps
    trials: float  # mean number of trials a searched step
    failed: int  # searches that found nothing
    forwards: int  # forward passes, trials included
    backwards: int
    bytes_up: int  # from the clients
    bytes_down: int  # to the clients
    seconds: float
    clients: int  # whose updates counted
    rejected: int  # whose updates were not finite, or not of the form that was asked for
    clipped: int = 0  # whose updates the guard shortened
    missing: int = 0  # that were asked and did not answer in time
    pace: float = nan  # factor of all clients' steps, for methods that have one
    # where they were asked for:
    validation: Mapping[str, float] = field(default_factory=dict)  # loss and metrics
    by_client: Mapping[str, float] = field(default_factory=dict)  # mean, worst tenth, spread

    @property
    def gradients(self) -> float:
        """Cost in gradient-equivalents: a forward pass alone costs a third of forward and
        backward.
        """
        return (self.forwards + 2 * self.backwards) / 3

    @property
    def accuracy(self) -> float:
        """The test accuracy; NaN where it was not measured."""
        return self.test.get("accuracy", nan)

    def to_dict(self) -> dict[str, Any]:
        """The row as it stands on disk: flat, every metric a column."""
        row: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name == "test":
                # all three at once: the metrics of a row stand together
                row.update(metric_columns(self.test, self.heldout, self.last))
            elif name == "steps":
                row[name] = list(self.steps)
            elif name == "pace":
                # most methods have none: no column of gaps
                if not isnan(self.pace):
                    row[name] = self.pace
            elif name == "validation":
                row.update(marked_columns(VALIDATION, self.validation))
            elif name == "by_client":
                row.update(marked_columns(BY_CLIENT, self.by_client))
            elif name not in ("heldout", "last"):
                row[name] = value
        return row

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> RoundReport:
        """A row as JSON gives it back: null is NaN, and so is a number that is not there."""
        numbers = {name: _number(value) for name, value in values.items()}
        metrics = MetricColumns.of(numbers)
        row = {}
        for name in ROW_COLUMNS:
            if name != "steps":
                row[name] = numbers.get(name, nan)
        # rows of older versions may lack a column
        steps = values.get("steps", [None] * len(QUANTILES))
        return RoundReport(
            **row,
            steps=tuple(_number(step) for step in steps),
            test=metrics.test,
            heldout=metrics.heldout,
            last=metrics.last,
            validation=metrics.validation,
            by_client=metrics.by_client,
        )


@dataclass(frozen=True)
class Scores:
    """What was evaluated after a round; NaN where nothing was."""

    test: Score = Score()  # of the readout
    last: Score = Score()  # of the last iterate, on the same samples
    heldout: Score = Score()  # of the readout, on clients that never train
    train_loss: float = nan
    validation: Mapping[str, float] = field(default_factory=dict)  # where it was asked for
    by_client: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def unknown(metrics: Sequence[Metric]) -> Scores:
        """Those of a round that was not evaluated: every column is there, without a number."""
        blank = Score.unknown(metrics)
        return Scores(blank, blank, blank)


def report(
    algorithm: Algorithm,
    done: RoundDone,
    scores: Scores,
) -> RoundReport:
    """The row of a round."""
    total = done.result.total
    # a few long ones: what is computed of a trace costs the same for one client and for a thousand
    traces = joined_traces(done.result.traces)
    # probes cost passes too, but their losses and steps are not those of the round
    passes = [trace.passes for trace in traces]
    for probe in done.probes:
        passes += [trace.passes for trace in joined_traces(probe.traces)]
    traffic = _traffic(algorithm, done)
    return RoundReport(
        round=done.server.round,
        loss=_mean_loss(traces),
        train_loss=scores.train_loss,
        test_loss=scores.test.loss,
        test=scores.test.metrics,
        heldout=scores.heldout.metrics,
        last=scores.last.metrics,
        eta_g=float(done.server.eta_g),
        steps=_step_quantiles(traces),
        trials=_mean_trials(traces),
        failed=sum(int(trace.failed.sum()) for trace in traces),
        forwards=sum(each.forwards for each in passes),
        backwards=sum(each.backwards for each in passes),
        bytes_up=traffic.up,
        bytes_down=traffic.down,
        seconds=done.seconds,
        clients=total.clients,
        rejected=total.rejected,
        clipped=_clipped(algorithm, done),
        missing=done.result.missing,
        pace=_pace(algorithm, done),
        validation=scores.validation,
        by_client=scores.by_client,
    )


def _clipped(algorithm: Algorithm, done: RoundDone) -> int:
    """Clients whose update was shortened; in the first round that is known only after the sum."""
    total = done.result.total
    if not total.usable:
        # nobody counted, or the sums have overflowed: nothing to settle
        return total.clipped
    guard_state = SharedState.of(done.sent.shared).guard
    return algorithm.guard.settle(total, guard_state).aggregate.clipped


def _pace(algorithm: Algorithm, done: RoundDone) -> float:
    """The pace that the clients of the round were sent."""
    shared = SharedState.of(done.sent.shared)
    factor = algorithm.local.step.factor_sent(shared.step)
    if factor is None:
        return nan
    return float(factor)


@dataclass(frozen=True)
class Traffic:
    """Bytes of a round, over all its clients."""

    up: int  # from the clients
    down: int  # to the clients


def _traffic(algorithm: Algorithm, done: RoundDone) -> Traffic:
    sent = done.sent
    message_bytes = _size(done.result.total.message)
    delta_bytes = algorithm.codec.size(sent.x)
    clients = _answered(done.result)
    # the gradients of a silent probe are used by the client itself and never sent
    sent_probes = done.probes
    if algorithm.correction.silent:
        sent_probes = ()
    probed = 0
    probe_messages = 0
    for probe in sent_probes:
        answered = _answered(probe)
        probed += answered
        probe_messages += answered * _size(probe.total.message)
    local_phase_up = clients * (delta_bytes + message_bytes)
    # a codec shortens deltas; gradients of probes travel as they are
    probe_up = probed * _bytes(done.result.total.delta) + probe_messages
    # who was probed has the model already when the local phase begins
    model_down = (probed or clients) * _bytes(sent.x)
    shared = SharedState.of(sent.shared)
    # the guard's state is the server's: it travels with the simulation, not with the model
    shared_bytes = _size(replace(shared, guard={}).flat())
    shared_down = (clients + probed) * shared_bytes
    return Traffic(up=local_phase_up + probe_up, down=model_down + shared_down)


def _answered(result: CohortResult) -> int:
    """Clients that sent something, also those whose update was refused."""
    return result.total.clients + result.total.rejected


def _mean_loss(traces: Sequence[Trace]) -> float:
    """Over the clients that had a finite loss: the others are counted as rejected."""
    means = _joined(trace.mean_loss.reshape(-1) for trace in traces)
    finite = means[torch.isfinite(means)]
    return float(finite.mean())


def _step_quantiles(traces: Sequence[Trace]) -> tuple[float, ...]:
    columns = []
    for trace in traces:
        # a failed search leaves a step of 0, which is no accepted one
        accepted = trace.live & (trace.sizes > 0)
        columns.append(trace.sizes[accepted])
    taken = _joined(columns)
    if len(taken) == 0:
        return (nan,) * len(QUANTILES)
    # a given step is the same everywhere: nothing to put in order
    lowest, highest = taken.aminmax()
    if bool(lowest == highest):
        return (float(lowest),) * len(QUANTILES)
    quantiles: list[float] = taken.quantile(taken.new_tensor(QUANTILES)).tolist()
    return tuple(quantiles)


def _mean_trials(traces: Sequence[Trace]) -> float:
    """A searched step; 0 where nothing was searched."""
    columns = []
    for trace in traces:
        searched = trace.trials > 0
        columns.append(trace.trials[searched])
    trials = _joined(columns)
    if len(trials) == 0:
        return 0.0
    return float(trials.mean())


def _joined(columns: Iterable[Tensor]) -> Tensor:
    return torch.cat(list(columns)).double()


def _number(value: Any) -> Any:
    """JSON has no NaN: it is written as null."""
    if value is None:
        return nan
    return value


def _bytes(t: Tensor) -> int:
    return t.numel() * t.element_size()


def _size(state: State) -> int:
    return sum(_bytes(value) for value in state.values())
