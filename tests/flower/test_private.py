"""A private run over Flower: the bits of one process, epsilon on its page, no noise anybody knows."""

from __future__ import annotations

import pytest
import torch
from apps import make, strategy
from fakes import PLAN, SEED, SIZES, clients, model

from fedstep import InputError, fit
from fedstep.execute import Sequential
from fedstep.flower import LocalGrid, client_app
from fedstep.server import UserPrivacy


@pytest.mark.parametrize("method", ["fedavg(step=0.1)", "fedsls", "fedexpsls", "fedpace"])
def test_a_private_run_has_the_bits_of_one_process_and_says_its_epsilon(method, tmp_path):
    pytest.importorskip("dp_accounting")
    guard = UserPrivacy(noise=0.5, seed=987654321)
    settings = dict(per_round=4, seed=SEED, batch=PLAN.batch, local_steps=PLAN.steps)
    alone = fit(
        model().module, clients(), method, 3, executor=Sequential(), guard=guard, **settings
    )
    run = strategy(method, guard=guard, trace=False, out=tmp_path / "run")
    run.start(LocalGrid(client_app(make), len(SIZES)), num_rounds=3)
    assert torch.equal(run.server.readout, alone.x)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "user-level differential privacy of the model after 3 rounds" in page
    # no loss and no step of a client has come
    assert all(row.loss != row.loss for row in run.rows)
    assert all(step != step for row in run.rows for step in row.steps)
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            assert b"987654321" not in path.read_bytes()


def test_noise_that_anybody_can_take_away_is_refused():
    with pytest.raises(InputError, match="anybody can take this noise away"):
        strategy("fedexpsls", guard=UserPrivacy())
