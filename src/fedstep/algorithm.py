"""An algorithm is the tuple of answers to the slots' questions. It holds no state.

One round, with what each call reads and returns:

    broadcast(server)             -> Broadcast    the model and what is sent besides
    reply(broadcast, memory, ...) -> LocalRound   on the client: its reply, memory and trace
    count(reply, broadcast)       -> Aggregate    the reply, weighted, as a summand
    absorb(server, sum, weight)   -> Server       the server's step

docs/idea.md walks through a round of FedExpSLS file by file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.exchange import ClientMemory, ClientMessage, SharedState, without
from fedstep.core.slots import check_slots
from fedstep.core.types import Forward, LiveBatch, TargetKind
from fedstep.core.vec import NewState, State, Vec, finite, lift
from fedstep.corrections.base import Correction, Finished
from fedstep.local.solver import LocalSolver
from fedstep.messages import Broadcast, LocalRound, Reply, Server, Update
from fedstep.server.codecs import Codec, Plain
from fedstep.server.guards import CheckedMessage, Guard, Open
from fedstep.server.readouts import Last, Readout
from fedstep.server.rules import ServerRule, Step
from fedstep.server.weighting import Equal, Weighting

# the types of a round are part of what an algorithm offers: import them from here
__all__ = ["Algorithm", "Broadcast", "LocalRound", "Reply", "Server", "Update"]


@dataclass(frozen=True)
class Algorithm:
    """Three pure calls a round: `broadcast`, `client`, `absorb`.

    `probe` and `inform` come before where the correction probes. `client` is `count` of `reply`: a
    server that trusts nobody takes the reply, checks it and counts it itself.
    """

    local: LocalSolver
    server: ServerRule = Step()
    correction: Correction = Correction()
    weighting: Weighting = Equal()
    readout: Readout = Last()
    codec: Codec = Plain()
    guard: Guard = Open()

    def __post_init__(self) -> None:
        check_slots(
            self,
            local=LocalSolver,
            server=ServerRule,
            correction=Correction,
            weighting=Weighting,
            readout=Readout,
            codec=Codec,
            guard=Guard,
        )
        if self.guard.private and self.correction.probes:
            raise InputError(
                f"{type(self.guard).__name__}: {type(self.correction).__name__} asks clients for "
                "gradients first, to which no noise is added; take a method without probes"
            )

    def suited(self, model: Forward, targets: TargetKind) -> Algorithm:
        """The algorithm for this model and targets of this kind.

        What cannot work together is refused.
        """
        return replace(
            self,
            local=self.local.suited(model),
            correction=self.correction.suited(model, targets),
        )

    def init(self, x: Vec, horizon: int = 0) -> Server:
        """The state before the first of `horizon` planned rounds."""
        shared = self.local.shared_init(x, self.correction.shared_init(x))
        shared = replace(shared, guard=self.guard.init(x))
        return Server(
            x=x,
            readout=x,
            shared=shared.flat(),
            rule=self.server.init(x),
            round=0,
            horizon=horizon,
            eta_g=x.new_full((), self.server.usual_step),
        )

    def memory_init(self, x: Vec) -> NewState:
        """What a client remembers before its first round."""
        # flat: stores stack, save and send it without knowing whose it is
        memory = ClientMemory(
            correction=self.correction.memory_init(x),
            step=self.local.memory_init(x),
            codec=self.codec.memory_init(x),
        )
        return memory.flat()

    def broadcast(self, server: Server) -> Broadcast:
        """What every client of the round is sent."""
        # what is the server's alone is not sent: bytes down are counted by what is
        sent = self.local.sent(SharedState.of(server.shared))
        sent = replace(sent, correction=without(self.correction.withheld, sent.correction))
        return Broadcast(server.x, sent.flat(), server.round)

    def client(
        self,
        sent: Broadcast,
        memory: State,
        forward: Forward,
        batches: Iterable[LiveBatch],
        samples: Tensor,
    ) -> Update:
        """The work of one client, samples of shape (), or of a block, samples of shape (C,)."""
        done = self.reply(sent, memory, forward, batches, samples)
        return Update(self.count(done.reply, sent), done.memory, done.trace)

    def reply(
        self,
        sent: Broadcast,
        memory: State,
        forward: Forward,
        batches: Iterable[LiveBatch],
        samples: Tensor,
    ) -> LocalRound:
        """The same, before it is weighted: what a client sends, keeps and has done."""
        ctx = sent.context(memory, forward)
        start = self.correction.start(ctx).expand(*samples.shape, -1)
        # a client may work in other coordinates than those that travel (the span of its samples)
        run = self.local(ctx, forward.enter(start), batches, self.correction)
        x = forward.leave(run.x)
        tally = run.message.correction
        finished = self.correction.finish(ctx.prepared(tally), x, run.trace)
        # a client of whose samples none counts has learnt nothing
        learnt_anything = run.trace.sane & (samples > 0)

        delta, codec_memory = self.codec(finished.delta, ctx.memory.codec)
        learnt = ClientMemory(
            correction=finished.memory,
            step=run.step_memory,
            codec=codec_memory,
        )
        sums = without(self.correction.unsent, tally)
        message = replace(run.message, correction={**finished.message, **sums})
        return LocalRound(
            reply=Reply(delta, message.flat(), samples, learnt_anything),
            memory=_unless_spoilt(finished, learnt_anything, learnt.flat(), memory),
            trace=run.trace.without_losses(samples == 0),
        )

    def count(self, reply: Reply, sent: Broadcast, probe: bool = False) -> Aggregate:
        """A reply to what was sent, as a summand: weighted, shortened where the guard says so.

        A reply that cannot be used is left out and counted. `probe`: it is one to a probe.
        """
        return self.count_blocks(reply, sent, (slice(None),), probe)[0]

    def count_blocks(
        self,
        reply: Reply,
        sent: Broadcast,
        blocks: Sequence[slice],
        probe: bool = False,
    ) -> list[Aggregate]:
        """The same for blocks of clients that lie one behind the other in the reply."""
        # the weight is made here and not on the client, who could claim any
        weight = self.weighting(reply.samples)
        shared = SharedState.of(sent.shared)
        if probe:
            checked = self.guard.check_gradient(reply.delta, weight, shared.guard)
            checked_message = CheckedMessage(reply.message)
        else:
            checked = self.guard.check(reply.delta, weight, shared.guard)
            message = self.local.received(ClientMessage.of(reply.message), shared).flat()
            kinds = self.local.message_kinds()
            checked_message = self.guard.check_message(message, kinds, weight, shared.guard)
        return checked.summands(blocks, checked_message, weight, reply.sane)

    def probe(
        self,
        sent: Broadcast,
        memory: State,
        forward: Forward,
        batches: Iterable[LiveBatch],
        samples: Tensor,
    ) -> Update:
        """The gradient of each client at the point sent, in the place of the delta."""
        done = self.probe_reply(sent, memory, forward, batches, samples)
        return Update(self.count(done.reply, sent, probe=True), done.memory, done.trace)

    def probe_reply(
        self,
        sent: Broadcast,
        memory: State,
        forward: Forward,
        batches: Iterable[LiveBatch],
        samples: Tensor,
    ) -> LocalRound:
        """The same, before it is weighted."""
        ctx = sent.context(memory, forward)
        g, trace = self.local.gradient(ctx, sent.x.expand(*samples.shape, -1), batches)
        # a gradient that is not finite is remembered all the same: with an old one the client
        # would descend a wrong function, with this one its update is refused
        learnt, message = self.correction.probe(ctx, g)
        return LocalRound(
            reply=Reply(g, message, samples, trace.sane),
            memory=learnt,
            trace=trace,
        )

    def inform(self, server: Server, agg: Aggregate) -> Server:
        """The server after the probe: what it sends along with the model is new."""
        if agg.clients == 0:
            return server
        shared = SharedState.of(server.shared)
        settled = self.guard.settle_gradient(agg, shared.guard)
        gathered = self.correction.gather(shared.correction, settled.aggregate)
        shared = replace(
            shared,
            correction={**shared.correction, **gathered},
            guard=settled.state,
        )
        return replace(server, shared=shared.flat())

    @torch.no_grad()
    def absorb(self, server: Server, agg: Aggregate, population: float) -> Server:
        """The server's step.

        population is the weight of all clients together, their number where all count the same. A
        round in which no client counted, or which would lead to a point that is not finite, leaves
        the model as it is.
        """
        # the round counts even if nobody did: batches and cohorts are keyed by its number
        round = server.round + 1
        if not agg.usable:
            return replace(server, round=round)
        shared = SharedState.of(server.shared)
        settled = self.guard.settle(agg, shared.guard)
        agg = settled.aggregate
        message = ClientMessage.of(agg.message)
        total = replace(agg, message=message.correction)

        # by weight, not by number: control variates are means over all clients, present or not
        fraction = float(agg.weight) / population
        d, correction = self.correction.fold(shared.correction, total, fraction)
        shared = self.local.fold(shared, message, agg)

        # extrapolation compares |d|^2 with the spread of what d is the mean of, which a correction
        # may have changed
        spread = self.correction.spread(correction, total)
        step = self.server.update(server.x, d, replace(total, norm_sq=spread), server.rule)
        # every summand was finite; an extrapolated step may overflow all the same
        if not bool(finite(step.x)):
            return replace(server, round=round)
        moved = self.correction.moved(correction, server.x, step.x)
        shared = replace(shared, correction=moved, guard=settled.state)
        readout = self.readout(
            mean=server.readout,
            old=server.x,
            new=step.x,
            round=server.round,
            horizon=server.horizon,
        )
        return replace(
            server,
            round=round,
            x=step.x,
            readout=readout,
            shared=shared.flat(),
            rule=step.state,
            eta_g=step.eta_g,
        )


def _unless_spoilt(
    finished: Finished,
    learnt_anything: Tensor,
    after: State,
    before: State,
) -> NewState:
    """A client whose update is refused must not remember what spoilt it."""
    if not after:
        return {}
    # the delta as it was learnt decides, not as the codec sends it: a codec may hide a NaN
    sane = finite(finished.delta) & learnt_anything
    for value in finished.message.values():
        sane = sane & finite(value.reshape(*sane.shape, -1))
    memory = {}
    for name, value in after.items():
        memory[name] = torch.where(lift(sane, value), value, before[name])
    return memory
