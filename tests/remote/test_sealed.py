"""Sums for secure aggregation: exact in whole numbers, whoever is summed in which order and where."""

from __future__ import annotations

import pytest
import torch
from fakes import clients, model

from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Sequential, Store, Task
from fedstep.remote.sealed import LARGEST, STEP, SealedForm, cut_digits, from_digits, sealed_sum
from fedstep.run.rounds import fold
from fedstep.spec import build


def summands(method):
    task = Task(build(method), model(), Federation.of(clients()), Plan(batch=2, steps=2), 5)
    sent = task.algorithm.broadcast(task.algorithm.init(task.model.init(), 1))
    updates = list(Sequential()(task, sent, range(4), Store()))
    form = SealedForm.of(task.algorithm, task.model, sent)
    return form, [update.aggregate for update in updates], fold(updates).total


@pytest.mark.parametrize("method", ["fedavg", "fedsls", "fedexpsls", "fedpace"])
def test_a_sum_of_digits_is_the_sum_up_to_rounding_and_no_order_changes_it(method):
    form, each, plain = summands(method)
    whole = from_digits(sealed_sum(form, each))
    # four clients on two nodes, the other way round
    apart = sealed_sum(form, each[:1:-1]) + sealed_sum(form, each[:2])
    assert torch.equal(from_digits(apart), whole)
    total = form.aggregate(whole)
    assert (total.clients, total.rejected) == (4, 0)
    assert total.message.keys() == plain.message.keys()
    for own, other in [
        (total.weight, plain.weight),
        (total.delta, plain.delta),
        (total.norm_sq, plain.norm_sq),
        *[(total.message[name], plain.message[name]) for name in plain.message],
    ]:
        assert own.dtype == other.dtype
        torch.testing.assert_close(own, other, rtol=1e-5, atol=4 * STEP)


def test_digits_of_either_sign_come_back():
    whole = torch.tensor([0, 1, -1, 2**18, -(2**18) - 1, 2**51, -(2**51)])
    assert torch.equal(from_digits(cut_digits(whole)), whole)
    assert cut_digits(whole).abs().max() <= 2**18


def test_a_client_that_is_too_large_is_left_out_and_counted():
    form, each, _ = summands("fedexpsls")
    each[1].delta[0] = LARGEST
    total = form.aggregate(from_digits(sealed_sum(form, each)))
    assert (total.clients, total.rejected, float(total.weight)) == (3, 1, 3.0)
