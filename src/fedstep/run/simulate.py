"""A run on this machine: the loop over rounds, driven by an executor."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import nan
from pathlib import Path

import torch
from torch import Tensor

from fedstep.algorithm import Server
from fedstep.core.errors import InputError
from fedstep.core.vec import Vec
from fedstep.execute.base import Executor
from fedstep.execute.sequential import Sequential
from fedstep.execute.store import Store, store_for
from fedstep.execute.task import Task
from fedstep.models.flat import FlatModel
from fedstep.run.client_scores import (
    ClientSamples,
    client_values,
    scored_columns,
    spread_columns,
)
from fedstep.run.devices import server_on
from fedstep.run.evaluate import Score, evaluate, loss_over_clients, usual_metrics
from fedstep.run.labels import check_labels
from fedstep.run.metrics.base import Metric
from fedstep.run.record import RoundReport, Scores, report
from fedstep.run.rounds import (
    CohortResult,
    RoundDone,
    RoundPlan,
    WorkRequest,
    complete_rounds,
    fold,
)
from fedstep.server.sampling import Sampling, Uniform


@dataclass(frozen=True)
class Simulation:
    """A task, how many clients take part, who runs them, and what is evaluated how often."""

    task: Task
    per_round: int  # clients
    sampling: Sampling = Uniform()
    executor: Executor = Sequential()
    test: tuple[Tensor, ...] | None = None  # samples to score on, targets last
    every: int = 1  # rounds between evaluations; the last round is always evaluated
    heldout: tuple[Tensor, ...] | None = None  # samples of clients that never train
    train: bool = False  # evaluate the loss over all clients too
    metrics: tuple[Metric, ...] | None = None  # None: what is usual for such targets
    validation: tuple[Tensor, ...] | None = None  # samples to choose by, apart from the test
    by_client: ClientSamples | None = None  # evaluated client by client

    def __post_init__(self) -> None:
        population = len(self.task.federation)
        if not 1 <= self.per_round <= population:
            raise InputError(
                f"per_round={self.per_round}: there are {population} clients; "
                f"give 1 to {population}"
            )
        if self.every < 1:
            raise InputError(f"every={self.every}: evaluate every 1 or more rounds")
        scored = {"test": self.test, "validation": self.validation, "heldout": self.heldout}
        check_labels(self.task, scored)

    @cached_property
    def measured(self) -> tuple[Metric, ...]:
        """The metrics of every row; the first is the one to compare by."""
        if self.metrics is not None:
            return self.metrics
        # known before the first evaluation: rows without one have the same columns
        fields = self.test
        if fields is None:
            fields = self.validation
        if fields is None:
            fields = self.heldout
        if fields is None and self.by_client is not None:
            fields = self.by_client.fields
        if fields is None:
            return ()
        task = self.task
        judge = task.model.evaluating()
        return usual_metrics(
            judge,
            task.model.init(),
            fields,
            task.federation.transform,
        )

    def begin(self, rounds: int) -> Server:
        return self.task.algorithm.init(self.task.model.init(), rounds)

    def run(
        self,
        server: Server,
        store: Store,
        until: int,
    ) -> Iterator[tuple[Server, RoundReport]]:
        """Rounds server.round + 1 to `until`.

        Each yield is a state from which `run` goes on to the same bits.
        """
        model = self.task.model.evaluating()
        server = server_on(server, self.task.model.init().device)
        done_rounds = complete_rounds(
            self._plan(),
            server,
            until,
            work=partial(self._work, store=store),
            charge=partial(self.task.profiler.charge, "aggregation"),
        )
        del server  # the loop holds as much of it as it needs
        told = False
        for done in done_rounds:
            if done.result.total.clients == 0 and not told:
                told = True
                _tell_that_nobody_counted(done)
            yield done.server, self._report(done, model, until)
            del done  # its sum and broadcast are as large as the model

    def new_store(self, folder: Path) -> Store:
        """Where the memories of the clients go; in files under the folder where they are large."""
        return store_for(self.task, folder)

    def _plan(self) -> RoundPlan:
        return RoundPlan(
            algorithm=self.task.algorithm,
            sampling=self.sampling,
            sample_counts=self.task.federation.sizes,
            per_round=self.per_round,
            seed=self.task.seed,
        )

    def _work(self, request: WorkRequest, store: Store) -> CohortResult:
        updates = self.executor(
            self.task,
            request.sent,
            list(request.cohort),
            store,
            probe=request.probe,
        )
        return fold(updates, charge=partial(self.task.profiler.charge, "aggregation"))

    def _report(
        self,
        done: RoundDone,
        model: FlatModel,
        until: int,
    ) -> RoundReport:
        round = done.server.round
        scores = self._unknown_scores()
        if round % self.every == 0 or round == until:
            with self.task.profiler.charge("evaluation"):
                scores = self._scores(model, done.server)
        return report(self.task.algorithm, done, scores)

    def _unknown_scores(self) -> Scores:
        scores = Scores.unknown(self.measured)
        if self.validation is not None:
            scores = replace(scores, validation=scored_columns(Score.unknown(self.measured)))
        if self.by_client is not None:
            scores = replace(scores, by_client=spread_columns([], self._compared))
        return scores

    @property
    def _compared(self) -> Metric | None:
        """The metric that clients are compared by; None: their loss."""
        if self.measured:
            return self.measured[0]
        return None

    def _scores(self, model: FlatModel, server: Server) -> Scores:
        federation = self.task.federation
        test = self._score(model, server.readout, self.test)
        last = test
        # most methods read out the last iterate: its score is not computed twice
        if not _same_point(server):
            last = self._score(model, server.x, self.test)
        train_loss = nan
        if self.train:
            train_loss = loss_over_clients(model, server.readout, federation)
        heldout = self._score(model, server.readout, self.heldout)
        validation: Mapping[str, float] = {}
        if self.validation is not None:
            score = self._score(model, server.readout, self.validation)
            validation = scored_columns(score)
        by_client: Mapping[str, float] = {}
        if self.by_client is not None:
            values = client_values(
                model,
                server.readout,
                self.by_client,
                federation.transform,
                self._compared,
            )
            by_client = spread_columns(values, self._compared)
        return Scores(
            test=test,
            last=last,
            heldout=heldout,
            train_loss=train_loss,
            validation=validation,
            by_client=by_client,
        )

    def _score(
        self,
        model: FlatModel,
        x: Vec,
        fields: tuple[Tensor, ...] | None,
    ) -> Score:
        if fields is None:
            return Score.unknown(self.measured)
        return evaluate(
            model,
            x,
            fields,
            self.task.federation.transform,
            metrics=self.measured,
        )


def _tell_that_nobody_counted(done: RoundDone) -> None:
    """A run may go on like this to its last round, and nothing but a column would say so."""
    warnings.warn(
        f"round {done.server.round}: all {done.result.total.rejected} clients were rejected, the "
        "model stays as it is: their updates are not finite, or none of their targets counts; "
        "scale the inputs, or lower the step",
        stacklevel=3,
    )


def _same_point(server: Server) -> bool:
    # most are one tensor: then no value is looked at
    if server.x is server.readout:
        return True
    return torch.equal(server.x, server.readout)
