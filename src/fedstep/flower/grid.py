"""Any Flower app in this process: no Ray, no ports, milliseconds a message."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from fedstep.core.errors import InputError

RUN = 1
FIRST_NODE = 1000  # node ids are no client numbers, here as little as elsewhere
CLIENT_APP_RAISED = 2  # Flower's code of an app that raised


class LocalGrid(Grid):
    """`LocalGrid(app, 8)` runs a ClientApp as eight nodes; `nodes` may be their configurations.

    A number n stands for nodes with `partition-id` 0 to n - 1 and `num-partitions` n. The state of
    every node lives as long as the grid. What an app raises becomes an error reply, as elsewhere.
    """

    def __init__(
        self,
        app: ClientApp,
        nodes: int | Sequence[Mapping[str, Any]],
        run_config: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(nodes, int):
            nodes = [{"partition-id": k, "num-partitions": nodes} for k in range(nodes)]
        if not nodes:
            raise InputError("LocalGrid: give at least one node")
        self.app = app
        self.contexts: dict[int, Context] = {}
        for place, config in enumerate(nodes):
            node = FIRST_NODE + place
            self.contexts[node] = Context(
                run_id=RUN,
                node_id=node,
                node_config=dict(config),
                state=RecordDict(),
                run_config=dict(run_config or {}),
            )
        self._replies: dict[str, Message] = {}
        self._sent = 0
        _introduce()

    def set_run(self, run: Any) -> None:
        """Nothing to do: there is one run."""

    @property
    def run(self) -> Any:
        """No record of a run is kept here."""
        return None

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(
            content=content,
            message_type=message_type,
            dst_node_id=dst_node_id,
            group_id=group_id,
            ttl=ttl,
        )

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        numbers = []
        for message in messages:
            self._sent += 1
            number = str(self._sent)
            numbers.append(number)
            # a node that is not there answers nothing, as on a real grid
            if message.metadata.dst_node_id in self.contexts:
                self._replies[number] = self._reply(message)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        # taken out: replies hold models, and nobody asks for one twice
        return [self._replies.pop(number) for number in message_ids if number in self._replies]

    def send_and_receive(
        self,
        messages: Iterable[Message],
        *,
        timeout: float | None = None,
    ) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))

    def _reply(self, message: Message) -> Message:
        context = self.contexts[message.metadata.dst_node_id]
        try:
            return self.app(_arrived(message), context)
        except Exception as error:
            # an error reply, as a SuperNode would send it: a test here means something there
            reason = f"{type(error).__name__}: {error}"
            return Message(Error(code=CLIENT_APP_RAISED, reason=reason), reply_to=message)


def _introduce() -> None:
    """Messages are stamped with who sends them; outside a task of Flower's nobody has said so."""
    for name in ("run_id", "task_id", "node_id"):
        try:
            # within a task it is left alone: the app's own messages carry it
            getattr(TaskIdentity, name)
        except RuntimeError:
            setattr(TaskIdentity, name, RUN)


def _arrived(message: Message) -> Message:
    """The message as its receiver has it, who may take things out: others are sent the same."""
    twin = copy.copy(message)
    content = RecordDict()
    for name, record in message.content.items():
        # arrays stay where they are: nobody writes into their bytes
        content[name] = copy.copy(record)
        if isinstance(record, ConfigRecord):
            content[name] = ConfigRecord(dict(record))
    twin.content = content
    return twin
