"""Clients' memories on disk: the same bits as in memory, through crashes and resumes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from fedstep import zoo
from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.core.types import Context
from fedstep.core.vec import Vec
from fedstep.corrections import Correction, Finished
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, DiskStore, Processes, Sequential, Store, Task
from fedstep.execute import store as module
from fedstep.execute.store import store_for
from fedstep.local.terms import Linear, Term
from fedstep.local.trace import Trace
from fedstep.models.module import ModuleModel
from fedstep.run import checkpoint
from fedstep.run.simulate import Simulation


@dataclass(frozen=True)
class Tilted(Correction):
    """A correction with a vector a client: each is tilted by a tenth of its last delta."""

    def terms(self) -> tuple[Term, ...]:
        return (Linear(minus="tilt"),)

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        return {"tilt": torch.zeros_like(x)}

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        return Finished(x - ctx.anchor, memory={"tilt": 0.1 * (x - ctx.anchor)})


ALGORITHM: Algorithm = replace(zoo.fedsls(carry=True), correction=Tilted())


def simulation(executor=None) -> Simulation:
    g = torch.Generator().manual_seed(7)
    clients = [
        (torch.randn(n, 5, generator=g), torch.randint(3, (n,), generator=g))
        for n in (7, 12, 3, 20, 9, 15)
    ]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        net = torch.nn.Linear(5, 3)
    task = Task(ALGORITHM, ModuleModel(net), Federation.of(clients), Plan(4, 3), 5)
    return Simulation(task, 3, executor=executor or Sequential())


def end(store, executor=None, rounds=6) -> Tensor:
    sim = simulation(executor)
    *_, (server, _) = sim.run(sim.begin(rounds), store, rounds)
    return server.x


@pytest.mark.parametrize("executor", [Sequential(), Cohort(2)], ids=["sequential", "cohort"])
def test_disk_and_memory_give_the_same_bits(executor, tmp_path):
    memory, disk = Store(), DiskStore(folder=tmp_path)
    assert torch.equal(end(memory, executor), end(disk, executor))
    assert dict(disk.items()).keys() == memory.memories.keys()
    for client, kept in disk.items():
        assert all(torch.equal(kept[name], memory.memories[client][name]) for name in kept)
    assert not disk.memories


def test_workers_and_disk_go_together(tmp_path):
    with Processes(Sequential(), 2) as many:
        assert torch.equal(end(DiskStore(folder=tmp_path), many), end(Store()))


def test_memory_matters():
    plain = simulation()
    plain = replace(
        plain, task=replace(plain.task, algorithm=replace(ALGORITHM, correction=Correction()))
    )
    *_, (server, _) = plain.run(plain.begin(6), Store(), 6)
    assert not torch.equal(server.x, end(Store()))


def test_a_checkpoint_names_versions_and_old_ones_are_deleted(tmp_path):
    sim, store = simulation(), DiskStore(folder=tmp_path / checkpoint.MEMORIES)
    for server, _ in sim.run(sim.begin(6), store, 6):
        checkpoint.save(tmp_path, server, store)
    meant = {
        (c, v.number)
        for path in checkpoint.descriptions(tmp_path)
        for c, v in checkpoint._index(path).items()
    }
    files = {tuple(map(int, p.name.split(".")[:2])) for p in store.folder.rglob("*.safetensors")}
    assert files == meant
    assert len(checkpoint.descriptions(tmp_path)) == 2


def test_resume_from_any_checkpoint_ends_in_the_same_bits(tmp_path):
    whole = end(Store(), rounds=7)
    sim, store = simulation(), DiskStore(folder=tmp_path / checkpoint.MEMORIES)
    for server, _ in sim.run(sim.begin(7), store, 7):
        if server.round in (2, 4):
            checkpoint.save(tmp_path, server, store)
        if server.round == 6:
            break  # versions newer than the checkpoint are lying about
    for damaged in (False, True):
        if damaged:
            newest = checkpoint.descriptions(tmp_path)[0].with_suffix(".safetensors")
            newest.write_bytes(newest.read_bytes()[:-1])
        restored = checkpoint.restore(tmp_path)
        assert restored is not None
        assert restored.server.round == (2 if damaged else 4)
        assert len(restored.complaints) == int(damaged)
        *_, (server, _) = simulation().run(restored.server, restored.store, 7)
        assert torch.equal(server.x, whole)


def test_a_lost_file_is_named(tmp_path):
    store = DiskStore(folder=tmp_path)
    store.put(3, {"a": torch.ones(2)})
    next(tmp_path.rglob("3.1.safetensors")).unlink()
    with pytest.raises(
        InputError, match=r"3\.1\.safetensors: the memory of client 3 cannot be read"
    ):
        store.get(3)


def test_many_large_memories_go_to_disk_and_small_ones_do_not(tmp_path, monkeypatch):
    task = simulation().task
    assert type(store_for(task, tmp_path)) is Store
    monkeypatch.setattr(
        module, "LARGE", 6 * 18 * 4
    )  # six clients with a vector of 18; the carried step comes on top
    assert isinstance(store_for(task, tmp_path), DiskStore)
    assert type(store_for(replace(task, algorithm=zoo.fedsls()), tmp_path)) is Store


def test_finished_runs_keep_no_memories(tmp_path):
    store = DiskStore(folder=tmp_path / checkpoint.MEMORIES)
    store.put(0, {"a": torch.ones(1)})
    checkpoint.remove(tmp_path)
    assert not list(tmp_path.rglob("*.safetensors"))
