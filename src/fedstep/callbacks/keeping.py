"""Models that are kept on the way."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from pathlib import Path

from torch import nn

from fedstep.callbacks.base import Callback, RoundEnd, RunStart, WatchedColumn, hidden
from fedstep.core.errors import InputError
from fedstep.core.vec import State
from fedstep.run.files import (
    read_sealed,
    read_tensors,
    tensor_bytes,
    write_bytes,
    write_sealed,
    write_tensors,
)

BEST = "best"  # .safetensors and .json


@dataclass
class KeepBest(Callback):
    """The model of the best round so far: `model`, `tensors`, `best_round` and `value`.

    column: as of `EarlyStopping`. In a run with a folder it is also written there, as
    best.safetensors and best.json, and found again when an interrupted run goes on.
    """

    column: str | None = None
    model: nn.Module | None = hidden()
    tensors: State = field(default_factory=dict, init=False, repr=False)
    best_round: int = field(default=0, init=False)
    value: float = field(default=math.nan, init=False)
    _start: RunStart | None = hidden()
    _watched: WatchedColumn | None = hidden()

    def start(self, run: RunStart) -> None:
        self._start = run
        # a callback may serve several runs: nothing of an earlier one is left
        self._watched = None
        self.model = None
        self.best_round = 0
        self.value = math.nan
        if run.folder is not None and (run.folder / f"{BEST}.json").exists():
            self._restore(run)

    def round(self, moment: RoundEnd) -> None:
        assert self._start is not None
        if self._watched is None:
            columns = list(moment.report.to_dict())
            self._watched = WatchedColumn.of(self.column, self._start, columns)
        value = self._watched.value(moment.report)
        # a round that was not evaluated, or has diverged: a file could not hold its value either
        if not math.isfinite(value):
            return
        rank = self._watched.rank
        # of equal ones the first, as a resumed run would have it
        if self.best_round and rank(value) <= rank(self.value):
            return
        self.value = value
        self.best_round = moment.report.round
        self.model = moment.model
        self.tensors = dict(moment.tensors(moment.server))
        if self._start.folder is not None:
            self._write(self._start.folder)

    def _write(self, folder: Path) -> None:
        data = tensor_bytes(self.tensors)
        described = {
            "round": self.best_round,
            "value": self.value,
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        # the description first: a crash between the two leaves one of a round that has no
        # checkpoint yet, which `_restore` does not look at, and which is done and kept again
        write_sealed(folder / f"{BEST}.json", described)
        write_bytes(folder / f"{BEST}.safetensors", data)

    def _restore(self, run: RunStart) -> None:
        assert run.folder is not None
        described = read_sealed(run.folder / f"{BEST}.json", ("round", "value", "sha256"))
        # a round after the last checkpoint is done again, and may be kept again
        if described["round"] > len(run.earlier):
            return
        self.best_round = described["round"]
        self.value = described["value"]
        self.tensors = read_tensors(run.folder / f"{BEST}.safetensors", described["sha256"])


@dataclass
class Checkpoint(Callback):
    """The model every few rounds, as FOLDER/model-000010.safetensors; what a module loads.

    `fit(out=...)` writes its own checkpoints to go on from: these are for other uses.
    """

    folder: str | Path
    every: int = 10  # rounds
    keep: int | None = None  # the last few only; None: all

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InputError(f"Checkpoint(every={self.every}): give 1 round or more")
        if self.keep is not None and self.keep < 1:
            raise InputError(f"Checkpoint(keep={self.keep}): give 1 file or more, or None")

    def start(self, run: RunStart) -> None:
        try:
            # before the first round: a folder that cannot be made must not cost a night
            Path(self.folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"Checkpoint: {self.folder} cannot be made ({error})") from None

    def round(self, moment: RoundEnd) -> None:
        number = moment.report.round
        # the last round always: it is what most people look for
        if number % self.every and not moment.last:
            return
        folder = Path(self.folder)
        write_tensors(
            folder / f"model-{number:06d}.safetensors",
            moment.tensors(moment.server),
        )
        if self.keep is None:
            return
        for old in sorted(folder.glob("model-*.safetensors"))[: -self.keep]:
            old.unlink()
