"""Clients of the example app with random images: without scikit-learn their processes start sooner."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from flower_app.task import net
from flwr.app import Context

from fedstep.flower import client_app


def make(context: Context):
    """The model, and the data of this node's client under its number."""
    number = int(context.node_config["partition-id"])
    generator = torch.Generator().manual_seed(number)
    inputs = torch.randn(60, 64, generator=generator)
    targets = torch.randint(10, (60,), generator=generator)
    return net(), {number: (inputs, targets)}


# memories outlive the node's process: a node that is started again goes on
app = client_app(make, memory=Path(os.environ.get("NODE_MEMORY", "node-memory")))
