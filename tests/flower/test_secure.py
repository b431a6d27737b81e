"""Secure aggregation over Flower: the server sees masked sums, and the run is that without masks."""

from __future__ import annotations

import pytest
import torch
from apps import make, strategy
from fakes import SIZES
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key

from fedstep import InputError
from fedstep.flower import LocalGrid, client_app
from fedstep.flower import client as client_module
from fedstep.flower.secure import sealed_reply

METHODS = ["fedavg(step=0.1)", "fedsls", "fedexpsls", "fedpace"]


class Watched(LocalGrid):
    """Keeps what nodes have sent."""

    def send_and_receive(self, messages, *, timeout=None):
        replies = list(super().send_and_receive(messages, timeout=timeout))
        self.__dict__.setdefault("seen", []).extend(replies)
        return replies


@pytest.mark.parametrize("method", METHODS)
def test_a_secure_run_is_the_plain_run_up_to_rounding(method):
    plain = strategy(method, guard=False)
    plain.start(LocalGrid(client_app(make), len(SIZES)), num_rounds=3)
    grid = Watched(client_app(make, secure=True), len(SIZES))
    sealed = strategy(method, guard=False, secure=True)
    sealed.start(grid, num_rounds=3)
    torch.testing.assert_close(sealed.server.x, plain.server.x, rtol=1e-4, atol=1e-5)
    assert [row.clients for row in sealed.rows] == [row.clients for row in plain.rows]
    # neither losses nor arrays: what is left are keys, shares and masked whole numbers
    assert all(row.loss != row.loss for row in sealed.rows)
    for reply in grid.seen:
        assert not reply.has_error()
        for record in reply.content.array_records.values():
            assert len(record) == 0


def test_an_app_for_secure_sums_answers_nothing_else():
    app = client_app(make, secure=True)
    with pytest.raises(InputError, match="usable replies"):
        strategy("fedavg", guard=False).start(LocalGrid(app, len(SIZES)), num_rounds=1)


def test_sums_do_not_leave_an_app_without_the_mod(monkeypatch):
    # a mod that passes everything on: nobody masks
    monkeypatch.setattr(
        client_module, "secaggplus_mod", lambda message, state, call: call(message, state)
    )
    grid = Watched(client_app(make, secure=True), len(SIZES))
    with pytest.raises(InputError, match="no secure sum"):
        strategy("fedavg", guard=False, secure=True).start(grid, num_rounds=1)
    stage = RecordDict({RECORD_KEY_CONFIGS: ConfigRecord({Key.STAGE: "collect_masked_vectors"})})
    for content in (RecordDict(), stage):
        message = Message(content, dst_node_id=1000, message_type="train")
        with pytest.raises(ValueError, match="unmasked"):
            sealed_reply(message, torch.zeros(3))
    reasons = [reply.error.reason for reply in grid.seen if reply.has_error()]
    assert any("no order" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("method", "options", "text"),
    [
        ("fedavg", {"guard": True}, "no guard sees single updates"),
        ("fedlin", {"guard": False}, "probes are not masked"),
        ("fedavg", {"guard": False, "weighting": "samples"}, "clients count the same"),
    ],
)
def test_what_secure_sums_do_not_allow_is_one_line(method, options, text):
    with pytest.raises(InputError, match=text):
        strategy(method, secure=True, **options)


def test_a_method_that_remembers_is_refused():
    with pytest.raises(InputError, match="remember"):
        strategy("scaffold", guard=False, secure=True).start(
            LocalGrid(client_app(make, secure=True), len(SIZES)), num_rounds=1
        )
