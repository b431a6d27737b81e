"""Step rule, direction and move talk to the server in one way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from problems import simulation

from fedstep import zoo
from fedstep.core.exchange import SharedState
from fedstep.core.vec import NewState, State, Vec
from fedstep.execute import Store
from fedstep.local.directions import Chain, Direction, Steepest
from fedstep.local.moves import Straight
from fedstep.steps.fixed import Constant


class Talks:
    """Every client says 1, the server has a secret beside what it tells all."""

    withheld: ClassVar[frozenset[str]] = frozenset({"secret"})

    def shared_init(self, x: Vec) -> NewState:
        return {"known": x.new_zeros(()), "secret": x.new_zeros(())}

    def init(self, x: Vec) -> NewState:
        return {"word": x.new_ones(x.shape[:-1])}

    def message(self, state: State) -> NewState:
        # what a part makes of its state in a step is not asked here
        return {"word": torch.tensor(1.0)}

    def received(self, message: State, shared: State) -> State:
        return {"word": message["word"].clamp(max=0.5)}

    def fold(self, shared: State, message: State, agg: object) -> NewState:
        return {"known": message["word"], "secret": message["word"]}


@dataclass(frozen=True)
class TalkingStep(Talks, Constant):
    pass


@dataclass(frozen=True)
class TalkingDirection(Talks, Steepest):
    pass


@dataclass(frozen=True)
class TalkingMove(Talks, Straight):
    pass


def talking(slot: str, part: object) -> tuple[SharedState, SharedState]:
    """What the server keeps after a round of four clients, and what it sends then."""
    plain = zoo.fedavg()
    algorithm = replace(plain, local=replace(plain.local, **{slot: part}))
    sim = simulation(algorithm)
    *_, (server, _) = sim.run(sim.begin(1), Store(), 1)
    sent = algorithm.broadcast(server)
    return SharedState.of(server.shared), SharedState.of(sent.shared)


PARTS = {"step": TalkingStep(), "direction": TalkingDirection(), "move": TalkingMove()}


@pytest.mark.parametrize("slot", PARTS)
def test_messages_are_bounded_summed_and_sent_back_without_what_is_withheld(slot):
    kept, sent = talking(slot, PARTS[slot])
    # four clients of weight 1, each bounded to 1/2
    assert float(getattr(kept, slot)["secret"]) == 2.0
    assert set(getattr(sent, slot)) == {"known"}
    assert float(getattr(sent, slot)["known"]) == 2.0


def test_a_chain_withholds_what_its_parts_withhold():
    chain: Direction = Chain((Steepest(), TalkingDirection()))
    kept, sent = talking("direction", chain)
    assert set(kept.direction) == {"1.known", "1.secret"}
    assert set(sent.direction) == {"1.known"}
