"""Server state and clients' memories on disk: safetensors with a checksum beside it, the last two kept."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from fedstep.algorithm import Server
from fedstep.core.errors import InputError
from fedstep.core.vec import prefixed, under
from fedstep.execute.store import DiskStore, Store
from fedstep.run.files import write_bytes, write_json

KEPT = 2
MEMORIES = "memories"


def save(folder: Path, server: Server, store: Store) -> None:
    """Write the state after a complete round; the description is written last and makes it valid."""
    tensors = {
        "x": server.x,
        "readout": server.readout,
        "eta_g": server.eta_g,
        **prefixed("shared.", server.shared),
        **prefixed("rule.", server.rule),
    }
    index = store.index()
    if index:  # the memories are files of their own: they must be on the disk before the checkpoint that means them
        os.sync()
        tensors["index"] = torch.tensor(sorted(index.items()))
    else:
        for client, memory in store.items():
            tensors |= prefixed(f"memory.{client}.", memory)
    data = safetensors.torch.save({name: t.detach().clone() for name, t in tensors.items()})
    stem = folder / f"checkpoint-{server.round:07d}"
    write_bytes(stem.with_suffix(".safetensors"), data)
    about = {
        "round": server.round,
        "horizon": server.horizon,
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    write_json(stem.with_suffix(".json"), about)
    for old in descriptions(folder)[KEPT:]:
        old.unlink(missing_ok=True)
        old.with_suffix(".safetensors").unlink(missing_ok=True)
    if index:
        store.keep_only([index, *(_index(path) for path in descriptions(folder))])


def _index(path: Path) -> dict[int, int]:
    """The versions of memories that a checkpoint means; none where it is torn."""
    try:
        with safetensors.safe_open(path.with_suffix(".safetensors"), "pt") as file:
            return dict(file.get_tensor("index").tolist())
    except (OSError, safetensors.SafetensorError):
        return {}


def descriptions(folder: Path) -> list[Path]:
    """The checkpoints of a folder, newest first."""
    return sorted(folder.glob("checkpoint-*.json"), reverse=True)


def restore(folder: Path) -> tuple[Server, Store, list[str]] | None:
    """The newest state that is whole, and a line for each that is not; None where there is no checkpoint."""
    complaints: list[str] = []
    for path in descriptions(folder):
        try:
            return (*_read(path), complaints)
        except (InputError, OSError, ValueError, KeyError) as error:
            complaints.append(f"{path}: {error}")
    if complaints:
        raise InputError(
            f"{complaints[0]}: no whole checkpoint is left; remove {folder} to begin that run anew"
        )
    return None


def remove(folder: Path) -> None:
    """Delete the checkpoints of a finished run, and the memories of its clients."""
    shutil.rmtree(folder / MEMORIES, ignore_errors=True)
    for path in descriptions(folder):
        path.unlink(missing_ok=True)
        path.with_suffix(".safetensors").unlink(missing_ok=True)


def _read(path: Path) -> tuple[Server, Store]:
    about: dict[str, Any] = json.loads(path.read_text())
    data = path.with_suffix(".safetensors").read_bytes()
    if hashlib.sha256(data).hexdigest() != about["sha256"]:
        raise InputError("the checkpoint is corrupt (its checksum does not agree)")
    tensors = safetensors.torch.load(data)
    store = Store()
    if "index" in tensors:
        store = DiskStore(folder=path.parent / MEMORIES, versions=dict(tensors["index"].tolist()))
    for name, value in under("memory.", tensors).items():
        client, _, rest = name.partition(".")
        store.memories.setdefault(int(client), {})[rest] = value
    rule = under("rule.", tensors)
    # rules kept the last step in their state before it had a place of its own
    old_eta_g = rule.pop("eta_g", torch.ones(()))
    server = Server(
        x=tensors["x"],
        readout=tensors["readout"],
        shared=under("shared.", tensors),
        rule=rule,
        round=about["round"],
        horizon=about["horizon"],
        eta_g=tensors.get("eta_g", old_eta_g),
    )
    return server, store
