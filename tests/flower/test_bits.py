"""Through Flower's records and grid: the bits and rows of `Sequential` in one process."""

from __future__ import annotations

import pytest
import torch
from apps import make, make_several, strategy
from fakes import PLAN, SEED, SIZES, clients, model, same, simulated

from fedstep import fit
from fedstep.execute import Sequential
from fedstep.flower import FedStep, LocalGrid, client_app
from fedstep.spec import methods


def rows_of(run):
    return str([{**row.to_dict(), "seconds": 0.0} for row in run.rows])


@pytest.mark.parametrize("method", sorted(methods()))
def test_every_method_has_the_bits_and_rows_of_one_process(method):
    server, rows = simulated(method)
    run = strategy(method)
    result = run.start(LocalGrid(client_app(make), len(SIZES)), num_rounds=3)
    assert same(run.server, server)
    assert rows_of(run) == rows
    flat = torch.cat([value.reshape(-1) for value in result.arrays.to_torch_state_dict().values()])
    assert torch.equal(flat, server.readout)


@pytest.mark.parametrize("method", ["fedexpsls", "scaffold"])
def test_the_bits_and_settings_are_those_of_fit(method):
    settings = dict(per_round=4, seed=SEED, batch=PLAN.batch, local_steps=PLAN.steps)
    alone = fit(model().module, clients(), method, 3, executor=Sequential(), **settings)
    run = FedStep(method, model().module, fraction_evaluate=0.0, patience=0.0, **settings)
    run.start(LocalGrid(client_app(make), len(SIZES)), num_rounds=3)
    assert torch.equal(run.server.readout, alone.x)
    assert [row.clipped for row in run.rows] == [row.clipped for row in alone.rows]


@pytest.mark.parametrize("method", ["fedexpsls", "scaffold", "fedlin", "fedcams"])
def test_nodes_of_several_clients_and_memories_in_files_give_the_same_bits(method, tmp_path):
    server, rows = simulated(method)
    run = strategy(method, out=tmp_path / "run")
    app = client_app(make_several, memory=tmp_path / "node")
    run.start(LocalGrid(app, 2), num_rounds=3)
    assert same(run.server, server)
    assert rows_of(run) == rows
    assert (tmp_path / "run" / "report.html").exists()
    # a finished run is read back, and nobody works
    again = strategy(method, out=tmp_path / "run")
    again.start(LocalGrid(app, 2), num_rounds=3)
    assert same(again.server, server)
