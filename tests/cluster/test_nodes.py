"""Two nodes of a cluster on this machine, one of them killed in the middle of a round."""

from __future__ import annotations

import os
import threading
import time
from uuid import uuid4

import pytest
import ray
import torch
from fakes import clients, model
from ray.cluster_utils import Cluster

from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Sequential, Store, Task
from fedstep.execute.ray import Ray
from fedstep.execute.ray_session import read_token_settings_again
from fedstep.run.simulate import Simulation
from fedstep.spec import build


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A head and a second node, one CPU each, with a token of their own."""
    token = tmp_path / "token"
    token.write_text(uuid4().hex * 2)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    read_token_settings_again()
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=1)
    yield made
    if ray.is_initialized():
        ray.shutdown()
    made.shutdown()
    monkeypatch.undo()
    read_token_settings_again()


def run(executor, rounds, on_round=lambda row: None):
    plan = Plan(batch=2, steps=60)  # long enough to be in the middle of something
    task = Task(build("scaffold"), model(), Federation.of(clients()), plan, 5)
    simulation = Simulation(task, 6, executor=executor)
    with executor:
        for server, row in simulation.run(simulation.begin(rounds), Store(), rounds):
            on_round(row)
            x = server.x
    return x


def test_a_node_killed_in_the_middle_of_a_round_changes_no_bit(cluster):
    x = run(Sequential(), 3)
    second = next(iter(cluster.worker_nodes))
    killers = []

    def kill_soon(row):
        if row.round == 1:
            killer = threading.Timer(0.3, cluster.remove_node, (second,), {"allow_graceful": False})
            killer.start()
            killers.append(killer)

    other = run(Ray(Sequential(), workers=2, address=cluster.address), 3, kill_soon)
    killers[0].join(60)
    assert torch.equal(other, x)


def test_nothing_is_left_of_a_cluster_that_was_started_here():
    before = _children()
    x = run(Ray(Sequential(), workers=1), 1)
    assert torch.equal(x, run(Sequential(), 1))
    end = time.monotonic() + 30
    while _children() - before and time.monotonic() < end:
        time.sleep(0.2)
    assert not _children() - before


def _children():
    found = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.add(int(name))
    return found
