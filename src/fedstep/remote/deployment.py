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

from fedstep.algorithm import Algorithm, Server, Update
from fedstep.core.errors import InputError
from fedstep.execute.base import named_clients
from fedstep.execute.crew import LOG
from fedstep.execute.sequential import Sequential
from fedstep.execute.store import Store
from fedstep.models.flat import FlatModel
from fedstep.remote.answer import (
    CheckedAnswer,
    ClientFailed,
    ExpectedAnswer,
    ReplyForm,
    check_answer,
    most_steps,
)
from fedstep.remote.courier import Courier, Delivery, Errand
from fedstep.remote.enrol import LOOK_AGAIN, Registry
from fedstep.remote.order import RunSettings, WorkOrder, broadcast_tensors
from fedstep.remote.parcel import RefusedReply
from fedstep.remote.patience import Patience
from fedstep.remote.versions import CountedVersions
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
        tally = _Tally()
        for attempt in range(self.patience.tries):
            asked = [client for client in request.cohort if client not in tally.answers]
            if attempt > 0:
                self._await_return(asked)
            self._ask(request, asked, memories, tally)
            if len(tally.answers) >= needed:
                return self._result(request, memories, tally)
            LOG.warning(
                "round %d: %d usable replies of %d clients, %d needed (attempt %d of %d)",
                request.sent.round + 1,
                len(tally.answers),
                len(request.cohort),
                needed,
                attempt + 1,
                self.patience.tries,
            )
        raise InputError(
            f"round {request.sent.round + 1}: {len(tally.answers)} usable replies of "
            f"{len(request.cohort)} clients, {needed} needed; all earlier rounds are kept: "
            "see that the nodes are up, or lower quorum, and start again"
        )

    def _await_return(self, asked: Sequence[int]) -> None:
        """Give clients whose node is gone some time to come back, before they are asked again."""
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
        asked: Sequence[int],
        memories: CountedVersions,
        tally: _Tally,
    ) -> None:
        """One exchange with the nodes of these clients."""
        present = self.registry.refresh()
        by_node = self._by_node(asked, present)
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
        form = ReplyForm.of(self.algorithm, self.model, request.sent, request.probe)
        for delivery in self.courier.exchange(errand, parcels, self.patience.timeout):
            silent.discard(delivery.node)
            self._hear(delivery, request, form, memories, tally)
        self.registry.roster.silent -= set(parcels) - silent
        self.registry.roster.silent |= silent

    def _by_node(self, asked: Iterable[int], present: set[int]) -> dict[int, list[int]]:
        node_of = self.registry.roster.node_of
        by_node: dict[int, list[int]] = defaultdict(list)
        for client in asked:
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
            version=_version(request),
            clients=tuple(clients),
            since=tuple(memories.since(client) for client in clients),
            kept=tuple(memories.kept(client) for client in clients),
        )

    def _hear(
        self,
        delivery: Delivery,
        request: WorkRequest,
        form: ReplyForm,
        memories: CountedVersions,
        tally: _Tally,
    ) -> None:
        node_of = self.registry.roster.node_of
        if delivery.error:
            self._refuse(request, f"node {delivery.node}", delivery.error[:300])
        for name, parcel in delivery.parcels.items():
            client = _client_named(name)
            if client not in request.cohort or node_of.get(client) != delivery.node:
                who = f"node {delivery.node}"
                self._refuse(request, who, f"it speaks for client {name[:40]!r}, not asked there")
                continue
            if client in tally.answers:
                self._refuse(request, named_clients([client]), "it answers twice")
                continue
            try:
                expected = self._expected(client, request, form)
                tally.answers[client] = check_answer(
                    self.algorithm,
                    parcel,
                    expected,
                    request.probe,
                )
                tally.refused.discard(client)
            except ClientFailed as failure:
                # it is as if it had not answered; another attempt may go better
                LOG.warning("round %d: client %d: %s", request.sent.round + 1, client, failure)
                if self.forget and parcel.values.get("lost") is True:
                    memories.forget(client)
            except RefusedReply as refusal:
                self._refuse(request, named_clients([client]), str(refusal))
                tally.refused.add(client)

    def _refuse(self, request: WorkRequest, who: str, reason: str) -> None:
        line = f"round {request.sent.round + 1}: {who} is refused: {reason}"
        self.refusals.append(line)
        LOG.warning("%s", line)

    def _expected(self, client: int, request: WorkRequest, form: ReplyForm) -> ExpectedAnswer:
        samples = self.registry.roster.samples[client]
        return ExpectedAnswer(
            client=client,
            run=self.settings.run,
            version=_version(request),
            samples=samples,
            steps=most_steps(self.settings.plan, samples, request.probe),
            trace=self.settings.trace,
            form=form,
        )

    def _result(
        self,
        request: WorkRequest,
        memories: CountedVersions,
        tally: _Tally,
    ) -> CohortResult:
        updates = []
        for client in request.cohort:
            answer = tally.answers.get(client)
            if answer is not None:
                memories.counted(client, _version(request))
                updates.append(self._update(request, client, answer))
        result = fold(updates)
        refused = len(tally.refused)
        total = replace(result.total, rejected=result.total.rejected + refused)
        missing = len(request.cohort) - len(updates) - refused
        return replace(result, total=total, missing=missing)

    def _update(self, request: WorkRequest, client: int, answer: CheckedAnswer) -> Update:
        if request.probe:
            aggregate = self.algorithm.count_probe(answer.reply)
        else:
            aggregate = self.algorithm.count(answer.reply, request.sent)
        if aggregate.rejected:
            self._refuse(request, named_clients([client]), "its update is not finite")
        return Update(aggregate, {}, answer.trace)


@dataclass
class _Tally:
    """What has come for one request."""

    answers: dict[int, CheckedAnswer] = field(default_factory=dict)  # by client
    refused: set[int] = field(default_factory=set)  # clients whose answer could not be used


def _version(request: WorkRequest) -> int:
    """The number that memories have after this piece of work: two a round, from 1."""
    return 2 * request.sent.round + 1 + int(not request.probe)


def _client_named(name: str) -> int:
    """The client that a parcel is of; -1 for what is no number."""
    if name.isascii() and name.isdigit() and len(name) < 20:
        return int(name)
    return -1
