"""The one loop over rounds.

It asks for work and is told the sum; who does the work it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter

from torch import Tensor

from fedstep.algorithm import Algorithm, Broadcast, Server, Update
from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.seeds import key
from fedstep.execute.heap import Heap
from fedstep.local.trace import Trace
from fedstep.server.sampling import Sampling


@dataclass(frozen=True)
class RoundPlan:
    """What decides who takes part in which round, and how much everybody counts."""

    algorithm: Algorithm
    sampling: Sampling  # who takes part
    sample_counts: Tensor  # of every client, in the order of their numbers
    per_round: int  # clients
    seed: int

    def cohort(self, round: int) -> list[int]:
        """The clients of a round."""
        return self.sampling(
            len(self.sample_counts),
            self.per_round,
            self.seed,
            round,
        )

    def others(self, round: int) -> list[int]:
        """A second sample of clients, independent of the cohort, for corrections that want it."""
        # another key: with the cohort's own the two samples would be the same clients
        seed = key(self.seed, "probe")
        return self.sampling(
            len(self.sample_counts),
            self.per_round,
            seed,
            round,
        )

    def weight_of_all(self) -> float:
        """The weight of all clients together; their number where all count the same."""
        return float(self.algorithm.weighting(self.sample_counts).sum())


@dataclass(frozen=True)
class WorkRequest:
    """Clients that are to work, and what they are sent."""

    cohort: tuple[int, ...]
    sent: Broadcast
    probe: bool = False  # their gradients are wanted instead of their deltas


@dataclass(frozen=True)
class CohortResult:
    """What the clients of a request did: one sum, and traces of a few numbers a step.

    No single delta is kept.
    """

    total: Aggregate
    traces: tuple[Trace, ...]  # one a job, in the order of the jobs
    missing: int = 0  # clients that were asked and sent nothing, or came too late


@dataclass(frozen=True)
class RoundDone:
    """A complete round: the state that the next one begins from, and what it came of."""

    server: Server  # after the round
    sent: Broadcast  # what the clients of the local phase began from
    result: CohortResult
    probes: tuple[CohortResult, ...]  # what was asked for before the local phase, mostly nothing
    seconds: float  # by the clock, with the clients' work and without the evaluation


RoundEvents = Generator[WorkRequest | RoundDone, CohortResult | None, None]
OneAnswer = Generator[WorkRequest, CohortResult | None, CohortResult]


def rounds(
    plan: RoundPlan,
    server: Server,
    until: int,
) -> RoundEvents:
    """Rounds server.round + 1 to `until`.

    Every `WorkRequest` is answered by sending its `CohortResult`; a `RoundDone` is answered by
    `None` (or `next`). From the server of any `RoundDone` this generator goes on to the same bits.
    """
    # of clients that never change: computed once, not in every round
    weight_of_all = plan.weight_of_all()
    while server.round < until:
        done = yield from _one_round(plan, server, weight_of_all)
        server = done.server
        yield done
        # sum and broadcast are as large as the model: they do not wait for the end of another round
        del done


def _one_round(
    plan: RoundPlan,
    server: Server,
    weight_of_all: float,
) -> Generator[WorkRequest, CohortResult | None, RoundDone]:
    begun = perf_counter()
    algorithm = plan.algorithm
    cohort = plan.cohort(server.round)
    probes: tuple[CohortResult, ...] = ()
    if algorithm.correction.probes:
        probes = yield from _probe(plan, server, cohort)
        # only the first sample counts for what the server learns: the second asks the cohort
        # for its own sake
        server = algorithm.inform(server, probes[0].total)
    sent = algorithm.broadcast(server)
    result = yield from _ask(WorkRequest(tuple(cohort), sent))
    server = algorithm.absorb(server, result.total, weight_of_all)
    seconds = perf_counter() - begun
    return RoundDone(server, sent, result, probes, seconds)


def complete_rounds(
    plan: RoundPlan,
    server: Server,
    until: int,
    work: Callable[[WorkRequest], CohortResult],
    charge: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[RoundDone]:
    """The rounds one by one; `work` does what is asked for, wherever the clients are.

    `charge` is entered around the server's part of the work.
    """
    events = rounds(plan, server, until)
    del server  # or the first model would stay in memory for all rounds
    event = next(events, None)
    while event is not None:
        if isinstance(event, WorkRequest):
            result = work(event)
            # `send` runs the loop on to its next event, which is the server's part of the work
            with charge():
                event = events.send(result)
            del result
            continue
        yield event
        event = None  # nor is a round that is over kept while the next one begins
        event = next(events, None)


def _probe(
    plan: RoundPlan,
    server: Server,
    cohort: list[int],
) -> Generator[WorkRequest, CohortResult | None, tuple[CohortResult, ...]]:
    """Ask the cohort for its gradients.

    Or another sample of clients for the mean, and the cohort for its own.
    """
    sent = plan.algorithm.broadcast(server)
    if not plan.algorithm.correction.asks_others:
        request = WorkRequest(tuple(cohort), sent, probe=True)
        result = yield from _ask(request)
        return (result,)
    others = plan.others(server.round)
    request = WorkRequest(tuple(others), sent, probe=True)
    counted = yield from _ask(request)
    # nobody is asked twice: who is in both samples has given its gradient already
    rest = [client for client in cohort if client not in others]
    if not rest:
        return (counted,)
    request = WorkRequest(tuple(rest), sent, probe=True)
    uncounted = yield from _ask(request)
    return counted, uncounted


def _ask(request: WorkRequest) -> OneAnswer:
    result = yield request
    if result is None:
        # a caller that used `next`: without this the error would appear rounds later
        raise TypeError("rounds: a WorkRequest is answered with send(CohortResult)")
    return result


def fold(
    updates: Iterable[Update],
    charge: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> CohortResult:
    """Sum updates as they arrive, from left to right; `charge` is entered around every addition.

    A delta is as large as the model, so only the sum and the update at hand are alive, however
    many clients there are.
    """
    total: Aggregate | None = None
    traces: list[Trace] = []
    heap: Heap | None = None
    for update in updates:
        traces.append(update.trace)
        with charge():
            total = _added(total, update.aggregate, len(traces))
        if heap is None:
            heap = Heap(update.aggregate.delta.nbytes)
        del update  # before the next client begins, not when it is done
        heap.used()
    if total is None:
        raise InputError("the executor returned no update: it must yield at least one for a cohort")
    return CohortResult(total, tuple(traces))


def _added(
    total: Aggregate | None,
    summand: Aggregate,
    count: int,
) -> Aggregate:
    """The sum of `count` summands, from that of those before."""
    if total is None:
        return summand
    # the first summand is somebody else's and stays as it is; the sum of two is ours
    if count == 2:
        return total + summand
    return total.take_in(summand)
