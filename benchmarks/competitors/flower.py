"""Flower's simulation engine: Ray backend, two actors of one thread, strategy FedAvg through the message API."""

from __future__ import annotations

import os
import tempfile
import time

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch.nn import functional

from with_torch import batches, clients_of, module_of
from work import load

ENVIRONMENT = "flower"
PACKAGES = ("flwr", "ray", "torch")
VARIANTS = {"Flower, 2 actors": {"scale": "full"}}
WORKLOADS = ("w1", "w2", "w3", "empty")

ACTORS = 2
held = {}  # what an actor keeps from message to message


def compete(work, rounds, scale="full"):
    os.environ |= {
        "FLWR_HOME": tempfile.mkdtemp(),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        os.environ.pop(name, None)  # messages on the loopback interface would go to the proxy
    torch.set_num_threads(1)
    server = ServerApp()

    @server.main()
    def main(grid, context):
        everyone = {"min_train_nodes": work.clients, "min_available_nodes": work.clients}
        strategy = FedAvg(
            fraction_train=1.0, fraction_evaluate=0.0, train_metrics_aggr_fn=summed, **everyone
        )
        arrays = ArrayRecord(module_of(work).state_dict())
        while len(list(grid.get_node_ids())) < work.clients:
            time.sleep(0.1)  # a first round with nodes missing would do less work
        for done in rounds:
            result = strategy.start(grid, arrays, num_rounds=1)
            if 1 not in result.train_metrics_clientapp:
                raise RuntimeError(
                    "RuntimeError: a round of Flower gave no results; its log says why"
                )
            arrays, metrics = result.arrays, result.train_metrics_clientapp[1]
            done(batches=int(metrics["batches"]), loss=metrics["losses"] / metrics["batches"])

    run_simulation(
        server_app=server,
        client_app=client_app(work.name, scale),
        num_supernodes=work.clients,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": ACTORS, "include_dashboard": False, "log_to_driver": False},
        },
    )


def summed(contents, weighted_by):
    metrics = [content["metrics"] for content in contents]
    return MetricRecord({name: sum(m[name] for m in metrics) for name in ("batches", "losses")})


def client_app(name, scale):
    app = ClientApp()

    @app.train()
    def train(message, context):
        if not held:  # once an actor
            torch.set_num_threads(1)
            work = load(name, scale)
            held.update(work=work, clients=clients_of(work), module=module_of(work))
        work, module = held["work"], held["module"]
        x, y = held["clients"][context.node_config["partition-id"]]
        module.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(module.parameters(), lr=work.step)
        losses, count = 0.0, 0
        for inputs, targets in batches(work, x, y):
            optimizer.zero_grad()
            loss = functional.cross_entropy(module(inputs), targets)
            loss.backward()
            optimizer.step()
            losses, count = losses + loss.detach(), count + 1
        metrics = MetricRecord({"num-examples": len(y), "batches": count, "losses": float(losses)})
        content = RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": metrics})
        return Message(content, reply_to=message)

    return app
