"""The server's half alone, for those who keep their own client code."""

from __future__ import annotations

from collections.abc import Iterable
from logging import WARNING
from time import monotonic
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from torch import Tensor, nn
from torch.nn import functional

from fedstep.algorithm import Algorithm, Reply, Server
from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import TargetKind
from fedstep.models.module import ModuleModel
from fedstep.remote.answer import ReplyForm
from fedstep.remote.parcel import RefusedReply, TensorForm
from fedstep.server.codecs import Plain
from fedstep.training.arguments import algorithm_of

MOST_SAMPLES = 2**40


class PatientGrid:
    """What FedAvg asks a grid for when it draws nodes: it would look for them without end."""

    def __init__(self, grid: Grid, patience: float) -> None:
        self.grid = grid
        self.patience = patience
        self.end = monotonic() + patience
        self.looks = 0

    def get_node_ids(self) -> Iterable[int]:
        nodes = list(self.grid.get_node_ids())
        self.looks += 1
        # once to draw from and once to count; a third look says that there were too few
        if self.looks > 2 and monotonic() > self.end:
            raise InputError(
                f"{len(nodes)} nodes after {self.patience:g} s, more are needed "
                "(min_available_nodes, min_train_nodes): start nodes, or give a longer patience"
            )
        return nodes


class ServerOnly(FedAvg):
    """The server's step of a method over your own `@app.train()`, with Flower's own loop.

    `ServerOnly("fedexp", Net())` in the place of `FedAvg()`: clients reply with their arrays and
    `num-examples` as ever. Only for methods whose clients send nothing but a model: no memory, no
    message, no codec, no probe. clients: how many there are, for weights over all of them; without
    it those that answer stand for all. max_samples: what a client may count for at most, since its
    own word is all there is here. patience: seconds that `min_available_nodes` have to appear.
    """

    def __init__(
        self,
        algorithm: str | Algorithm,
        model: nn.Module,
        *,
        clients: int | None = None,
        max_samples: int = MOST_SAMPLES,
        patience: float = 300.0,
        **fedavg: Any,
    ) -> None:
        super().__init__(**fedavg)
        self.fedstep_model = ModuleModel(model, functional.cross_entropy)
        self.algorithm = algorithm_of(algorithm)
        self.clients = clients
        self.max_samples = max_samples
        self.patience = patience
        self.server: Server | None = None
        self.rejected: dict[int, int] = {}  # replies that were not used, by round
        _check_plain(self.algorithm, self.fedstep_model)

    def configure_train(
        self,
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Grid,
    ) -> Iterable[Message]:
        if self.server is None:
            x = _flat(self.fedstep_model, arrays)
            # from the arrays of the first round: Flower, not we, knows where training begins
            self.server = self.algorithm.init(x, server_round)
        patient: Any = PatientGrid(grid, self.patience)
        return list(super().configure_train(server_round, arrays, config, patient))

    def configure_evaluate(
        self,
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Grid,
    ) -> Iterable[Message]:
        patient: Any = PatientGrid(grid, self.patience)
        return list(super().configure_evaluate(server_round, arrays, config, patient))

    def aggregate_train(
        self,
        server_round: int,
        replies: Iterable[Message],
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        assert self.server is not None  # Flower calls configure_train first
        sent = self.algorithm.broadcast(self.server)
        total: Aggregate | None = None
        rejected = 0
        # by node: a sum depends on its order, and nobody promises one
        for message in sorted(replies, key=lambda each: each.metadata.src_node_id):
            try:
                reply = self._checked(message, sent.x)
            except RefusedReply as refusal:
                rejected += 1
                node = message.metadata.src_node_id
                log(WARNING, "round %d: node %d is refused: %s", server_round, node, refusal)
                continue
            counted = self.algorithm.count(reply, sent)
            total = counted if total is None else total + counted
        # no reply that counts: Flower keeps the model, and the next round is another try
        if total is None:
            self.rejected[server_round] = rejected
            return None, None
        self.rejected[server_round] = rejected + total.rejected
        population = float(total.weight)
        if self.clients is not None:
            # all clients weigh as much on average as those that answered
            population *= self.clients / max(1, total.clients)
        self.server = self.algorithm.absorb(self.server, total, population)
        module = self.fedstep_model.load(self.server.readout)
        metrics = MetricRecord(
            {
                "eta_g": float(self.server.eta_g),
                "clients": total.clients,
                "rejected": self.rejected[server_round],
            }
        )
        return ArrayRecord(module.state_dict()), metrics

    def _checked(self, message: Message, x: Tensor) -> Reply:
        if message.has_error():
            raise RefusedReply(str(message.error.reason)[-300:])
        metrics = _only(message.content.metric_records, "MetricRecord")
        # the name that the user has told FedAvg, if it is another
        samples = metrics.get(self.weighted_by_key)
        if not isinstance(samples, int | float) or not 0 < samples <= self.max_samples:
            raise RefusedReply(f"{self.weighted_by_key} is {str(samples)[:80]}")
        arrays = _only(message.content.array_records, "ArrayRecord")
        delta = _flat(self.fedstep_model, arrays) - x
        return Reply(delta, {}, torch.tensor(samples), torch.tensor(True))


def _only(records: Any, kind: str) -> Any:
    values = list(records.values())
    if len(values) != 1:
        raise RefusedReply(f"{len(values)} of {kind}, expected one")
    return values[0]


def _flat(model: ModuleModel, arrays: ArrayRecord) -> Tensor:
    """The trained parameters of a state_dict as one vector; whatever is wrong is refused."""
    start = model.init()
    pieces = []
    for name, like in model.parameters(start).items():
        if name not in arrays:
            raise RefusedReply(f"{name} is missing")
        array = arrays[name]
        # before the data are read: a claimed shape must not decide how much memory is taken
        if tuple(array.shape) != tuple(like.shape):
            raise RefusedReply(f"{name} has shape {tuple(array.shape)}, not {tuple(like.shape)}")
        # Flower puts a header of some bytes in front
        if len(array.data) > like.numel() * like.element_size() + 1024:
            raise RefusedReply(f"{name} has {len(array.data)} bytes")
        try:
            value = torch.from_numpy(array.numpy())
        # bytes of strangers: numpy raises whatever it likes
        except Exception as error:
            raise RefusedReply(f"{name} cannot be read: {type(error).__name__}") from None
        if TensorForm.of(value) != TensorForm.of(like):
            raise RefusedReply(f"{name} is {TensorForm.of(value)}, expected {TensorForm.of(like)}")
        pieces.append(value.reshape(-1))
    return torch.cat(pieces)


def _check_plain(algorithm: Algorithm, model: ModuleModel) -> None:
    """Refuse a method whose clients do more than send their model."""
    # what the clients have is unknown here: classes, as cross-entropy takes them
    targets = TargetKind(torch.int64, 1)
    suited = algorithm.suited(model, targets)
    # tried, not looked up in a list of names: a new method is judged by what it does
    sent = suited.broadcast(suited.init(model.init(), 1))
    memory = suited.memory_init(model.init())
    reasons = []
    if suited.correction.probes:
        reasons.append("a probe")
    elif any(name.startswith("message.") for name in _names(suited, model, sent)):
        reasons.append("a message")
    if memory:
        reasons.append("a memory")
    if not isinstance(suited.codec, Plain):
        reasons.append("a codec")
    if reasons:
        needs = ", ".join(reasons)
        raise InputError(
            f"ServerOnly: clients of this method have {needs}; use FedStep and client_app"
        )


def _names(algorithm: Algorithm, model: ModuleModel, sent: Any) -> list[str]:
    form = ReplyForm.of(algorithm, model, sent, probe=False)
    return list(form.tensors)
