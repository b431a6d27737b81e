"""Clients' memories between rounds: in memory, or on disk where the clients are many."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from fedstep.core.errors import InputError, named_errors
from fedstep.core.vec import State

if TYPE_CHECKING:
    from fedstep.algorithm import Broadcast
    from fedstep.execute.task import Task

# of a version that an older program wrote: it is believed
UNKNOWN = 0
LARGE = 256 * 2**20  # bytes of all clients' memories above which they live on disk


@dataclass(frozen=True)
class MemoryVersion:
    """Which file holds a client's memory, and what must be in it."""

    number: int  # 1, 2, ...
    digest: int = UNKNOWN  # of the file's bytes


@dataclass
class Store:
    """Clients' memories, kept in this process."""

    memories: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # by client

    def load(
        self,
        task: Task,
        sent: Broadcast,
        clients: Sequence[int],
    ) -> dict[str, Tensor]:
        """Memories of some clients, stacked.

        A client without one gets the algorithm's first memory.
        """
        fresh = task.algorithm.memory_init(sent.x)
        if not fresh:
            return {}
        memories = [self.get(client) or fresh for client in clients]
        stacked = {}
        for name in fresh:
            # what was read from a file lies on the CPU, wherever the model is
            device = fresh[name].device
            stacked[name] = torch.stack([memory[name].to(device) for memory in memories])
        return stacked

    def save(self, clients: Sequence[int], memory: State) -> None:
        """Keep the memories of some clients, stacked."""
        if not memory:
            return
        for row, client in enumerate(clients):
            # a clone: a view would keep the memories of the whole block alive
            client_memory = {name: value[row].clone() for name, value in memory.items()}
            self.put(client, client_memory)

    def get(self, client: int) -> Mapping[str, Tensor] | None:
        """One client's memory."""
        return self.memories.get(client)

    def put(self, client: int, memory: dict[str, Tensor]) -> None:
        """Replace one client's memory."""
        self.memories[client] = memory

    def items(self) -> Iterator[tuple[int, Mapping[str, Tensor]]]:
        """Every client that has a memory, with it."""
        yield from self.memories.items()

    def index(self) -> dict[int, MemoryVersion]:
        """For each client the version of its memory that lies in files.

        None here: a checkpoint holds the memories itself.
        """
        return {}

    def keep_only(self, indices: Sequence[Mapping[int, MemoryVersion]]) -> None:
        """Forget versions in files that none of these indices names."""

    def flush(self) -> None:
        """Bring to the disk what lies in files.

        A checkpoint that names a version may only be written after it.
        """


@dataclass
class DiskStore(Store):
    """Memories in files, one a client and version: `memories/CLIENT.VERSION.safetensors`.

    In this process there are two numbers a client. A version is never changed, so a checkpoint need
    only write down which versions it means, with their hashes (`index`); what no checkpoint means
    any more is deleted (`keep_only`).
    """

    folder: Path = Path("memories")
    # the current one of each client
    versions: dict[int, MemoryVersion] = field(default_factory=dict)
    history: bool = True  # False: nothing goes back to an older version, so it is deleted at once
    _unflushed: set[Path] = field(default_factory=set, repr=False)  # written, perhaps not on disk

    def get(self, client: int) -> Mapping[str, Tensor] | None:
        version = self.versions.get(client)
        if version is None:
            return None
        path = self._file(client, version.number)
        try:
            data = path.read_bytes()
            if version.digest not in (UNKNOWN, _digest(data)):
                raise ValueError("its checksum does not agree")
            return safetensors.torch.load(data)
        except (OSError, ValueError, SafetensorError) as error:
            raise InputError(
                f"{path}: the memory of client {client} cannot be read ({error}); "
                "begin the run anew"
            ) from None

    def put(self, client: int, memory: dict[str, Tensor]) -> None:
        before = self.versions.get(client, MemoryVersion(0))
        number = before.number + 1
        path = self._file(client, number)
        tensors = {name: value.detach().cpu().contiguous() for name, value in memory.items()}
        data: bytes = safetensors.torch.save(tensors)
        # under another name until it is whole: a crash leaves no half of a version
        part = path.with_suffix(".part")
        with named_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(data)
            part.replace(path)
        self.versions[client] = MemoryVersion(number, _digest(data))
        self._unflushed.add(path)
        if not self.history:
            self._forget(self._file(client, before.number))

    def items(self) -> Iterator[tuple[int, Mapping[str, Tensor]]]:
        for client in self.versions:
            yield client, self.get(client) or {}

    def index(self) -> dict[int, MemoryVersion]:
        return dict(self.versions)

    def keep_only(self, indices: Sequence[Mapping[int, MemoryVersion]]) -> None:
        meant = set()
        for index in indices:
            for client, version in index.items():
                meant.add(self._file(client, version.number))
        for path in self.folder.rglob("*.safetensors"):
            if path not in meant:
                self._forget(path)

    def flush(self) -> None:
        # the folders too: a file that was renamed is only safe when its new name is
        folders = {path.parent for path in self._unflushed}
        for path in (*self._unflushed, *folders):
            _sync(path)
        self._unflushed.clear()

    def _forget(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._unflushed.discard(path)

    def _file(self, client: int, version: int) -> Path:
        # 256 folders: one with a million files is slow in many file systems
        folder = self.folder / f"{client % 256:02x}"
        return folder / f"{client}.{version}.safetensors"


def store_for(task: Task, folder: Path) -> Store:
    """Where the memories of this task's clients fit: in memory, or in files under the folder."""
    if lives_on_disk(task):
        return DiskStore(folder=folder)
    return Store()


def lives_on_disk(task: Task) -> bool:
    """Whether the memories of all clients are too much for this process."""
    first_memory = task.algorithm.memory_init(task.model.init())
    bytes_a_client = 0
    for value in first_memory.values():
        bytes_a_client += value.numel() * value.element_size()
    return bytes_a_client * len(task.federation) > LARGE


def _digest(data: bytes) -> int:
    """A hash that fits a tensor of whole numbers: against damage, not against forgers."""
    digest = hashlib.sha256(data).digest()
    # 62 bits and one that is set: never `UNKNOWN`, never negative
    return int.from_bytes(digest[:8], "big") >> 2 | 1 << 62


def _sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    if sys.platform == "win32" and path.is_dir():
        return  # a directory cannot be opened there
    with named_errors(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
