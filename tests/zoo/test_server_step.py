"""A server rule returns its step; a reply is counted by whoever wants to check it first."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
import safetensors.torch
import torch
from problems import NAMES, federation, final, model, simulation

from fedstep import build, zoo
from fedstep.core.types import TargetKind
from fedstep.execute import Store
from fedstep.run import checkpoint
from fedstep.run.files import read_sealed, write_bytes, write_json


@pytest.mark.parametrize("name", NAMES)
def test_no_rule_keeps_the_step_in_its_state(name):
    sim = simulation(build(name))
    for server, row in sim.run(sim.begin(2), Store(), 2):
        assert "eta_g" not in server.rule
        assert row.eta_g == float(server.eta_g)


def test_before_the_first_round_the_step_is_that_of_the_rule():
    sim = simulation(zoo.fedavg(server_step=0.25))
    assert float(sim.begin(1).eta_g) == 0.25
    assert float(simulation(zoo.fedexp()).begin(1).eta_g) == 1.0


def written_before_steps_were_returned(folder):
    """The newest checkpoint as it was written when rules kept eta_g in their state."""
    path = checkpoint.descriptions(folder)[0]
    tensors = safetensors.torch.load(path.with_suffix(".safetensors").read_bytes())
    tensors["rule.eta_g"] = tensors.pop("eta_g")
    data = safetensors.torch.save(tensors)
    # those checkpoints had no seal either
    about = read_sealed(path) | {"sha256": hashlib.sha256(data).hexdigest()}
    write_bytes(path.with_suffix(".safetensors"), data)
    write_json(path, about)


@pytest.mark.parametrize("name", ["fedexpsls", "fedavgm", "fedadam", "fedhyper_g"])
@pytest.mark.parametrize("old", [False, True])
def test_a_checkpoint_of_either_kind_goes_on_to_the_same_bits(name, old, tmp_path):
    sim = simulation(build(name))
    store = Store()
    *_, (server, row) = sim.run(sim.begin(4), store, 2)
    checkpoint.save(tmp_path, server, store)
    if old:
        written_before_steps_were_returned(tmp_path)
    restored = checkpoint.restore(tmp_path)
    again = restored.server
    assert not restored.complaints
    assert "eta_g" not in again.rule
    assert float(again.eta_g) == row.eta_g
    *_, (server, _) = simulation(build(name)).run(again, restored.store, 4)
    assert torch.equal(server.x, final(simulation(build(name)), 4))


def work_of(name):
    """The arguments of `reply`, for three clients of unequal size one after another."""
    sim = simulation(build(name))
    alg = sim.task.algorithm
    sent = alg.broadcast(sim.begin(1))
    for client in range(3):
        memory = {k: v[0] for k, v in Store().load(sim.task, sent, [client]).items()}
        size = sim.task.federation.size(client)
        batches = []
        for step, index in enumerate(sim.task.batches(client, 0)):
            share = torch.tensor(len(index) / size, dtype=torch.float64)
            seed = torch.tensor(sim.task.step_seed(client, 0, step))
            count = torch.tensor(5)
            batches.append((sim.task.gather(index, share, seed, None, sent.x, count), None))
        yield alg, (sent, memory, sim.task.model, batches, torch.tensor(size))


@pytest.mark.parametrize("name", NAMES)
def test_client_is_count_of_reply(name):
    for alg, work in work_of(name):
        update = alg.client(*work)
        done = alg.reply(*work)
        counted = alg.count(done.reply, work[0])
        assert torch.equal(update.aggregate.delta, counted.delta)
        assert torch.equal(update.aggregate.weight, counted.weight)
        assert update.aggregate.message.keys() == counted.message.keys()
        for key, value in counted.message.items():
            assert torch.equal(update.aggregate.message[key], value)
        for key, value in done.memory.items():
            assert torch.equal(update.memory[key], value)


def test_a_server_can_cap_the_samples_that_a_reply_claims():
    alg, work = next(work_of("authors.fedavg"))
    reply = alg.reply(*work).reply
    boast = replace(reply, samples=torch.tensor(10**9))
    assert float(alg.count(boast, work[0]).weight) == 1e9
    capped = replace(boast, samples=boast.samples.clamp(max=7))
    assert torch.equal(alg.count(capped, work[0]).delta, alg.count(reply, work[0]).delta)


def test_a_server_without_data_knows_whether_a_method_suits_its_task():
    kind = TargetKind(torch.int64, 1)
    assert kind == TargetKind.of(federation().fields[-1])
    assert zoo.fedproto().suited(model(), kind).correction.head is not None
    for wrong in (TargetKind(torch.float32, 1), TargetKind(torch.int64, 2)):
        with pytest.raises(ValueError, match="one class a sample"):
            zoo.fedproto().suited(model(), wrong)
