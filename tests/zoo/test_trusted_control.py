"""Controls that count for as much as they foretell: fedpace_recall and its part."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from problems import final, simulation

from fedstep import InputError, zoo
from fedstep.core.exchange import SharedState
from fedstep.corrections.control_variates import MeanControl
from fedstep.corrections.trusted_control import TrustedControl
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Store, Task
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.server.sampling import Given


def after(algorithm, schedule):
    sim = replace(simulation(algorithm), sampling=Given(schedule))
    return final(sim, len(schedule))


def test_clients_that_come_once_make_it_fedpace_to_the_bit():
    once = ((0, 1), (2, 3), (4, 5))
    assert torch.equal(after(zoo.fedpace_recall(), once), after(zoo.fedpace(), once))


def test_a_client_that_comes_back_makes_another_method_of_it():
    # in the second round it is learnt what its memory is worth, in the third that counts
    back = ((0, 1), (0, 1), (0, 1))
    assert not torch.allclose(after(zoo.fedpace_recall(), back), after(zoo.fedpace(), back))


def reliance(gradients):
    """r after each round of two clients that have these gradients everywhere, round by round."""
    model = FunctionModel(
        lambda x, batch: batch.inputs @ x + 0 * batch.targets,
        torch.zeros(2, dtype=torch.float64),
    )
    algorithm = replace(zoo.fedavg(0.1), correction=TrustedControl(memory=0.0))
    server, store, found = None, Store(), []
    for both in gradients:
        data = Federation.of([(torch.tensor([g]).double(), torch.zeros(1)) for g in both])
        sim = Simulation(Task(algorithm, model, data, Plan(1, 3, order=InOrder())), 2)
        server = server or sim.begin(len(gradients))
        ((server, _),) = sim.run(server, store, server.round + 1)
        found.append(float(SharedState.of(server.shared).correction["trust"]))
    return found


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        # c = (1, 0) and c_i - c = (0, 1), (0, -1) after the first round
        (((1.0, 1.0), (1.0, -1.0)), 1.0),
        (((5.0, 1.0), (-7.0, -1.0)), 1.0),
        (((1.0, 0.25), (1.0, -0.25)), 0.25),
        (((1.0, 0.5), (1.0, 0.5)), 0.0),
        (((1.0, -1.0), (1.0, 1.0)), 0.0),
        (((1.0, 3.0), (1.0, -3.0)), 1.0),
    ],
    ids=["the same", "apart elsewhere", "a quarter", "alike", "the opposite", "three times"],
)
def test_controls_count_for_what_they_foretell(later, expected):
    first = ((1.0, 1.0), (1.0, -1.0))
    assert reliance([first, later]) == pytest.approx([0.0, expected])


def test_with_plain_steps_the_controls_are_those_of_scaffold():
    kept = []
    for correction in (TrustedControl(), MeanControl()):
        sim = simulation(replace(zoo.fedavg(0.1), correction=correction), per_round=6)
        *_, (server, _) = sim.run(sim.begin(1), Store(), 1)
        kept.append(SharedState.of(server.shared).correction["control"])
    assert torch.allclose(*kept, rtol=1e-10)


@pytest.mark.parametrize("memory", [-0.1, 1.0, float("nan")])
def test_a_memory_that_does_not_fade_is_refused(memory):
    with pytest.raises(InputError, match="memory must lie in"):
        TrustedControl(memory=memory)
