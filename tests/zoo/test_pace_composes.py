"""The common step and the pace with every correction, codec, server, weighting, readout and guard there is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from problems import assert_same_rounds, simulation

from fedstep import zoo
from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.corrections.base import Correction
from fedstep.corrections.contrast import Contrast
from fedstep.corrections.envelope import Envelope
from fedstep.corrections.momentum_control import OwnMomentum
from fedstep.execute import Cohort, Store
from fedstep.server.codecs import Codec
from fedstep.server.guards import Guard
from fedstep.server.readouts import Readout
from fedstep.server.rules import Length, ServerRule
from fedstep.server.step_sizes import EnvelopePolyak
from fedstep.server.weighting import Weighting
from fedstep.spec import parts
from fedstep.steps.common import CommonStep

SLOTS = {
    "correction": Correction,
    "codec": Codec,
    "server": ServerRule,
    "weighting": Weighting,
    "readout": Readout,
    "guard": Guard,
}


def fillers() -> list[tuple[str, object]]:
    """Every part of those slots that can be made without settings."""
    found = []
    for slot, base in SLOTS.items():
        for part in parts().values():
            if not issubclass(part, base):
                continue
            try:
                found.append((slot, part()))
            except (TypeError, InputError):
                continue  # it has a setting without a default; others of its kind are tried
    return found


FILLERS = fillers()


def composed(slot: str, part: object) -> Algorithm:
    method = replace(zoo.fedpace(), **{slot: part})
    # what sends a gradient in the place of a delta goes a length of its own
    if isinstance(part, OwnMomentum):
        return replace(method, server=Length(0.1))
    # Polyak's step on the envelope reads what its correction sends
    if isinstance(part, EnvelopePolyak):
        return replace(method, correction=Envelope())
    return method


def test_there_are_fillers_of_every_slot():
    assert {slot for slot, _ in FILLERS} == set(SLOTS)
    assert len(FILLERS) > 40


@pytest.mark.parametrize(
    ("slot", "part"), FILLERS, ids=[f"{slot}-{type(part).__name__}" for slot, part in FILLERS]
)
def test_fedpace_runs_with_it_and_does_not_depend_on_the_executor(slot, part):
    method = composed(slot, part)
    sim = simulation(method)
    assert isinstance(method.local.step, CommonStep)
    *_, (server, row) = sim.run(sim.begin(3), Store(), 3)
    assert bool(torch.isfinite(server.x).all())
    assert row.rejected == 0
    assert 0 < float(server.shared["step.common"]) < 1e6
    assert 0 < float(server.shared["step.pace.factor"]) <= 1
    if isinstance(part, Contrast):
        return  # its term differs in the last place from one executor to the other
    others = [simulation(method, Cohort(block=3))]
    assert_same_rounds(sim, others, rounds=2)
