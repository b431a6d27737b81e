"""A ClientApp that runs the client's half of any method."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from logging import INFO
from pathlib import Path
from typing import Any, TypeAlias

from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common.logger import log
from torch import nn
from torch.nn import functional

from fedstep.algorithm import Algorithm
from fedstep.core.vec import NewState, State
from fedstep.flower.records import array_record, parcels_of, records_of
from fedstep.flower.secure import sealed_reply
from fedstep.models.flat import FlatModel
from fedstep.remote.memories import Memories, MemoryFiles
from fedstep.remote.node import Node, refusal
from fedstep.remote.order import read_order
from fedstep.remote.parcel import DTYPES, TensorForm, WireTensor, from_wire, wire_state
from fedstep.training.arguments import flat_model_of

# the model (a module has the loss cross_entropy), and the data of every client of this node
Make: TypeAlias = Callable[[Context], tuple[nn.Module | FlatModel, Mapping[int, Any]]]

DEFAULT_ACTION = "default"  # Flower's name of `@app.train()` without one
KEPT_BYTES = 256_000_000  # of nodes whose data stay in this process between messages
NODE_BYTES = 100_000  # of a node itself: objects, not tensors
_NODES: OrderedDict[tuple[Any, ...], Node] = OrderedDict()


@dataclass(frozen=True)
class ClientSettings:
    """What a ClientApp was made with. Module-level functions only: simulation pickles it."""

    make: Make
    algorithm: Algorithm | None
    memory: Path | None
    secure: bool = False


def client_app(
    make: Make,
    algorithm: Algorithm | None = None,
    memory: str | Path | None = None,
    mods: Sequence[Any] = (),
    secure: bool = False,
) -> ClientApp:
    """A ClientApp for `FedStep`; your own `@app.evaluate()` goes on, `@app.train()` is not called.

    make: from the context of a node to the model and `{client number: (inputs, targets)}`; the
    usual number is `context.node_config["partition-id"]`. algorithm: only where the server has one
    that no text names. memory: a folder of this node for what clients remember between rounds
    (SCAFFOLD, codecs with feedback); without it Flower keeps it, and it ends with the node's
    process. mods: Flower's own, around all that the app does. secure: nothing but masked sums
    leaves this node (Flower's SecAgg+), for `FedStep(..., secure=True)`.
    """
    folder = None
    if memory is not None:
        folder = Path(memory)
    settings = ClientSettings(make, algorithm, folder, secure)
    if secure:
        mods = (secaggplus_mod, *mods)
    app = FedStepClientApp(mods=list(mods))
    # partials of functions of this module: under Ray the app is pickled with every message
    app.train()(partial(_work, settings=settings))
    # the mod masks no probes: an app that is to send sums alone has none
    if not secure:
        app.train("probe")(partial(_work, settings=settings))
    app.query("who")(partial(_who, settings=settings))
    app.complete = True
    return app


class FedStepClientApp(ClientApp):
    """A ClientApp whose training is the method's.

    A train function that the user's app has besides stays where it is and is not called: a method
    has the local steps. Flower itself would refuse a second one.
    """

    complete = False  # whether all that the method needs is registered

    def train(self, action: str = DEFAULT_ACTION, *, mods: list[Any] | None = None) -> Any:
        if self.complete and action == DEFAULT_ACTION:
            return _left_alone
        return super().train(action, mods=mods)


def _left_alone(function: Any) -> Any:
    log(INFO, "%s is not called: the method of the server has the local steps", function.__name__)
    return function


def _who(message: Message, context: Context, settings: ClientSettings) -> Message:
    node = _node(settings, context)
    return Message(records_of({"who": node.who()}), reply_to=message)


def _work(message: Message, context: Context, settings: ClientSettings) -> Message:
    node = _node(settings, context)
    # raised, not answered: Flower makes an error reply of it, which the server names
    parcel = parcels_of(message.content).get("order")
    if parcel is None:
        raise ValueError("the server does not run FedStep: its message holds no order")
    try:
        order = read_order(parcel)
    except (KeyError, TypeError) as error:
        raise ValueError(f"the server runs another version of fedstep: {refusal(error)}") from None
    if settings.secure:
        return sealed_reply(message, node.sealed(order))
    memories = _memories(settings, context)
    return Message(records_of(node.work(order, memories)), reply_to=message)


def _memories(settings: ClientSettings, context: Context) -> Memories:
    if settings.memory is None:
        return MemoriesInState(context.state)
    return MemoryFiles(settings.memory)


def _node(settings: ClientSettings, context: Context) -> Node:
    """The node with its data, kept between the messages that one process sees."""
    # the process too: what a fork inherits of its parent is left alone
    config = tuple(sorted(context.node_config.items()))
    key = (settings.make, config, context.run_id, os.getpid())
    node = _NODES.get(key)
    if node is None:
        model, clients = settings.make(context)
        flat = flat_model_of(model, functional.cross_entropy)
        node = Node(flat, clients, settings.algorithm)
        _NODES[key] = node
        _let_go()
    _NODES.move_to_end(key)
    return node


def _let_go() -> None:
    """Forget those that were used longest ago: a simulation of thousands would fill the memory."""
    held = sum(node.bytes + NODE_BYTES for node in _NODES.values())
    # the last one is about to work
    while held > KEPT_BYTES and len(_NODES) > 1:
        _, oldest = _NODES.popitem(last=False)
        held -= oldest.bytes + NODE_BYTES


@dataclass(frozen=True)
class MemoriesInState(Memories):
    """In the state that Flower keeps for a node: it belongs to one run of Flower."""

    state: RecordDict

    def get(self, run: str, client: int, version: int) -> NewState | None:
        # a node that was started anew has an empty state: lost, and the server is told so
        name = _name(run, client, version)
        if name not in self.state:
            return None
        memory = {}
        for key, array in self.state[name].items():
            # our own bytes, from this node: their word for the form is taken
            form = TensorForm(DTYPES[array.dtype], tuple(array.shape))
            wire = WireTensor(array.dtype, tuple(array.shape), array.data)
            memory[key] = from_wire(wire, form, key)
        return memory

    def put(self, run: str, client: int, version: int, memory: State) -> None:
        record: ArrayRecord = array_record(wire_state("", memory))
        self.state[_name(run, client, version)] = record

    def versions(self, run: str, client: int) -> list[int]:
        # Flower's state is one flat dictionary, which user code may write to as well
        prefix = _name(run, client, "")
        found = []
        for name in self.state:
            if name.startswith(prefix):
                found.append(int(name.removeprefix(prefix)))
        return found

    def drop(self, run: str, client: int, version: int) -> None:
        del self.state[_name(run, client, version)]


def _name(run: str, client: int, version: int | str) -> str:
    return f"fedstep.{run}.{client}.{version}"
