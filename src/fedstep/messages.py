"""What passes between the server and its clients in a round, and what stays with each."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.exchange import ClientMemory, SharedState
from fedstep.core.types import Context, Forward
from fedstep.core.vec import Scalar, State, Vec
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class Server:
    """All that the server knows between rounds: tensors and two counters."""

    x: Vec
    readout: Vec
    shared: State  # flat, as it is saved: SharedState.of reads it
    rule: State
    round: int
    horizon: int
    eta_g: Scalar  # the server step taken last


@dataclass(frozen=True)
class Broadcast:
    """What goes down the wire."""

    x: Vec
    shared: State  # flat, as it is sent: SharedState.of reads it
    round: int

    def context(self, memory: State, forward: Forward) -> Context:
        """What a client can see: the flat states of wire and disk as the parts that own them."""
        return Context(
            anchor=self.x,
            forward=forward,
            shared=SharedState.of(self.shared),
            memory=ClientMemory.of(memory),
            round=self.round,
        )


@dataclass(frozen=True)
class Reply:
    """What comes up the wire from a client `(d,)`, or from a block `(C, d)`."""

    delta: Vec  # as the server decodes it; the gradient in the reply to a probe
    message: State  # flat, as it is sent: ClientMessage.of reads it
    samples: Tensor  # how many the client has: its weight is the server's to decide
    sane: Tensor  # whether the client met any finite loss


@dataclass(frozen=True)
class LocalRound:
    """All that a client's round leaves behind: its reply goes up, memory and trace stay."""

    reply: Reply
    memory: State
    trace: Trace


@dataclass(frozen=True)
class Update:
    """A client's round, or a block's, as a summand for the server; memory and trace stay behind."""

    aggregate: Aggregate
    memory: State
    trace: Trace
