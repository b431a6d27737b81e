"""Secure sums when nodes leave or send nonsense, stage by stage of the protocol."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
import torch
from apps import make, strategy
from fakes import SIZES
from flwr.app import ConfigRecord, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

from fedstep import InputError
from fedstep.flower import LocalGrid, client_app
from fedstep.flower.grid import FIRST_NODE

BAD = FIRST_NODE + 3  # the node of client 3
METHOD = "fedavg(step=0.1)"  # no search: rounding must not decide whether a step is accepted
SETTINGS = dict(guard=False, per_round=len(SIZES))


class Meddling(LocalGrid):
    """What one node sends at one stage is changed on its way; None: it does not arrive."""

    def __init__(self, app, stage, change, nodes=len(SIZES), bad=(BAD,)):
        super().__init__(app, nodes)
        self.stage = stage
        self.change = change
        self.bad = bad

    def send_and_receive(self, messages, *, timeout=None):
        for message in list(messages):
            # it is taken out by the mod, which has the message first
            stage = message.content.config_records.get(RECORD_KEY_CONFIGS, {}).get(Key.STAGE)
            for reply in super().send_and_receive([message], timeout=timeout):
                if stage != self.stage or reply.metadata.src_node_id not in self.bad:
                    yield reply
                    continue
                yield from self.change(reply)


def secure_run(stage, change, rounds=2, nodes=len(SIZES), bad=(BAD,), **changes):
    run = strategy(METHOD, secure=True, **{**SETTINGS, **changes})
    grid = Meddling(client_app(make, secure=True), stage, change, nodes, bad)
    run.start(grid, num_rounds=rounds)
    return run


def plain_run(absent=(), rounds=2):
    """Without masks; the nodes of `absent` never answer an order."""

    class Without(LocalGrid):
        def send_and_receive(self, messages, *, timeout=None):
            there = []
            for message in messages:
                order = message.metadata.message_type == "train"
                if not order or message.metadata.dst_node_id not in absent:
                    there.append(message)
            return super().send_and_receive(there, timeout=timeout)

    run = strategy(METHOD, **SETTINGS)
    run.start(Without(client_app(make), len(SIZES)), num_rounds=rounds)
    return run


def assert_like(run, plain):
    torch.testing.assert_close(run.server.x, plain.server.x, rtol=1e-4, atol=1e-5)
    assert [(r.clients, r.missing) for r in run.rows] == [
        (r.clients, r.missing) for r in plain.rows
    ]


def gone(reply):
    return []


@pytest.mark.parametrize("stage", [Stage.SETUP, Stage.SHARE_KEYS, Stage.COLLECT_MASKED_VECTORS])
def test_a_node_that_leaves_before_it_has_sent_its_sum_is_taken_out(stage):
    run = secure_run(stage, gone)
    assert_like(run, plain_run(absent=(BAD,)))
    assert [row.missing for row in run.rows] == [1, 1]


def test_a_node_that_leaves_after_it_has_sent_its_sum_counts():
    assert_like(secure_run(Stage.UNMASK, gone), plain_run())


def test_no_sum_of_fewer_than_the_quorum_is_ever_unmasked(monkeypatch):
    asked = []
    original = LocalGrid.send_and_receive

    def watched(self, messages, *, timeout=None):
        for message in messages:
            configs = message.content.config_records.get(RECORD_KEY_CONFIGS, {})
            asked.append(configs.get(Key.STAGE))
        return original(self, messages, timeout=timeout)

    monkeypatch.setattr(LocalGrid, "send_and_receive", watched)
    with pytest.raises(InputError, match="no secure sum of 6 clients or more"):
        secure_run(Stage.COLLECT_MASKED_VECTORS, gone, quorum=1.0)
    assert Stage.COLLECT_MASKED_VECTORS in asked
    # the difference of two sums would be the summand of the node that was missing in one
    assert Stage.UNMASK not in asked


def test_no_sum_of_two_nodes_is_unmasked():
    run = strategy(METHOD, secure=True, guard=False, per_round=3, clients=3)
    app = client_app(make, secure=True)
    grid = Meddling(app, Stage.COLLECT_MASKED_VECTORS, gone, nodes=3, bad=(FIRST_NODE,))
    with pytest.raises(InputError, match="no secure sum"):
        run.start(grid, num_rounds=1)


def with_values(reply, **values):
    records = dict(reply.content)
    before = dict(reply.content.config_records[RECORD_KEY_CONFIGS])
    for name, value in values.items():
        before[name] = value
    records[RECORD_KEY_CONFIGS] = ConfigRecord({k: v for k, v in before.items() if v is not None})
    reply.content = RecordDict(records)
    return [reply]


def numpy_bytes(array):
    file = BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def vectors(*arrays):
    return {Key.MASKED_PARAMETERS: [numpy_bytes(array) for array in arrays]}


def nothing(reply):
    reply.content = RecordDict()
    return [reply]


ONE = np.ones(1, dtype=np.int64)
FORGERIES = {
    (Stage.SETUP, "nothing"): nothing,
    (Stage.SETUP, "no key"): lambda r: with_values(r, **{Key.PUBLIC_KEY_1: None}),
    (Stage.SETUP, "text"): lambda r: with_values(r, **{Key.PUBLIC_KEY_2: "key"}),
    (Stage.SETUP, "no real key"): lambda r: with_values(r, **{Key.PUBLIC_KEY_1: b"key"}),
    (Stage.SHARE_KEYS, "nothing"): nothing,
    (Stage.SHARE_KEYS, "lengths"): lambda r: with_values(r, **{Key.CIPHERTEXT_LIST: [b""]}),
    (Stage.SHARE_KEYS, "types"): lambda r: with_values(r, **{Key.DESTINATION_LIST: [1.5] * 5}),
    (Stage.SHARE_KEYS, "others"): lambda r: with_values(r, **{Key.DESTINATION_LIST: [1] * 5}),
    (Stage.COLLECT_MASKED_VECTORS, "nothing"): nothing,
    (Stage.COLLECT_MASKED_VECTORS, "bytes"): lambda r: with_values(
        r, **{Key.MASKED_PARAMETERS: [b"\x93NUMPY", b"\x80\x04N."]}
    ),
    (Stage.COLLECT_MASKED_VECTORS, "short"): lambda r: with_values(r, **vectors(ONE, ONE)),
    (Stage.COLLECT_MASKED_VECTORS, "floats"): lambda r: with_values(
        r, **vectors(ONE, np.zeros(180))
    ),
    (Stage.COLLECT_MASKED_VECTORS, "one"): lambda r: with_values(r, **vectors(ONE)),
    (Stage.COLLECT_MASKED_VECTORS, "none"): lambda r: with_values(r, **vectors()),
    (Stage.COLLECT_MASKED_VECTORS, "cut"): lambda r: with_values(
        r, **{Key.MASKED_PARAMETERS: [numpy_bytes(ONE), numpy_bytes(np.zeros(180, int))[:-1]]}
    ),
}


@pytest.mark.parametrize(("stage", "kind"), FORGERIES, ids=str)
def test_a_reply_that_cannot_be_read_is_as_none(stage, kind, caplog):
    run = secure_run(stage, FORGERIES[stage, kind])
    assert_like(run, plain_run(absent=(BAD,)))
    assert f"node {BAD} is left out of the sum ({stage})" in caplog.text


def test_a_header_that_claims_all_memory_is_refused_before_any_is_taken(caplog):
    def enormous(reply):
        honest = reply.content.config_records[RECORD_KEY_CONFIGS][Key.MASKED_PARAMETERS]
        file = BytesIO()
        header = {"descr": "<i8", "fortran_order": False, "shape": (2**55,)}
        np.lib.format.write_array_header_1_0(file, header)
        return with_values(reply, **{Key.MASKED_PARAMETERS: [honest[0], file.getvalue()]})

    run = secure_run(Stage.COLLECT_MASKED_VECTORS, enormous)
    assert_like(run, plain_run(absent=(BAD,)))
    assert "bytes for masked numbers of the shape (36028797018963968,)" in caplog.text


def test_the_keys_of_somebody_else_are_refused(caplog):
    first = {}

    def stolen(reply):
        values = dict(reply.content.config_records[RECORD_KEY_CONFIGS])
        keys = first.setdefault("keys", values)
        return with_values(reply, **keys)

    # the node of client 1 is heard first, and keeps its own
    run = secure_run(Stage.SETUP, stolen, rounds=1, bad=(FIRST_NODE + 1, BAD))
    # which of the two is heard first is Flower's choice: one of them counts
    assert run.rows[0].clients == 5
    assert "somebody else's" in caplog.text


@pytest.mark.parametrize("kind", ["shares", "vector", "ciphertexts"])
def test_what_only_the_sum_can_show_spoils_the_round_and_nothing_is_accepted(kind):
    def spoilt(reply):
        values = reply.content.config_records[RECORD_KEY_CONFIGS]
        if kind == "shares":
            shares = [bytes(len(share)) for share in values[Key.SHARE_LIST]]
            return with_values(reply, **{Key.SHARE_LIST: shares})
        if kind == "ciphertexts":
            texts = [b"x" * len(text) for text in values[Key.CIPHERTEXT_LIST]]
            return with_values(reply, **{Key.CIPHERTEXT_LIST: texts})
        factor, vector = values[Key.MASKED_PARAMETERS]
        array = np.load(BytesIO(vector), allow_pickle=False)
        array = np.random.default_rng(0).integers(0, 2**32, size=array.shape)
        return with_values(reply, **{Key.MASKED_PARAMETERS: [factor, numpy_bytes(array)]})

    stage = {
        "shares": Stage.UNMASK,
        "vector": Stage.COLLECT_MASKED_VECTORS,
        "ciphertexts": Stage.SHARE_KEYS,
    }[kind]
    with pytest.raises(InputError, match="no secure sum"):
        secure_run(stage, spoilt, rounds=1)
