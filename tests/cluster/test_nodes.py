"""Two nodes of a cluster on this machine, one of them killed in the middle of a round."""

from __future__ import annotations

import os
import threading
import time

import pytest
import torch
from clusters import two_nodes
from fakes import clients, model

from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Sequential, Store, Task
from fedstep.execute.ray import Ray
from fedstep.run.simulate import Simulation
from fedstep.spec import build


@pytest.fixture
def cluster(tmp_path):
    with two_nodes(tmp_path) as made:
        yield made


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


def test_a_node_that_joins_is_used_in_the_next_round(cluster):
    x = run(Sequential(), 3)
    executor = Ray(Sequential(), address=cluster.address)
    hired = []

    def join(row):
        hired.append(len(executor.crew.hired))
        if row.round == 1:
            cluster.add_node(num_cpus=1)

    assert torch.equal(run(executor, 3, join), x)
    assert hired[0] == 2
    assert hired[-1] == 3


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
