"""The rounds of a run whose clients are elsewhere.

The loop over rounds is the simulation's; only the work is done by nodes, through a courier. The
bits are those of `fit(executor=Sequential())`: a node runs one client at a time, and replies are
summed in the order of the cohort, whatever order they came in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from fedstep.algorithm import Algorithm, Server
from fedstep.core.errors import InputError
from fedstep.execute.crew import LOG
from fedstep.execute.sequential import Sequential
from fedstep.execute.store import Store
from fedstep.models.flat import FlatModel
from fedstep.remote.answer import ReplyForm
from fedstep.remote.courier import Courier, Errand
from fedstep.remote.enrol import LOOK_AGAIN, Registry
from fedstep.remote.hearing import Hearing
from fedstep.remote.order import RunSettings, WorkOrder, broadcast_tensors
from fedstep.remote.patience import Patience
from fedstep.remote.versions import CountedVersions, version_after
from fedstep.run.identity import tensors_digest, text_of
from fedstep.run.record import RoundReport, Scores, report
from fedstep.run.rounds import (
    CohortResult,
    RoundPlan,
    WorkRequest,
    complete_rounds,
    fold,
)
from fedstep.server.sampling import Sampling, Uniform


@dataclass
class Deployment:
    """A run over nodes. `Registry.gather` has found the clients before it is made."""

    algorithm: Algorithm  # suited to model and targets
    model: FlatModel
    settings: RunSettings
    registry: Registry
    courier: Courier
    per_round: int
    patience: Patience = Patience()
    forget: bool = False  # a client that lost its memory begins afresh
    sampling: Sampling = Uniform()
    refusals: list[str] = field(default_factory=list)  # a line each, of the whole run

    def begin(self, rounds: int) -> Server:
        return self.algorithm.init(self.model.init(), rounds)

    def new_store(self, folder: Path) -> Store:
        """Memories are the nodes' own: here is only which version of each was counted last."""
        return Store()

    def identity(self, rounds: int) -> dict[str, Any]:
        """What decides the numbers of the run; the same names as a simulation's."""
        # no hash of the samples: they stay where they are
        counts = self.registry.roster.counts()
        plan = self.settings.plan
        return {
            "algorithm": text_of(self.algorithm),
            "parameters": self.model.dim,
            "start": tensors_digest([self.model.init()]),
            "clients": len(counts),
            "samples": int(counts.sum()),
            "per_round": self.per_round,
            "rounds": rounds,
            "batch": plan.batch,
            "steps": plan.steps,
            "epochs": plan.epochs,
            "order": text_of(plan.order),
            "cut": Sequential().cut,
            "seed": self.settings.seed,
            "metrics": [],
        }

    def run(
        self,
        server: Server,
        store: Store,
        until: int,
    ) -> Iterator[tuple[Server, RoundReport]]:
        """Rounds server.round + 1 to `until`.

        Whoever wants to come back to a state must keep it before asking for the next round: nodes
        keep memories back to the beginning of the round under way, and no further.
        """
        # the store of a simulation holds memories; this one holds the numbers of their versions
        versions = CountedVersions(store)
        done_rounds = complete_rounds(
            self._plan(),
            server,
            until,
            work=partial(self._work, memories=versions),
        )
        for done in done_rounds:
            yield done.server, report(self.algorithm, done, Scores())
            versions.begin()

    def _plan(self) -> RoundPlan:
        return RoundPlan(
            algorithm=self.algorithm,
            sampling=self.sampling,
            sample_counts=self.registry.roster.counts(),
            per_round=self.per_round,
            seed=self.settings.seed,
        )

    def _work(self, request: WorkRequest, memories: CountedVersions) -> CohortResult:
        needed = self.patience.needed(request.cohort)
        hearing = self._hearing(request)
        for attempt in range(self.patience.tries):
            if attempt > 0:
                self._await_return(hearing.unanswered)
            self._ask(request, memories, hearing)
            if len(hearing.answers) >= needed:
                return self._result(request, memories, hearing)
            LOG.warning(
                "round %d: %d usable replies of %d clients, %d needed (attempt %d of %d)",
                request.sent.round + 1,
                len(hearing.answers),
                len(request.cohort),
                needed,
                attempt + 1,
                self.patience.tries,
            )
        # stopped, not skipped: a round without a quorum would be a step for a few clients
        raise InputError(
            f"round {request.sent.round + 1}: {len(hearing.answers)} usable replies of "
            f"{len(request.cohort)} clients, {needed} needed; all earlier rounds are kept: "
            "see that the nodes are up, or lower quorum, and start again"
        )

    def _hearing(self, request: WorkRequest) -> Hearing:
        return Hearing(
            algorithm=self.algorithm,
            settings=self.settings,
            roster=self.registry.roster,
            request=request,
            form=ReplyForm.of(self.algorithm, self.model, request.sent, request.probe),
            refusals=self.refusals,
        )

    def _await_return(self, asked: Sequence[int]) -> None:
        """Give clients whose node is gone some time to come back, before they are asked again."""
        # shared by the attempts: together they wait as long as at the start
        end = monotonic() + self.registry.patience / self.patience.tries
        while monotonic() < end:
            present = self.registry.refresh()
            reached = sum(map(len, self._by_node(asked, present).values()))
            if reached == len(asked):
                return
            self.courier.wait(LOOK_AGAIN)

    def _ask(
        self,
        request: WorkRequest,
        memories: CountedVersions,
        hearing: Hearing,
    ) -> None:
        """One exchange with the nodes of the clients that have not answered yet."""
        present = self.registry.refresh()
        by_node = self._by_node(hearing.unanswered, present)
        # packed once, however many nodes there are
        tensors = broadcast_tensors(request.sent)
        parcels = {}
        for node, clients in by_node.items():
            order = self._order(request, clients, memories)
            parcels[node] = order.parcel(tensors)
        if not parcels:
            return
        errand: Errand = "work"
        if request.probe:
            errand = "probe"
        silent = set(parcels)
        for delivery in self.courier.exchange(errand, parcels, self.patience.timeout):
            silent.discard(delivery.node)
            hearing.hear(delivery)
        # a node that owes an answer cannot keep its clients from joining elsewhere
        self.registry.roster.silent -= set(parcels) - silent
        self.registry.roster.silent |= silent
        if self.forget:
            for client in hearing.lost:
                memories.forget(client)

    def _by_node(self, asked: Iterable[int], present: set[int]) -> dict[int, list[int]]:
        node_of = self.registry.roster.node_of
        by_node: dict[int, list[int]] = defaultdict(list)
        for client in asked:
            # whoever cannot be reached is missing, not late
            if node_of[client] in present:
                by_node[node_of[client]].append(client)
        return by_node

    def _order(
        self,
        request: WorkRequest,
        clients: Sequence[int],
        memories: CountedVersions,
    ) -> WorkOrder:
        return WorkOrder(
            settings=self.settings,
            sent=request.sent,
            probe=request.probe,
            version=version_after(request),
            clients=tuple(clients),
            since=tuple(memories.since(client) for client in clients),
            kept=tuple(memories.kept(client) for client in clients),
        )

    def _result(
        self,
        request: WorkRequest,
        memories: CountedVersions,
        hearing: Hearing,
    ) -> CohortResult:
        updates = []
        # in the order of the cohort, not of arrival: sums keep their bits
        for client in request.cohort:
            if client in hearing.answers:
                memories.counted(client, version_after(request))
                updates.append(hearing.update(client))
        result = fold(updates)
        refused = len(hearing.refused)
        total = replace(result.total, rejected=result.total.rejected + refused)
        missing = len(request.cohort) - len(updates) - refused
        return replace(result, total=total, missing=missing)
