"""Which version of its memory each client was last counted with."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedstep.execute.store import Store
from fedstep.run.rounds import WorkRequest

VERSION = "version"  # all that the server's store holds of a client


class CountedVersions:
    """Which version of its memory each client is to begin from."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.begin()

    def begin(self) -> None:
        """A new round: what is counted now is what the server may come back to."""
        self._at_start = {client: _number(memory) for client, memory in self.store.items()}

    def since(self, client: int) -> int:
        memory = self.store.get(client)
        if memory is None:
            return 0
        return _number(memory)

    def kept(self, client: int) -> int:
        return self._at_start.get(client, 0)

    def counted(self, client: int, version: int) -> None:
        self.store.put(client, {VERSION: torch.tensor(version)})

    def forget(self, client: int) -> None:
        self.counted(client, 0)


def version_after(request: WorkRequest) -> int:
    """The number that memories have after this piece of work: two a round, from 1."""
    # a probe changes memories, too: what it left must not be taken for the round's
    return 2 * request.sent.round + 1 + int(not request.probe)


def _number(memory: Mapping[str, Tensor]) -> int:
    return int(memory[VERSION])
