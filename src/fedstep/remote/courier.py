"""Who carries parcels between the server and its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from fedstep.remote.parcel import Parcel

# who: which clients a node holds. work: a local round. probe: gradients at the server's point.
Errand: TypeAlias = Literal["who", "work", "probe"]


@dataclass(frozen=True)
class Delivery:
    """What came back from a node: a parcel a client, or what went wrong there."""

    node: int
    parcels: Mapping[str, Parcel] = field(default_factory=dict)  # by client, or "who"
    error: str = ""


class Courier(Protocol):
    """Carries parcels to nodes and back. A leaf knows a transport, and nothing of what it carries."""

    def nodes(self) -> list[int]:
        """The nodes that can be reached now."""
        ...

    def exchange(
        self,
        errand: Errand,
        parcels: Mapping[int, Parcel],
        timeout: float,
    ) -> Iterable[Delivery]:
        """Send a parcel a node; what has come back after `timeout` seconds at most.

        A node that did not answer is simply not there. Nothing is promised about the order.
        """
        ...

    def wait(self, seconds: float) -> None:
        """Let some time pass before the nodes are looked at again."""
        ...
