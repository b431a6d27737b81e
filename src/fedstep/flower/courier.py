"""Flower's grid as a courier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import sleep

from flwr.app import Message
from flwr.serverapp import Grid

from fedstep.flower.records import parcels_of, records_of
from fedstep.remote.courier import Delivery, Errand
from fedstep.remote.parcel import Parcel

# what Flower calls our errands: the function of a ClientApp that a message is routed to
MESSAGE_TYPES: Mapping[Errand, str] = {"who": "query.who", "work": "train", "probe": "train.probe"}
SLACK = 60.0  # seconds that a message lives beyond its timeout: clocks of machines differ


class GridCourier:
    """Carries parcels over Flower's grid: simulation, deployment, or in this process."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._exchanges = 0

    def nodes(self) -> list[int]:
        return sorted(self.grid.get_node_ids())

    def exchange(
        self,
        errand: Errand,
        parcels: Mapping[int, Parcel],
        timeout: float,
    ) -> Iterator[Delivery]:
        self._exchanges += 1
        messages = []
        for node, parcel in parcels.items():
            messages.append(
                Message(
                    content=records_of({"order": parcel}),
                    message_type=MESSAGE_TYPES[errand],
                    dst_node_id=node,
                    group_id=str(self._exchanges),
                    # the usual twelve hours would let nodes work on rounds that are long over
                    ttl=timeout + SLACK,
                )
            )
        # a list: Flower walks through the messages twice, and a generator would send nothing
        for reply in self.grid.send_and_receive(messages, timeout=timeout):
            yield delivery_of(reply)

    def wait(self, seconds: float) -> None:
        sleep(seconds)


def delivery_of(reply: Message) -> Delivery:
    """What a node answered, or what Flower says went wrong with it."""
    node = reply.metadata.src_node_id
    if reply.has_error():
        reason = reply.error.reason or ""
        return Delivery(node, error=f"error {reply.error.code}: {reason}")
    try:
        return Delivery(node, parcels_of(reply.content))
    except Exception as error:
        # whatever a forged message may cause on the way: it is that node's, not the run's
        return Delivery(node, error=f"unreadable: {type(error).__name__}: {error}")
