"""Finding out which nodes are there and which clients they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic

import torch

from fedstep.core.errors import InputError
from fedstep.core.types import TargetKind
from fedstep.execute.crew import LOG
from fedstep.remote.courier import Courier, Delivery
from fedstep.remote.parcel import Parcel, RefusedReply
from fedstep.remote.roster import Enrolment, Roster, TwiceHeld, check_complete

LOOK_AGAIN = 1.0  # seconds between two looks at which nodes there are
HERE = f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"


@dataclass
class Registry:
    """The roster, kept up to date: nodes come, go, and come back under another number."""

    courier: Courier
    model: str  # digest of the server's model
    clients: int | None  # how many there must be; None: as many as there are at the start
    timeout: float  # seconds that a node has to say who it is
    patience: float  # seconds that all clients have to appear
    roster: Roster = field(default_factory=Roster)
    refused: dict[int, str] = field(default_factory=dict)  # why, by node
    targets: TargetKind | None = None

    def gather(self) -> TargetKind:
        """Wait until every client is there, `patience` seconds at most; what their targets are."""
        end = monotonic() + self.patience
        while True:
            self._ask_strangers(starting=True)
            complete = bool(self.roster.samples) and not self.roster.missing(self.clients)
            if complete or monotonic() >= end:
                break
            self.courier.wait(LOOK_AGAIN)
        check_complete(self.roster, self.clients, self.refused)
        # fixed from here on: cohorts are drawn and weights counted by it
        self.clients = len(self.roster.samples)
        assert self.targets is not None  # every enrolment has brought one
        return self.targets

    def refresh(self) -> set[int]:
        """The nodes that can be reached now, after those that are new have been asked."""
        present = self.courier.nodes()
        strangers = set(present) - self.roster.nodes
        # one that was turned away is asked again only when somebody has fallen silent: it may be
        # the same machine, started anew
        news = strangers - set(self.refused)
        if news or (strangers and self.roster.silent):
            self._ask_strangers(starting=False)
        return set(present)

    def _ask_strangers(self, starting: bool) -> None:
        present = self.courier.nodes()
        strangers = [node for node in present if node not in self.roster.nodes]
        if not strangers:
            return
        question = Parcel({"question": "who"})
        parcels = dict.fromkeys(strangers, question)
        deliveries = self.courier.exchange("who", parcels, self.timeout)
        # by number, so that who is refused does not depend on who was faster
        for delivery in sorted(deliveries, key=lambda each: each.node):
            self._hear(delivery, present, starting)

    def _hear(
        self,
        delivery: Delivery,
        present: Sequence[int],
        starting: bool,
    ) -> None:
        node = delivery.node
        try:
            enrolment = self._enrolment(delivery)
            self.roster.enrol(enrolment, present)
        except RefusedReply as refusal:
            self.refused[node] = str(refusal)
            LOG.warning("node %d is refused: %s", node, refusal)
            if starting and isinstance(refusal, TwiceHeld):
                # who is right cannot be known before anybody has worked: the user must say
                raise InputError(str(refusal)) from None
            return
        self.refused.pop(node, None)
        if enrolment.machine != HERE:
            LOG.warning(
                "node %d has %s, the server %s: the last bits may differ from one machine alone",
                node,
                enrolment.machine,
                HERE,
            )

    def _enrolment(self, delivery: Delivery) -> Enrolment:
        if delivery.error:
            raise RefusedReply(delivery.error[:300])
        parcel = delivery.parcels.get("who")
        if parcel is None:
            raise RefusedReply("it does not say which clients it holds")
        enrolment = Enrolment.of(delivery.node, parcel, self.model)
        if self.targets is None:
            self.targets = enrolment.targets
        if enrolment.targets != self.targets:
            raise RefusedReply("its targets are of another kind than those of the others")
        if self.clients is not None and max(enrolment.samples) >= self.clients:
            raise RefusedReply(
                f"it holds client {max(enrolment.samples)}, but there are {self.clients}: "
                f"0..{self.clients - 1}"
            )
        return enrolment
