"""The clients: the three lines of fedstep, and the app's own evaluation."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from flwr.app import Array, Context, Message, MetricRecord, RecordDict
from torch.nn.functional import cross_entropy

from fedstep.flower import client_app
from flower_app.task import net, samples


def make(context: Context):
    """The model, and the data of this node's client under its number."""
    number = int(context.node_config["partition-id"])
    return net(), {number: samples(number, int(context.node_config["num-partitions"]))}


def garbled(message: Message, context: Context, call_next) -> Message:
    """What a broken node sends (node-config `garbage=1`): every array filled with other bytes."""
    reply = call_next(message, context)
    if not context.node_config.get("garbage") or message.metadata.message_type != "train":
        return reply
    for record in reply.content.array_records.values():
        for name, array in list(record.items()):
            noise = bytes([255]) * len(array.data)
            record[name] = Array(array.dtype, array.shape, array.stype, noise)
    return reply


# memories outlive the node's process: a node that is started again goes on
MEMORY = Path(os.environ.get("NODE_MEMORY", "node-memory"))
app = client_app(make, memory=MEMORY, mods=[garbled])


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """As in any Flower app."""
    model = net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    inputs, targets = make(context)[1].popitem()[1]
    with torch.no_grad():
        outputs = model(inputs)
    metrics = {
        "loss": float(cross_entropy(outputs, targets)),
        "accuracy": float((outputs.argmax(1) == targets).float().mean()),
        "num-examples": len(targets),
    }
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)
