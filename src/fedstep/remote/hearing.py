"""What nodes answer to one piece of work: every answer is checked once and counted once."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedstep.algorithm import Algorithm, Update
from fedstep.execute.base import named_clients
from fedstep.execute.crew import LOG
from fedstep.remote.answer import (
    CheckedAnswer,
    ClientFailed,
    ExpectedAnswer,
    ReplyForm,
    check_answer,
    most_steps,
)
from fedstep.remote.courier import Delivery
from fedstep.remote.order import RunSettings
from fedstep.remote.parcel import Parcel, RefusedReply
from fedstep.remote.roster import Roster
from fedstep.remote.versions import version_after
from fedstep.run.rounds import WorkRequest


@dataclass
class Hearing:
    """What has come for one request, over all attempts."""

    algorithm: Algorithm
    settings: RunSettings
    roster: Roster
    request: WorkRequest
    form: ReplyForm
    refusals: list[str]  # of the whole run: a line is added for every refusal

    answers: dict[int, CheckedAnswer] = field(default_factory=dict)  # by client
    refused: set[int] = field(default_factory=set)  # clients whose answer could not be used
    lost: set[int] = field(default_factory=set)  # clients that say their memory is gone

    @property
    def unanswered(self) -> list[int]:
        """The clients to be asked, again where they were asked before."""
        return [client for client in self.request.cohort if client not in self.answers]

    def hear(self, delivery: Delivery) -> None:
        """What one node sent, which may be anything."""
        node = f"node {delivery.node}"
        if delivery.error:
            self.refuse(node, delivery.error[:300])
        for name, parcel in delivery.parcels.items():
            client = _client_named(name)
            # a node must not answer for a client of another one
            at_home = self.roster.node_of.get(client) == delivery.node
            if client not in self.request.cohort or not at_home:
                self.refuse(node, f"it speaks for client {name[:40]!r}, not asked there")
            elif client in self.answers:
                self.refuse(named_clients([client]), "it answers twice")
            else:
                self._hear_client(client, parcel)

    def update(self, client: int) -> Update:
        """A client's answer as a summand."""
        answer = self.answers[client]
        aggregate = self.algorithm.count(answer.reply, self.request.sent, self.request.probe)
        if aggregate.rejected:
            self.refuse(named_clients([client]), "its update is not finite")
        # its memory stays where it is, at the node
        return Update(aggregate, {}, answer.trace)

    def refuse(self, who: str, reason: str) -> None:
        """Write down what was not taken, and why."""
        line = f"round {self.request.sent.round + 1}: {who} is refused: {reason}"
        self.refusals.append(line)
        LOG.warning("%s", line)

    def _hear_client(self, client: int, parcel: Parcel) -> None:
        expected = self._expected(client)
        try:
            answer = check_answer(self.algorithm, parcel, expected, self.request.probe)
        except ClientFailed as failure:
            # it is as if it had not answered; another attempt may go better
            LOG.warning("round %d: client %d: %s", self.request.sent.round + 1, client, failure)
            if parcel.values.get("lost") is True:
                self.lost.add(client)
        except RefusedReply as refusal:
            self.refuse(named_clients([client]), str(refusal))
            self.refused.add(client)
        else:
            self.answers[client] = answer
            self.refused.discard(client)

    def _expected(self, client: int) -> ExpectedAnswer:
        # from what the client said when it enrolled, not from what it says now
        samples = self.roster.samples[client]
        return ExpectedAnswer(
            client=client,
            run=self.settings.run,
            version=version_after(self.request),
            samples=samples,
            steps=most_steps(self.settings.plan, samples, self.request.probe),
            trace=self.settings.trace,
            form=self.form,
        )


def _client_named(name: str) -> int:
    """The client that a parcel is of; -1 for what is no number."""
    # int() would take signs, spaces and digits of other scripts, and any length
    if name.isascii() and name.isdigit() and len(name) < 20 and str(int(name)) == name:
        return int(name)
    return -1
