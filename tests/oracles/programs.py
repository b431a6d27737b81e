"""The set-up of the recorded programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Executor, Sequential, Task
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.server.sampling import Given

HERE = Path(__file__).parent
FULL = HERE.parents[2] / "shared" / "oracles"


def linear_model() -> ModuleModel:
    """4 -> 3 with bias, all zero, float64."""
    module = torch.nn.Linear(4, 3, dtype=torch.float64)
    with torch.no_grad():
        for p in module.parameters():
            p.zero_()
    return ModuleModel(module)


def program(
    data: Any, algorithm: Any, batch: int = 50, executor: Executor | None = None
) -> Simulation:
    """The set-up of the two federated programs: five clients, three a round by a fixed schedule, five local steps."""
    clients = [
        (torch.tensor(c["X"], dtype=torch.float64), torch.tensor(c["y"]))
        for c in data["data"]["clients"]
    ]
    schedule = tuple(tuple(ids) for ids in data["settings"]["schedule"])
    task = Task(algorithm, linear_model(), Federation.of(clients), Plan(batch, 5, order=InOrder()))
    return Simulation(task, 3, Given(schedule), executor or Sequential())


def close(actual: Any, expected: Any, tolerance: float = 1e-12) -> None:
    got, wanted = (
        torch.as_tensor(actual, dtype=torch.float64),
        torch.as_tensor(expected, dtype=torch.float64),
    )
    assert torch.allclose(got, wanted, rtol=tolerance, atol=tolerance), (got, wanted)
