"""The failure matrix of a deployment, row by row, without a transport."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import torch
from fakes import FakeNode, courier, deployment, finished, model, same, simulated

from fedstep.core.errors import InputError
from fedstep.execute import Store
from fedstep.remote.courier import Delivery
from fedstep.remote.enrol import Registry
from fedstep.remote.memories import MemoryFiles
from fedstep.remote.parcel import Parcel, WireTensor
from fedstep.remote.patience import Patience
from fedstep.remote.roster import model_digest
from fedstep.spec import build

METHODS = ["fedexpsls", "scaffold", "fedlin", "fedcams", "feddyn"]
HELD = ((0,), (1,), (2,), (3,), (4,), (5,))
BAD = 103  # the node of client 3


def run(method, carrier, rounds=3, **changes):
    return finished(deployment(method, carrier, per_round=6, **changes), rounds)


def without_client_3(method, rounds=3):
    """The reference: what would have become of it had the node never answered an order."""
    carrier = courier(HELD, lose=lambda errand, node: errand != "who" and node == BAD)
    return run(method, carrier, rounds)


def changed(delivery, change):
    """The delivery with every parcel changed."""
    return replace(delivery, parcels={n: change(p) for n, p in delivery.parcels.items()})


def nan(parcel):
    tensors = dict(parcel.tensors)
    for name, wire in tensors.items():
        if name.startswith(("delta", "message")) and wire.dtype.startswith("float"):
            values = torch.frombuffer(bytearray(wire.data), dtype=getattr(torch, wire.dtype))
            values.fill_(float("nan"))
            tensors[name] = replace(wire, data=values.numpy().tobytes())
    return replace(parcel, tensors=tensors)


FORGERIES = {
    "not finite": nan,
    "other weight": lambda p: replace(p, values={**p.values, "samples": 10**12}),
    "other shape": lambda p: replace(
        p, tensors=dict.fromkeys(p.tensors, WireTensor("", (9,), b""))
    ),
    "nothing": lambda p: Parcel(),
    "garbage": lambda p: Parcel({"client": "7", "x": [1.5]}, {"y": WireTensor("a", (), b"b")}),
    "another client": lambda p: replace(p, values={**p.values, "client": 2}),
}


@pytest.mark.parametrize("kind", FORGERIES)
@pytest.mark.parametrize("method", ["fedexpsls", "scaffold"])
def test_a_forged_reply_leaves_the_model_as_if_its_client_had_not_been_there(method, kind):
    def forge(errand, delivery):
        if errand == "who" or delivery.node != BAD:
            return [delivery]
        return [changed(delivery, FORGERIES[kind])]

    server, _ = without_client_3(method)
    other = deployment(method, courier(HELD, forge=forge), per_round=6)
    done = list(other.run(other.begin(3), Store(), 3))
    rows = [row for _, row in done]
    assert torch.equal(done[-1][0].x, server.x)
    assert [(row.clients, row.rejected, row.missing) for row in rows] == [(5, 1, 0)] * 3
    assert len(other.refusals) == 3


@pytest.mark.parametrize("method", METHODS)
def test_orders_and_replies_delivered_twice_change_nothing(method):
    twice = courier(HELD, forge=lambda errand, delivery: [delivery, delivery])
    original = twice._delivered

    def again(errand, number, parcel):
        original(errand, number, parcel)  # the work is done, and its reply lost
        return original(errand, number, parcel)

    twice._delivered = again
    server, rows = simulated(method, per_round=6)
    other, other_rows = run(method, twice)
    assert same(other, server)
    assert other_rows == rows


@pytest.mark.parametrize("method", METHODS)
def test_a_late_reply_is_as_none_and_its_memory_goes_back(method):
    """Client 3 does its work in round 2, and what it says comes in round 3."""
    held_back = []
    rounds = {"now": 0}

    def forge(errand, delivery):
        if errand == "who":
            return [delivery]
        version = next(iter(delivery.parcels.values())).values["version"]
        rounds["now"] = version
        if delivery.node == BAD and version in (3, 4):
            held_back.append(delivery)
            return []
        if delivery.node == BAD and held_back:
            return [held_back.pop(), delivery]
        return [delivery]

    def lose(errand, node):
        return errand != "who" and node == BAD and rounds["round"] == 1

    late = deployment(method, courier(HELD, forge=forge), per_round=6)
    last, _ = finished(late, 3)

    rounds["round"] = 0
    absent = deployment(method, courier(HELD, lose=lose), per_round=6)
    for reference, row in absent.run(absent.begin(3), Store(), 3):
        rounds["round"] = row.round
        x = reference.x
    assert torch.equal(last.x, x)


def test_a_client_that_raises_is_missing_and_the_round_goes_on(caplog):
    carrier = courier(HELD)
    carrier.members[BAD].node._task_for = None  # calling it raises
    broken = deployment("fedexpsls", carrier, per_round=6)
    done = list(broken.run(broken.begin(2), Store(), 2))
    reference, _ = without_client_3("fedexpsls", 2)
    assert torch.equal(done[-1][0].x, reference.x)
    assert [(row.clients, row.missing) for _, row in done] == [(5, 1)] * 2
    assert "client 3: it failed: TypeError" in caplog.text


def test_a_whole_node_that_fails_is_missing(caplog):
    def forge(errand, delivery):
        if errand != "who" and delivery.node == BAD:
            return [Delivery(BAD, error="error 2: out of memory")]
        return [delivery]

    server, _ = run("fedexpsls", courier(HELD, forge=forge))
    reference, _ = without_client_3("fedexpsls")
    assert torch.equal(server.x, reference.x)
    assert "node 103 is refused: error 2: out of memory" in caplog.text


def a_million_times(parcel):
    wire = parcel.tensors["delta.delta"]
    values = torch.frombuffer(bytearray(wire.data), dtype=torch.float32) * 1e6
    return replace(
        parcel,
        tensors={**parcel.tensors, "delta.delta": replace(wire, data=values.numpy().tobytes())},
    )


def test_a_finite_but_huge_update_is_shortened_by_the_guard_and_taken_without_one():
    def forge(errand, delivery):
        if errand == "who" or delivery.node != BAD:
            return [delivery]
        return [changed(delivery, a_million_times)]

    def distance(method, **changes):
        server, _ = run(method, courier(HELD, **changes), rounds=3)
        return float((server.x - model().init()).norm())

    guarded = "fedavg(step=0.1, guard=NormLimit())"
    honest = distance("fedavg(step=0.1)")
    assert distance("fedavg(step=0.1)", forge=forge) > 1e4 * honest
    assert distance(guarded, forge=forge) < 10 * honest


def test_a_node_with_another_method_says_so_and_is_missing(caplog):
    carrier = courier(HELD)
    carrier.members[BAD].node.algorithm = build("fedavg(step=0.5)")
    other = deployment("fedexpsls", carrier, per_round=6)
    ((server, row),) = other.run(other.begin(1), Store(), 1)
    reference, _ = without_client_3("fedexpsls", 1)
    assert torch.equal(server.x, reference.x)
    assert (row.clients, row.missing) == (5, 1)
    assert "client 3: it failed: RefusedReply: the server runs another method" in caplog.text


def test_a_missed_quorum_is_asked_for_again_and_then_ends_the_run(caplog):
    carrier = courier(HELD, lose=lambda errand, node: errand != "who" and node > 101)
    with caplog.at_level(logging.WARNING), pytest.raises(InputError, match="2 usable replies of 6"):
        run("fedexpsls", carrier, patience=Patience(quorum=0.5))
    assert [errand for errand, _ in carrier.exchanges] == ["who", "work", "work", "work"]
    # only those that owe an answer are asked again
    assert [count for _, count in carrier.exchanges] == [6, 6, 4, 4]


def test_who_answers_at_the_second_attempt_counts_as_ever():
    asked = []

    def lose(errand, node):
        asked.append(node)
        return errand != "who" and node > 101 and asked.count(node) == 2

    server, rows = simulated("scaffold", per_round=6)
    other, other_rows = run("scaffold", courier(HELD, lose=lose), patience=Patience(quorum=1.0))
    assert same(other, server)
    assert other_rows == rows


@pytest.mark.parametrize("method", METHODS)
def test_a_server_that_repeats_a_round_after_a_crash_comes_to_the_same_bits(method):
    server, _ = simulated(method, rounds=4, per_round=6)
    carrier = courier(HELD)
    first = deployment(method, carrier, per_round=6)
    store = Store()
    series = first.run(first.begin(4), store, 4)
    next(series)
    state, _ = next(series)
    kept = Store({client: dict(memory) for client, memory in store.items()})
    next(series)  # the third round is done by everybody, and the server forgets it
    again = deployment(method, carrier, per_round=6)
    *_, (last, _) = again.run(state, kept, 4)
    assert same(last, server)


def test_a_node_that_comes_back_under_another_number_goes_on(tmp_path):
    server, _ = simulated("scaffold", per_round=6)
    carrier = courier(HELD)
    carrier.members[BAD].memories = MemoryFiles(tmp_path)
    other = deployment("scaffold", carrier, per_round=6)
    series = other.run(other.begin(3), Store(), 3)
    next(series)
    del carrier.members[BAD]
    carrier.members[999] = FakeNode((3,), MemoryFiles(tmp_path))
    *_, (last, _) = series
    assert same(last, server)


def test_a_lost_memory_is_said_and_never_replaced_by_zeros(caplog):
    carrier = courier(HELD)
    other = deployment("scaffold", carrier, per_round=6)
    series = other.run(other.begin(3), Store(), 3)
    next(series)
    carrier.members[BAD] = FakeNode((3,))
    _, row = next(series)
    assert (row.clients, row.missing) == (5, 1)
    assert "the memory of client 3 of version 2 is lost" in caplog.text


def test_a_client_that_lost_its_memory_may_begin_afresh():
    carrier = courier(HELD)
    other = deployment("scaffold", carrier, per_round=6, forget=True)
    series = other.run(other.begin(3), Store(), 3)
    next(series)
    carrier.members[BAD] = FakeNode((3,))
    assert next(series)[1].clients == 5
    assert next(series)[1].clients == 6


@pytest.mark.parametrize("kept", [1, 2])
def test_nodes_keep_no_more_memories_than_can_be_asked_for(kept):
    carrier = courier(HELD)
    run({1: "scaffold", 2: "fedlin"}[kept], carrier, rounds=5)
    for member in carrier.members.values():
        assert 1 <= len(member.memories.kept) <= 1 + kept


def registry(carrier, **changes):
    settings = {"clients": None, "timeout": 1.0, "patience": 0.0, **changes}
    return Registry(carrier, model_digest(model()), **settings)


def test_two_nodes_that_claim_a_client_are_both_named():
    with pytest.raises(InputError, match="client 1 is held by node 100 and claimed by node 101"):
        registry(courier(((0, 1), (1, 2)))).gather()


def test_a_number_that_nobody_holds_is_named():
    with pytest.raises(InputError, match="nobody holds client 1; start the nodes"):
        registry(courier(((0,), (2,)))).gather()
    with pytest.raises(InputError, match=r"nobody holds client 2, 3"):
        registry(courier(((0, 1),)), clients=4).gather()


def test_a_node_with_another_model_is_refused_and_said():
    carrier = courier(((0,), (1,)))
    carrier.members[101].node.model = model(torch.float64)
    with pytest.raises(InputError, match="node 101 was refused: its model is another one"):
        registry(carrier, clients=2).gather()


def test_nobody_there_is_one_line_after_patience():
    carrier = courier(())
    with pytest.raises(InputError, match="no node has answered; start the nodes"):
        registry(carrier).gather()


def test_a_claim_on_somebody_elses_client_during_the_run_is_refused(caplog):
    server, _ = simulated("scaffold", per_round=6)
    carrier = courier(HELD)
    other = deployment("scaffold", carrier, per_round=6)
    series = other.run(other.begin(3), Store(), 3)
    next(series)
    carrier.members[666] = FakeNode((3,))
    *_, (last, _) = series
    assert same(last, server)
    assert "client 3 is held by node 103 and claimed by node 666" in caplog.text
