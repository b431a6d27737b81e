"""Blocks of a cohort that are run at once keep the bits of each block alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedstep import fit
from fedstep.data.plan import Fixed, InOrder, Plan, Shuffled
from fedstep.execute import Cohort, cohort
from fedstep.execute.lockstep import Lockstep

EQUAL = [6] * 14
UNEQUAL = [9, 4, 7, 8, 5, 6, 9, 4, 8, 8, 5, 7, 4, 6]


def clients(sizes):
    draw = torch.Generator().manual_seed(3)
    truth = torch.randn(9, 3, generator=draw)
    dealt = []
    for size in sizes:
        x = torch.randn(size, 9, generator=draw)
        dealt.append((x, (x @ truth).argmax(1)))
    return dealt


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(9, 5), nn.ReLU(), nn.Linear(5, 3))


def linear():
    torch.manual_seed(0)
    return nn.Linear(9, 3)


def run(method, module, sizes, **settings):
    settings = {"batch": 3, "local_epochs": 2} | settings
    result = fit(
        module(),
        clients(sizes),
        method,
        rounds=3,
        per_round=11,
        executor=Cohort(2),
        progress=False,
        **settings,
    )
    rows = [(row.loss, row.steps, row.trials, row.forwards, row.clipped) for row in result.rows]
    return result.x, repr(rows)


@pytest.mark.parametrize("sizes", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("module", [network, linear])
@pytest.mark.parametrize(
    "method", ["fedavg(step=0.1)", "fedsls", "scaffold(step=0.1)", "fedlin", "fedpace"]
)
def test_blocks_at_once_keep_the_bits_of_each_alone(method, module, sizes, monkeypatch):
    stacked_x, stacked_rows = run(method, module, sizes)
    monkeypatch.setattr(cohort, "STACK", 0)
    monkeypatch.setattr(cohort, "LINEAR_STACK", 0)
    x, rows = run(method, module, sizes)
    assert torch.equal(stacked_x, x)
    assert stacked_rows == rows


def test_two_workers_give_the_bits_of_stacks():
    x, rows = run("fedsls", network, UNEQUAL)
    other_x, other_rows = run("fedsls", network, UNEQUAL, workers=2)
    assert torch.equal(x, other_x)
    assert rows == other_rows


def test_blocks_that_are_padded_alike_are_one_pass(monkeypatch):
    passes = []
    run_alike = Cohort._run_alike

    def counted(self, *given):
        passes.append(1)
        return run_alike(self, *given)

    monkeypatch.setattr(Cohort, "_run_alike", counted)
    run("fedavg(step=0.1)", network, EQUAL)
    assert len(passes) == 3  # one a round, not one a block
    passes.clear()
    # short steps of long clients need no padding, however many samples each has
    run("fedavg(step=0.1)", network, UNEQUAL, local_epochs=None, local_steps=1)
    assert len(passes) == 3


@pytest.mark.parametrize("order", [Shuffled(), InOrder(), Fixed(((0, 2), (1, 0, 2, 3)))])
@pytest.mark.parametrize("steps", [0, 1, 7])
def test_a_walk_is_the_batches_end_to_end(order, steps):
    plan = Plan(batch=3, steps=steps, order=order)
    walks = [plan.walk(n, 0, 1, client) for client, n in enumerate([8, 4, 8])]
    whole = Lockstep.of(walks)
    for row, n in enumerate([8, 4, 8]):
        batches = plan(n, 0, 1, row)
        assert [len(batch) for batch in batches] == whole.sizes[row].tolist()
        for step, batch in enumerate(batches):
            padded = whole.positions[row, step].tolist()
            assert padded[: len(batch)] == batch.tolist()
            assert set(padded[len(batch) :]) <= {int(batch[0])}
    part = whole.part(slice(1, 2))
    alone = Lockstep.of(walks[1:2])
    assert torch.equal(part.positions, alone.positions)
    assert (part.largest, part.smallest, part.lengths) == (
        alone.largest,
        alone.smallest,
        alone.lengths,
    )
