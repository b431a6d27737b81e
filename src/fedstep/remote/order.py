"""What the server asks of a node: a round of some of its clients."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from fedstep.algorithm import Algorithm, Broadcast
from fedstep.core.errors import InputError
from fedstep.core.exchange import SharedState
from fedstep.core.vec import prefixed, under
from fedstep.data.plan import Plan
from fedstep.remote.memories import RUN_NAME
from fedstep.remote.parcel import (
    DTYPES,
    Parcel,
    RefusedReply,
    TensorForm,
    WireTensor,
    from_wire,
    to_wire,
)
from fedstep.run.files import RUN_AGAIN
from fedstep.run.identity import text_of
from fedstep.run.listed import read_listed, write_listed

RUN_ID = "run_id.txt"  # in the run's folder: a new start goes on with the same run
NONE = -1  # where a number may be absent: not every transport knows None


@dataclass(frozen=True)
class RunSettings:
    """What does not change during a run, and every client must know."""

    run: str  # random: memories of another run are not touched
    method: str  # as text; empty: the clients have the algorithm themselves
    algorithm: str  # digest of the client's half: both ends must mean the same
    seed: int
    plan: Plan
    trace: bool  # whether losses and steps are sent along


@dataclass(frozen=True)
class WorkOrder:
    """A round's work for the clients of one node."""

    settings: RunSettings
    sent: Broadcast
    probe: bool
    version: int  # that memories will have after this piece of work
    clients: tuple[int, ...]
    since: tuple[int, ...]  # the version that each client begins from; 0: afresh
    kept: tuple[int, ...]  # the oldest version that the server may come back to

    def parcel(self, tensors: Mapping[str, WireTensor]) -> Parcel:
        """As it travels; `tensors` are those of `broadcast_tensors`, made once for all nodes."""
        settings = self.settings
        return Parcel(
            values={
                "run": settings.run,
                "method": settings.method,
                "algorithm": settings.algorithm,
                "seed": settings.seed,
                "batch": settings.plan.batch,
                "steps": _or_none(settings.plan.steps),
                "epochs": _or_none(settings.plan.epochs),
                "trace": settings.trace,
                "round": self.sent.round,
                "probe": self.probe,
                "version": self.version,
                "clients": list(self.clients),
                "since": list(self.since),
                "kept": list(self.kept),
            },
            tensors=tensors,
        )


def broadcast_tensors(sent: Broadcast) -> dict[str, WireTensor]:
    """What every node is sent; the guard's state is the server's and stays there."""
    shared = SharedState.of(sent.shared)
    without_guard = replace(shared, guard={})
    state = {"x": sent.x, **prefixed("shared.", without_guard.flat())}
    return {name: to_wire(value) for name, value in state.items()}


def read_order(parcel: Parcel) -> WorkOrder:
    """The order again, on the node."""
    values: Mapping[str, Any] = parcel.values
    tensors = {}
    for name, wire in parcel.tensors.items():
        # the node asked to be told what to do: here the server's word for the form is taken
        form = TensorForm(DTYPES[wire.dtype], tuple(wire.shape))
        tensors[name] = from_wire(wire, form, name)
    plan = Plan(
        values["batch"],
        _number_or_none(values["steps"]),
        _number_or_none(values["epochs"]),
    )
    settings = RunSettings(
        run=values["run"],
        method=values["method"],
        algorithm=values["algorithm"],
        seed=values["seed"],
        plan=plan,
        trace=bool(values["trace"]),
    )
    return WorkOrder(
        settings=settings,
        sent=Broadcast(tensors["x"], under("shared.", tensors), values["round"]),
        probe=bool(values["probe"]),
        version=values["version"],
        clients=tuple(values["clients"]),
        since=tuple(values["since"]),
        kept=tuple(values["kept"]),
    )


def run_name(folder: Path) -> str:
    """The random name of the run in this folder; the first start makes it."""
    # kept: nodes find the memories of a run by its name after the server was killed
    path = folder / RUN_ID
    if not path.exists():
        write_listed(path, f"{uuid4().hex}\n".encode())
    # listed with its hash: under another name all memories would be lost
    name = read_listed(path).decode(errors="replace").strip()
    if not RUN_NAME.fullmatch(name):
        raise InputError(f"{path}: damaged, not the name of a run; {RUN_AGAIN}")
    return name


def client_half(algorithm: Algorithm) -> str:
    """A digest of what runs on the client: two ends with the same text compute the same."""
    parts = (algorithm.local, algorithm.correction, algorithm.codec)
    text = text_of(parts)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def refuse_other_half(wanted: str, here: str) -> None:
    """Refuse an order for another method than this node has."""
    if wanted != here:
        raise RefusedReply(
            "the server runs another method, or another version of fedstep, than this node; "
            "install the same on both"
        )


def _or_none(value: int | None) -> int:
    if value is None:
        return NONE
    return value


def _number_or_none(value: int) -> int | None:
    if value == NONE:
        return None
    return value
