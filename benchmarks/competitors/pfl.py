"""Apple's pfl-research: FederatedAveraging on the simulated backend, in one process and in two (gloo).

Its own data set class cuts the batches once; the one here shuffles them anew in every pass, as everybody else does.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

ENVIRONMENT = "pfl"
PACKAGES = ("pfl", "torch")
VARIANTS = {"pfl t1": {}, "pfl p2": {"processes": 2, "scale": "full"}}
WORKLOADS = ("w1", "w2", "w3", "empty")

ENDLESS = 10**9


def compete(work, rounds, processes=1, scale="full", rank=0):
    helpers = []
    if processes > 1:
        os.environ.setdefault(
            "PFL_WORKER_ADDRESSES", ",".join(f"127.0.0.1:{port}" for port in free_ports(processes))
        )
        os.environ["PFL_WORKER_RANK"] = str(rank)
        if rank == 0:
            helpers = [helper(work, scale, k, processes) for k in range(1, processes)]
    simulate(work, announced(rounds, helpers))


def announced(rounds, helpers):
    """The driver's rounds, passed on to the other processes."""
    for done in rounds:
        for other in helpers:
            print(json.dumps({"rounds": 1}), file=other.stdin, flush=True)
        yield done
    for other in helpers:
        other.stdin.close()
        other.wait()


def helper(work, scale, rank, processes):
    """The same program again; it takes its requests from the first process."""
    options = json.dumps({"processes": processes, "scale": scale, "rank": rank})
    command = [sys.executable, sys.argv[0], "pfl", work.name, scale, options]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def simulate(work, rounds):
    # imported here because pfl joins the group of processes when it is imported
    import numpy as np
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import MinimizeReuseUserSampler
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.metrics import Metrics, Weighted
    from pfl.model.pytorch import PyTorchModel
    from torch.nn import functional

    from with_torch import clients_of, module_of

    class Shuffled(PyTorchTensorDataset):
        def iter(self, batch_size):
            x, y = self.raw_data
            for index in torch.randperm(len(y)).split(batch_size):
                yield x[index], y[index]

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module_of(work)
            self.losses, self.count = 0.0, 0

        def loss(self, inputs, targets):
            loss = functional.cross_entropy(self.module(inputs), targets)
            self.losses, self.count = self.losses + loss.detach(), self.count + 1
            return loss

        def metrics(self, inputs, targets):
            return {}

    class Averaging(FederatedAveraging):
        def train_one_user(self, *arguments):
            statistics, metrics = super().train_one_user(*arguments)
            metrics["batches"], metrics["losses"] = (
                Weighted(module.count, 1),
                Weighted(float(module.losses), 1),
            )
            module.losses, module.count = 0.0, 0
            return statistics, metrics

    class Turn(TrainingProcessCallback):
        """Between two rounds: say that one is done and wait for the next."""

        done = None

        def on_train_begin(self, *, model):
            self.done = next(rounds)
            return Metrics()

        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            batches, losses = (
                aggregate_metrics[name].weighted_value for name in ("batches", "losses")
            )
            self.done(batches=int(batches), loss=float(losses / batches))
            self.done = next(rounds, None)
            return self.done is None, Metrics()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)  # the processes must agree on who is sampled
    module = Model()
    server = torch.optim.SGD(module.parameters(), lr=1.0)
    model = PyTorchModel(module, torch.optim.SGD, server)
    users = {str(k): Shuffled(client, user_id=str(k)) for k, client in enumerate(clients_of(work))}
    data = FederatedDataset(users.__getitem__, MinimizeReuseUserSampler(list(users)))
    local = NNTrainHyperParams(
        local_num_epochs=work.epochs, local_learning_rate=work.step, local_batch_size=work.batch
    )
    Averaging().run(
        NNAlgorithmParams(
            ENDLESS,
            evaluation_frequency=ENDLESS,
            train_cohort_size=work.clients,
            val_cohort_size=None,
        ),
        SimulatedBackend(data, data),
        model,
        local,
        callbacks=[Turn()],
        send_metrics_to_platform=False,
    )
