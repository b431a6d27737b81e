"""Server state and clients' memories on disk: safetensors, described and sealed in JSON.

The last two checkpoints of a run are kept.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors
import torch
from torch import Tensor

from fedstep.algorithm import Server
from fedstep.core.errors import InputError
from fedstep.core.vec import State, prefixed, under
from fedstep.execute.store import DiskStore, MemoryVersion, Store
from fedstep.run.files import (
    file_sha256,
    read_sealed,
    read_tensors,
    sync_folder,
    write_sealed,
    write_tensors,
)
from fedstep.run.folder import SPEC, descriptions, journal_mark
from fedstep.run.journal import JournalMark

CHECKPOINTS_KEPT = 2  # one more than is needed: the last one may be torn by a crash of the disk
MEMORIES = "memories"  # the folder of a DiskStore, inside the run's


@dataclass(frozen=True)
class Restored:
    """The state after a complete round, and a line for each newer checkpoint that is not whole."""

    server: Server
    store: Store
    journal: JournalMark | None  # None in checkpoints of older versions
    complaints: tuple[str, ...] = ()


def save(
    folder: Path,
    server: Server,
    store: Store,
    journal: JournalMark | None = None,
) -> None:
    """Write the state after a complete round; the description comes last and makes it valid."""
    tensors = server_tensors(server)
    index = store.index()
    if index:
        # memories are files of their own: on the disk before the checkpoint that means them
        store.flush()
        tensors["index"] = _index_tensor(index)
    else:
        for client, memory in store.items():
            tensors |= prefixed(f"memory.{client}.", memory)
    stem = folder / _name(server.round)
    description = {
        "round": server.round,
        "horizon": server.horizon,
        "sha256": write_tensors(stem.with_suffix(".safetensors"), tensors),
    }
    if (folder / SPEC).exists():
        description["spec_sha256"] = file_sha256(folder / SPEC)
    if journal is not None:
        description["journal_bytes"] = journal.bytes
        description["journal_sha256"] = journal.sha256
    write_sealed(stem.with_suffix(".json"), description)
    sync_folder(folder)  # before older ones go: a power cut must not leave neither
    for path in descriptions(folder)[CHECKPOINTS_KEPT:]:
        _delete(path)
    if index:
        indices = [index]
        for path in descriptions(folder):
            indices.append(_index(path))
        store.keep_only(indices)


def server_tensors(server: Server) -> dict[str, Tensor]:
    """What the server knows, under flat names."""
    return {
        "x": server.x,
        "readout": server.readout,
        "eta_g": server.eta_g,
        **prefixed("shared.", server.shared),
        **prefixed("rule.", server.rule),
    }


def server_from(
    tensors: State,
    round: int,
    horizon: int,
) -> Server:
    """The server of `server_tensors`."""
    rule = under("rule.", tensors)
    # rules kept the last step in their state before it had a place of its own
    old_eta_g = rule.pop("eta_g", torch.ones(()))
    return Server(
        x=tensors["x"],
        readout=tensors["readout"],
        shared=under("shared.", tensors),
        rule=rule,
        round=round,
        horizon=horizon,
        eta_g=tensors.get("eta_g", old_eta_g),
    )


def restore(folder: Path) -> Restored | None:
    """The newest state that is whole; None where there is no checkpoint."""
    complaints: list[str] = []
    damaged: list[Path] = []
    for path in descriptions(folder):
        try:
            restored = _read(path, tuple(complaints))
        # whatever a damaged file may cause on the way: an older checkpoint may be whole
        except (InputError, OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
            reason = str(error).split("; remove ")[0]
            # most errors name the file, of the two that a checkpoint has; the system's do not
            if not reason.startswith(str(path.with_suffix(""))):
                reason = f"{path}: {reason}"
            complaints.append(reason)
            damaged.append(path)
            continue
        # newer than all that this run will write for a while: they would be kept in its place
        for other in damaged:
            _delete(other)
        return restored
    if complaints:
        # to begin silently at round 1 would throw away hours: that is for the user to decide
        raise InputError(
            f"{complaints[0]}: no whole checkpoint is left; remove {folder} to begin that run anew"
        )
    return None


def remove(folder: Path) -> None:
    """Delete the checkpoints of a finished run, and the memories of its clients."""
    shutil.rmtree(folder / MEMORIES, ignore_errors=True)
    for path in descriptions(folder):
        _delete(path)
    # what a crash left between the two files of a checkpoint
    for stray in folder.glob("checkpoint-*"):
        stray.unlink(missing_ok=True)


def _delete(description: Path) -> None:
    # the description first: without it the tensors are no checkpoint
    description.unlink(missing_ok=True)
    description.with_suffix(".safetensors").unlink(missing_ok=True)


def _index_tensor(index: Mapping[int, MemoryVersion]) -> Tensor:
    """A row a client: its number, the version of its memory and the hash of that file."""
    rows = [(client, version.number, version.digest) for client, version in index.items()]
    return torch.tensor(sorted(rows))


def _index_from(rows: Tensor) -> dict[int, MemoryVersion]:
    """The index of `_index_tensor`; older ones have no hashes."""
    index = {}
    for client, *version in rows.tolist():
        index[client] = MemoryVersion(*version)
    return index


def _index(description: Path) -> dict[int, MemoryVersion]:
    """The versions of memories that a checkpoint means; none where it is torn."""
    try:
        with safetensors.safe_open(description.with_suffix(".safetensors"), "pt") as file:
            return _index_from(file.get_tensor("index"))
    except (OSError, safetensors.SafetensorError):
        return {}


def _name(round: int) -> str:
    # seven digits: `descriptions` sorts by name
    return f"checkpoint-{round:07d}"


def _read(path: Path, complaints: tuple[str, ...]) -> Restored:
    description = read_sealed(path, ("round", "horizon", "sha256"))
    if path.stem != _name(description["round"]):
        raise InputError(f"{path}: it is the checkpoint of round {description['round']}")
    spec = path.with_name(SPEC)
    # older ones do not say which run they belong to
    if "spec_sha256" in description and description["spec_sha256"] != file_sha256(spec):
        raise InputError(
            f"{path}: it is the checkpoint of another run (it does not agree with {SPEC})"
        )
    tensors = read_tensors(path.with_suffix(".safetensors"), description["sha256"])
    return Restored(
        server=server_from(tensors, description["round"], description["horizon"]),
        store=_store(path.parent, tensors),
        journal=journal_mark(description),
        complaints=complaints,
    )


def _store(folder: Path, tensors: State) -> Store:
    if "index" in tensors:
        versions = _index_from(tensors["index"])
        return DiskStore(folder=folder / MEMORIES, versions=versions)
    store = Store()
    for name, value in under("memory.", tensors).items():
        client, _, field = name.partition(".")
        store.memories.setdefault(int(client), {})[field] = value
    return store
