"""BlazeFL: clients in the threads of one process, its FedAvg on the server.

Threads share the interpreter's lock here: BlazeFL is made for a build of Python without it (3.14t).
"""

from __future__ import annotations

import threading

import torch
from blazefl.contrib.fedavg import (
    FedAvgBaseServerHandler,
    FedAvgDownlinkPackage,
    FedAvgUplinkPackage,
)
from blazefl.core import ThreadPoolClientTrainer, deserialize_model, serialize_model
from torch.nn import functional

from with_torch import batches, clients_of, module_of

ENVIRONMENT = "blazefl"
PACKAGES = ("blazefl", "torch")
VARIANTS = {"BlazeFL, 1 thread": {}, "BlazeFL, 2 threads": {"threads": 2}}
WORKLOADS = ("w1", "w2", "w3", "empty")

ENDLESS = 10**9


class Selector:
    """How BlazeFL asks for a model."""

    def __init__(self, work):
        self.work = work

    def select_model(self, name):
        return module_of(self.work)


class Trainer(ThreadPoolClientTrainer[FedAvgUplinkPackage, FedAvgDownlinkPackage]):
    def __init__(self, work, threads):
        self.work, self.clients = work, clients_of(work)
        self.num_parallels, self.device, self.device_count = threads, "cpu", 0
        self.cache, self.stop_event = [], threading.Event()

    def worker(self, cid, device, payload, stop_event):
        module = module_of(self.work)
        deserialize_model(module, payload.model_parameters)
        optimizer = torch.optim.SGD(module.parameters(), lr=self.work.step)
        losses, count = 0.0, 0
        for x, y in batches(self.work, *self.clients[cid]):
            loss = functional.cross_entropy(module(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses, count = losses + loss.detach(), count + 1
        facts = {"losses": float(losses), "batches": count}
        # everybody counts the same: the server's mean is plain
        return FedAvgUplinkPackage(cid, serialize_model(module), 1, facts)

    def uplink_package(self):
        packages, self.cache = self.cache, []
        return packages


def compete(work, rounds, threads=1):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    server = FedAvgBaseServerHandler(
        model_selector=Selector(work),
        model_name=work.name,
        dataset=None,
        global_round=ENDLESS,
        num_clients=work.clients,
        sample_ratio=1.0,
        device="cpu",
        batch_size=work.batch,
        seed=0,
    )
    trainer = Trainer(work, threads)
    for done in rounds:
        trainer.local_process(server.downlink_package(), server.sample_clients())
        packages = trainer.uplink_package()
        for package in packages:
            server.load(package)
        batches_done = sum(package.metadata["batches"] for package in packages)
        losses = sum(package.metadata["losses"] for package in packages)
        done(batches=batches_done, loss=losses / batches_done)
