"""Clients' memories on their node, in versions, so that the server can come back to an older one.

The server says from which version a client begins (the last one that it counted) and which is the
oldest that it may come back to. So an order that is delivered twice, a reply that came too late, a
refused update and a server that repeats a round after a crash all lead to the same bits.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import safetensors
import safetensors.torch
from safetensors import SafetensorError

from fedstep.core.vec import NewState, State
from fedstep.data.cache import checksum

RUN_NAME = re.compile(r"[0-9a-f]{1,64}")  # it becomes a folder: nothing else may come from outside


class Memories(ABC):
    """Where a node keeps them. The version 0 is that of a client without any, and never kept."""

    @abstractmethod
    def get(
        self,
        run: str,
        client: int,
        version: int,
    ) -> NewState | None:
        """A client's memory of this version; None where it is lost."""

    @abstractmethod
    def put(
        self,
        run: str,
        client: int,
        version: int,
        memory: State,
    ) -> None:
        """Keep one."""

    @abstractmethod
    def versions(self, run: str, client: int) -> list[int]:
        """What is kept of a client."""

    @abstractmethod
    def drop(
        self,
        run: str,
        client: int,
        version: int,
    ) -> None:
        """Forget one."""

    def settle(
        self,
        run: str,
        client: int,
        wanted: Iterable[int],
    ) -> None:
        """Forget all versions but these."""
        kept = set(wanted)
        for version in self.versions(run, client):
            if version not in kept:
                self.drop(run, client, version)


@dataclass
class MemoriesHere(Memories):
    """In this process: they end with it."""

    kept: dict[tuple[str, int, int], NewState] = field(default_factory=dict)

    def get(
        self,
        run: str,
        client: int,
        version: int,
    ) -> NewState | None:
        return self.kept.get((run, client, version))

    def put(
        self,
        run: str,
        client: int,
        version: int,
        memory: State,
    ) -> None:
        # a copy: the caller goes on with its own
        self.kept[run, client, version] = dict(memory)

    def versions(self, run: str, client: int) -> list[int]:
        return [key[2] for key in self.kept if key[:2] == (run, client)]

    def drop(
        self,
        run: str,
        client: int,
        version: int,
    ) -> None:
        self.kept.pop((run, client, version), None)


@dataclass(frozen=True)
class MemoryFiles(Memories):
    """In files, one a client and version: a node that is started again has them."""

    folder: Path

    def get(
        self,
        run: str,
        client: int,
        version: int,
    ) -> NewState | None:
        path = self._file(run, client, version)
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                written = file.metadata()
            memory: NewState = safetensors.torch.load_file(path)
        except (OSError, SafetensorError):
            # missing or torn: lost either way, and the server is told so
            return None
        # damaged, or the file of another client: as good as lost, and worse if it were believed
        if written != _seal(run, client, version, memory):
            return None
        return memory

    def put(
        self,
        run: str,
        client: int,
        version: int,
        memory: State,
    ) -> None:
        path = self._file(run, client, version)
        path.parent.mkdir(parents=True, exist_ok=True)
        # under another name until it is whole: a node may be killed at any moment
        part = path.with_suffix(".part")
        tensors = {name: value.detach().contiguous() for name, value in memory.items()}
        safetensors.torch.save_file(tensors, part, metadata=_seal(run, client, version, tensors))
        part.replace(path)

    def versions(self, run: str, client: int) -> list[int]:
        folder = self._file(run, client, 0).parent
        return [int(path.stem) for path in folder.glob("*.safetensors")]

    def drop(
        self,
        run: str,
        client: int,
        version: int,
    ) -> None:
        self._file(run, client, version).unlink(missing_ok=True)

    def _file(
        self,
        run: str,
        client: int,
        version: int,
    ) -> Path:
        # the name comes over the network and becomes a path
        if not RUN_NAME.fullmatch(run):
            raise ValueError(f"run {run!r}: expected hexadecimal digits")
        return self.folder / run / str(client) / f"{version}.safetensors"


def _seal(
    run: str,
    client: int,
    version: int,
    memory: State,
) -> dict[str, str]:
    """What a file says of itself: whose memory it holds, and the hash of it."""
    return {"memory": f"{run} {client} {version}", "sha256": checksum(memory)}
