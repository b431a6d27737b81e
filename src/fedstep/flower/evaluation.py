"""Evaluation on the clients, with the functions of the user's own app."""

from __future__ import annotations

from collections.abc import Iterable
from logging import INFO, WARNING
from math import ceil, isfinite

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid

from fedstep.core.errors import InputError
from fedstep.core.seeds import generator

EXAMPLES = "num-examples"  # Flower's name of what metrics are weighted by
MOST_EXAMPLES = 2**40


class ClientEvaluation:
    """Sends the model to some nodes' `@app.evaluate()` and takes the mean of what they say.

    A value that is not finite and a weight out of all proportion are left out, so that one node
    cannot spoil the mean. Where no node has such a function, nobody is asked again.
    """

    def __init__(self, fraction: float, seed: int) -> None:
        if not 0 <= fraction <= 1:
            raise InputError(f"fraction_evaluate={fraction}: it must lie in [0, 1]")
        self.fraction = fraction
        self.seed = seed
        self.given_up = False

    def messages(
        self,
        round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Grid,
    ) -> list[Message]:
        # asking again every round would cost a timeout a round
        if self.fraction == 0 or self.given_up:
            return []
        # sorted: who is asked must not depend on the order in which nodes have joined
        nodes = sorted(grid.get_node_ids())
        count = ceil(self.fraction * len(nodes))
        # keyed by the round: which nodes evaluate does not touch any other random number
        order = torch.randperm(len(nodes), generator=generator(self.seed, round, "evaluate"))
        settings = ConfigRecord({**config, "server-round": round})
        content = RecordDict({"arrays": arrays, "config": settings})
        messages = []
        for place in sorted(order[:count].tolist()):
            messages.append(Message(content, dst_node_id=nodes[place], message_type="evaluate"))
        return messages

    def mean(self, round: int, replies: Iterable[Message]) -> MetricRecord | None:
        # an iterator, and needed twice
        answers = list(replies)
        usable = [reply for reply in answers if _usable(reply)]
        if not usable:
            if answers and not self.given_up:
                self.given_up = True
                log(INFO, "no node evaluates (%s): not asked again", _reason(answers[0]))
            return None
        totals: dict[str, float] = {}
        weights: dict[str, float] = {}
        for reply in usable:
            metrics = _metrics(reply)
            weight = float(metrics[EXAMPLES])
            for name, value in metrics.items():
                if name == EXAMPLES or not isinstance(value, int | float):
                    continue
                if not isfinite(value):
                    log(WARNING, "round %d: %s of a node is %s: left out", round, name, value)
                    continue
                totals[name] = totals.get(name, 0.0) + weight * value
                # by name: a node may lack a metric that the others have
                weights[name] = weights.get(name, 0.0) + weight
        return MetricRecord({name: total / weights[name] for name, total in totals.items()})


def _usable(reply: Message) -> bool:
    if reply.has_error():
        return False
    # a weight from outside: zero divides, and a huge one silences everybody else
    metrics = _metrics(reply)
    count = metrics.get(EXAMPLES)
    return isinstance(count, int | float) and 0 < count <= MOST_EXAMPLES


def _metrics(reply: Message) -> MetricRecord:
    records = list(reply.content.metric_records.values())
    if not records:
        return MetricRecord()
    return records[0]


def _reason(reply: Message) -> str:
    if reply.has_error():
        # the last line of a traceback is the one that says what happened
        text = str(reply.error.reason)
        return text.strip().splitlines()[-1][:200]
    return f"no {EXAMPLES}"
