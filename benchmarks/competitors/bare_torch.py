"""The loop that anybody would write: nn.Module, torch.optim.SGD, one thread. p2: half of the clients in a second process."""

from __future__ import annotations

import multiprocessing

import torch
from torch.nn import functional

from with_torch import batches, clients_of, module_of

ENVIRONMENT = "torch"
PACKAGES = ("torch",)
VARIANTS = {"bare torch t1": {}, "bare torch p2": {"processes": 2}}
WORKLOADS = ("w1", "w2", "w3", "empty")


def compete(work, rounds, processes=1):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module, clients = module_of(work), clients_of(work)
    share = -(-len(clients) // processes)
    helpers = [Helper(work, clients[k * share : (k + 1) * share]) for k in range(1, processes)]
    state = {name: value.clone() for name, value in module.state_dict().items()}
    for done in rounds:
        for helper in helpers:
            helper.send(state)
        parts = [
            train(work, module, state, clients[:share]),
            *(helper.receive() for helper in helpers),
        ]
        total = {name: sum(part[0][name] for part in parts) for name in state}
        state = {name: value / len(clients) for name, value in total.items()}
        count = sum(part[2] for part in parts)
        done(batches=count, loss=sum(part[1] for part in parts) / count)


def train(work, module, state, clients):
    """Sum of the clients' models, sum of the batches' losses, number of batches."""
    total, losses, count = {name: torch.zeros_like(value) for name, value in state.items()}, 0.0, 0
    for x, y in clients:
        module.load_state_dict(state)
        optimizer = torch.optim.SGD(module.parameters(), lr=work.step)
        for inputs, targets in batches(work, x, y):
            optimizer.zero_grad()
            loss = functional.cross_entropy(module(inputs), targets)
            loss.backward()
            optimizer.step()
            losses, count = losses + loss.detach(), count + 1
        for name, value in module.state_dict().items():
            total[name] += value
    return total, float(losses), count


class Helper:
    """A process that trains some of the clients."""

    def __init__(self, work, clients):
        self.pipe, other = multiprocessing.Pipe()
        fork = multiprocessing.get_context("fork")
        fork.Process(target=self._serve, args=(other, work, clients), daemon=True).start()

    @staticmethod
    def _serve(pipe, work, clients):
        module = module_of(work)
        while True:
            state = {name: torch.from_numpy(value) for name, value in pipe.recv().items()}
            total, losses, count = train(work, module, state, clients)
            pipe.send(({name: value.numpy() for name, value in total.items()}, losses, count))

    def send(self, state):
        self.pipe.send({name: value.numpy() for name, value in state.items()})

    def receive(self):
        total, losses, count = self.pipe.recv()
        return {name: torch.from_numpy(value) for name, value in total.items()}, losses, count
