"""An algorithm is the tuple of answers to the slots' questions. It holds no state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.types import Batch, Context, Forward
from fedstep.core.vec import State, Vec, finite, lift, prefixed, under
from fedstep.corrections.base import Correction
from fedstep.local.solver import LocalSolver
from fedstep.local.trace import Trace
from fedstep.server.codecs import Codec, Plain
from fedstep.server.readouts import Last, Readout
from fedstep.server.rules import ServerRule, Step
from fedstep.server.weighting import Equal, Weighting


@dataclass(frozen=True)
class Server:
    """All that the server knows between rounds: tensors and two counters."""

    x: Vec
    readout: Vec
    shared: State
    rule: State
    round: int
    horizon: int


@dataclass(frozen=True)
class Broadcast:
    """What goes down the wire."""

    x: Vec
    shared: State
    round: int


@dataclass(frozen=True)
class Update:
    """What comes back from a client, or from a block: the sum for the server; memory and trace stay behind."""

    aggregate: Aggregate
    memory: State
    trace: Trace


@dataclass(frozen=True)
class Algorithm:
    """Three pure calls a round: `broadcast`, `client`, `absorb`; `probe` and `inform` come before where the correction probes."""

    local: LocalSolver
    server: ServerRule = Step()
    correction: Correction = Correction()
    weighting: Weighting = Equal()
    readout: Readout = Last()
    codec: Codec = Plain()

    def suited(self, model: Forward, targets: Tensor) -> Algorithm:
        """The algorithm for this model and targets of this kind; what cannot work together is refused."""
        return replace(self, correction=self.correction.suited(model, targets))

    def init(self, x: Vec, horizon: int = 0) -> Server:
        """The state before the first of `horizon` planned rounds."""
        shared = {**self.correction.shared_init(x), **self.local.shared_init(x)}
        return Server(x, x, shared, self.server.init(x), 0, horizon)

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        """What a client remembers before its first round."""
        codec = prefixed("codec.", self.codec.memory_init(x))
        return {**self.correction.memory_init(x), **self.local.memory_init(x), **codec}

    def broadcast(self, server: Server) -> Broadcast:
        kept = self.correction.withheld | {f"step.{name}" for name in self.local.step.withheld}
        shared = {name: v for name, v in server.shared.items() if name not in kept}
        return Broadcast(server.x, shared, server.round)

    def client(
        self,
        sent: Broadcast,
        memory: State,
        forward: Forward,
        batches: Iterable[tuple[Batch, Tensor | None]],
        samples: Tensor,
    ) -> Update:
        """The work of one client, samples of shape (), or of a block, samples of shape (C,)."""
        ctx = Context(sent.x, sent.shared, memory, forward, sent.round)
        begin = forward.enter(self.correction.start(ctx).expand(*samples.shape, -1))
        u, trace, remembered, told = self.local(ctx, begin, batches, self.correction)
        x = forward.leave(u)
        delta, kept, message = self.correction.finish(ctx, x, trace)
        sane = finite(delta) & trace.sane
        for value in message.values():
            sane = sane & finite(value.reshape(*sane.shape, -1))
        delta, coded = self.codec(delta, under("codec.", memory))
        after = {**kept, **remembered, **prefixed("codec.", coded)}
        update = Aggregate.of(delta, {**message, **told}, self.weighting(samples), trace.sane)
        return Update(update, _unless(sane, after, memory), trace)

    def probe(
        self,
        sent: Broadcast,
        memory: State,
        forward: Forward,
        batches: Iterable[tuple[Batch, Tensor | None]],
        samples: Tensor,
    ) -> Update:
        """The gradient of each client at the point sent, in the place of the delta."""
        ctx = Context(sent.x, sent.shared, memory, forward, sent.round)
        g, trace = self.local.gradient(ctx, sent.x.expand(*samples.shape, -1), batches)
        kept, message = self.correction.probe(ctx, g)
        # a gradient that is not finite is remembered all the same: with an old one the client would descend a wrong function,
        # with this one its update is refused
        return Update(Aggregate.of(g, message, self.weighting(samples), trace.sane), kept, trace)

    def inform(self, server: Server, agg: Aggregate) -> Server:
        """The server after the probe: what it sends along with the model is new."""
        if agg.clients == 0:
            return server
        own = {**server.shared, **self.correction.gather(server.shared, agg)}
        return replace(server, shared=own)

    def absorb(self, server: Server, agg: Aggregate, population: float) -> Server:
        """The server's step; population is the weight of all clients together, their number where all count the same.

        A round in which no client counted leaves the model as it is.
        """
        later = replace(server, round=server.round + 1)
        if agg.clients == 0:
            return later
        with torch.no_grad():
            d, shared = self.correction.fold(server.shared, agg, float(agg.weight) / population)
            shared = {**shared, **self.local.fold(server.shared, agg)}
            spread = self.correction.spread(shared, agg)
            x, rule = self.server.update(server.x, d, replace(agg, norm_sq=spread), server.rule)
            readout = self.readout(server.readout, server.x, x, server.round, server.horizon)
        return replace(later, x=x, readout=readout, shared=shared, rule=rule)


def _unless(sane: Tensor, after: State, before: State) -> dict[str, Tensor]:
    """A client whose update is refused must not remember what spoilt it."""
    return {
        name: torch.where(lift(sane, value), value, before[name]) for name, value in after.items()
    }
