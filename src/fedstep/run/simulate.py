"""The one loop over rounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from math import nan
from operator import add
from time import perf_counter

import torch
from torch import Tensor

from fedstep.algorithm import Server, Update
from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.seeds import key
from fedstep.core.vec import Vec
from fedstep.execute.base import Executor
from fedstep.execute.clock import Clock
from fedstep.execute.sequential import Sequential
from fedstep.execute.store import Store
from fedstep.execute.task import Task
from fedstep.models.flat import FlatModel
from fedstep.run.evaluate import Score, evaluate, loss_over_clients
from fedstep.run.record import RoundReport, Scores, report
from fedstep.server.sampling import Sampling, Uniform


@dataclass(frozen=True)
class Simulation:
    """A task, how many clients take part, who runs them, and what is evaluated how often."""

    task: Task
    per_round: int
    sampling: Sampling = Uniform()
    executor: Executor = Sequential()
    test: tuple[Tensor, ...] | None = None
    every: int = 1
    heldout: tuple[Tensor, ...] | None = None  # samples of clients that never train
    train: bool = False  # evaluate the loss over all clients too
    clock: Clock | None = None  # told where the time goes

    def __post_init__(self) -> None:
        population = len(self.task.federation)
        if not 1 <= self.per_round <= population:
            raise InputError(
                f"per_round={self.per_round}: there are {population} clients; give 1 to {population}"
            )
        if self.every < 1:
            raise InputError(f"every={self.every}: evaluate every 1 or more rounds")

    def begin(self, rounds: int) -> Server:
        return self.task.algorithm.init(self.task.model.init(), rounds)

    def run(
        self, server: Server, store: Store, rounds: int
    ) -> Iterator[tuple[Server, RoundReport]]:
        """Rounds server.round + 1 to `rounds`; each yield is a state from which `run` goes on to the same bits."""
        alg, population, judge = (
            self.task.algorithm,
            len(self.task.federation),
            self.task.model.evaluating(),
        )
        everyone = float(
            alg.weighting(torch.tensor([part.numel() for part in self.task.federation.parts])).sum()
        )
        while server.round < rounds:
            clock = perf_counter()
            cohort = self.sampling(population, self.per_round, self.task.seed, server.round)
            asked: list[Update] = []
            if alg.correction.probes:
                server, asked = self._probe(server, cohort, store)
            sent = alg.broadcast(server)
            updates = list(self.executor(self.task, sent, cohort, store))
            with self._charge("aggregation"):
                total = _sum(updates)
                server = alg.absorb(server, total, everyone)
            seconds = perf_counter() - clock
            due = server.round % self.every == 0 or server.round == rounds
            with self._charge("evaluation"):
                scores = self._scores(judge, server) if due else Scores()
            size, silent = alg.codec.size(sent.x), alg.correction.silent
            yield server, report(server, sent, updates, total, scores, seconds, asked, size, silent)

    def _charge(self, kind: str) -> AbstractContextManager[None]:
        return nullcontext() if self.clock is None else self.clock.charge(kind)

    def _probe(
        self, server: Server, cohort: list[int], store: Store
    ) -> tuple[Server, list[Update]]:
        """Ask the cohort for its gradients, or another sample of clients for the mean and the cohort for its own."""
        alg, task = self.task.algorithm, self.task
        sent = alg.broadcast(server)
        if not alg.correction.asks_others:
            asked = list(self.executor(task, sent, cohort, store, probe=True))
            return alg.inform(server, _sum(asked)), asked
        others = self.sampling(
            len(task.federation), self.per_round, key(task.seed, "probe"), server.round
        )
        counted = list(self.executor(task, sent, others, store, probe=True))
        rest = [c for c in cohort if c not in others]
        own = list(self.executor(task, sent, rest, store, probe=True))
        return alg.inform(server, _sum(counted)), counted + own

    def _scores(self, judge: FlatModel, server: Server) -> Scores:
        federation, x = self.task.federation, server.readout
        other = server.x is not x and not torch.equal(server.x, x)

        def score(fields: tuple[Tensor, ...] | None, at: Vec) -> Score:
            return Score() if fields is None else evaluate(judge, at, fields, federation.transform)

        test = score(self.test, x)
        last = score(self.test, server.x) if other else test
        train = loss_over_clients(judge, x, federation) if self.train else nan
        return Scores(test, last, score(self.heldout, x), train)


def _sum(updates: list[Update]) -> Aggregate:
    return reduce(add, (u.aggregate for u in updates))
