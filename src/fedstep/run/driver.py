"""One run in one folder, from the last checkpoint to the finished mark.

`fit(out=...)` and studies use it so:

with opened(folder) as run:                      # claim: one process a folder
    if not run.is_finished(rounds):
        run.identify(identity, about)            # manifest: refuse the folder of another run
        for server, row in run.rounds(simulation, rounds):
            ...                                  # journal and checkpoints are written here
        run.finish(server, model)                # the finished mark
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy
import safetensors.torch
import torch

import fedstep
from fedstep.algorithm import Server
from fedstep.core.errors import InputError
from fedstep.core.vec import State
from fedstep.execute.store import Store
from fedstep.run import checkpoint
from fedstep.run.claim import OWNER, FolderClaim, claimed
from fedstep.run.files import (
    file_sha256,
    plain,
    read_sealed,
    sync_folder,
    write_sealed,
    write_tensors,
)
from fedstep.run.folder import (
    DONE,
    JOURNAL,
    MODEL,
    SERVER,
    SPEC,
    check_file,
    check_finished,
    read_mark,
)
from fedstep.run.journal import Journal
from fedstep.run.record import RoundReport

SHARE = 0.05  # of the time may go into checkpoints

Series = Iterable[tuple[Server, RoundReport]]


class RoundSource(Protocol):
    """Whoever makes rounds: a simulation, or a deployment whose clients are elsewhere."""

    def begin(self, rounds: int) -> Server:
        """The state before the first of so many rounds."""
        ...

    def new_store(self, folder: Path) -> Store:
        """Where clients' memories go, in files under this folder if need be."""
        ...

    def run(self, server: Server, store: Store, until: int) -> Series:
        """Rounds server.round + 1 to `until`; each yields a state to go on from."""
        ...


@contextmanager
def opened(folder: Path, patience: float = 0.0) -> Iterator[RunFolder]:
    """Claim a run's folder; a second process is refused after `patience` seconds."""
    with claimed(folder, patience) as claim:
        yield RunFolder(folder, claim)


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed process has left beside the results of a finished run."""
    if not (folder / OWNER).exists() and not any(folder.glob("checkpoint-*")):
        return
    # a run that is held by somebody is being cleared already; the claim tells, its owner's number
    # does not: a dead process may keep its number for long
    with suppress(InputError), claimed(folder):
        checkpoint.remove(folder)


@dataclass
class RunFolder:
    """A folder that this process holds.

    `notes` has a line for everything odd that was met, and mended.
    """

    path: Path
    claim: FolderClaim
    notes: list[str] = field(default_factory=list)
    checkpoint_seconds: float = 0.0  # spent on them by this process
    # of the time that may go into them; infinite: one after every round
    checkpoint_share: float = field(default_factory=lambda: SHARE)
    _journal: Journal = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._journal = Journal(self.path / JOURNAL)

    def is_finished(self, rounds: int) -> bool:
        """Whether nothing is left to do.

        A finished run that was damaged since begins anew, and a note says so.
        """
        try:
            finished = check_finished(self.path, rounds)
        except InputError as error:
            # the remedy of the message is what is done here
            reason = str(error).split("; remove ")[0]
            self.notes.append(f"{reason}: the run is done again")
            (self.path / DONE).unlink(missing_ok=True)
            return False
        if finished:
            # a crash may have come between the mark and this
            checkpoint.remove(self.path)
        return finished

    def identify(
        self,
        identity: Mapping[str, Any],
        about: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Write what the run is, or refuse the folder of another run.

        `identity` is what decides the numbers; `about` is worth knowing. Returns both, as spec.json
        holds them.
        """
        path = self.path / SPEC
        fields = {**identity, **about, "versions": program_versions()}
        if not path.exists():
            self._refuse_other_layout()
            write_sealed(path, fields)
            return plain(fields)  # type: ignore[no-any-return]
        before = read_sealed(path)
        wanted = plain(identity)
        # an older version wrote fewer fields: what it did not write cannot differ
        common = [name for name in wanted if name in before]
        changed = []
        for name in common:
            if before[name] != wanted[name]:
                changed.append(name)
        if changed or not common:
            names = ", ".join(changed or wanted)
            raise InputError(
                f"{self.path}: it holds the results of another run "
                f"(not the same: {names}); choose another directory or remove it"
            )
        self._note_other_torch(before)
        return before

    def complete(
        self,
        source: RoundSource,
        until: int,
        model_of: Callable[[Server], State],
        watch: Callable[[Series], Series] = iter,
    ) -> Server:
        """Do the rounds that are missing, write the model and set the finished mark.

        `watch` is given the rounds as they come and passes them on; what it raises interrupts the
        run.
        """
        server, store = self._resume(source, until)
        # a run that was killed after its last round has none left: the server is the one restored
        series = self._rounds(source, server, store, until)
        for after_round, _ in watch(series):
            server = after_round
        self._finish(server, model_of(server))
        return server

    def _rounds(
        self,
        source: RoundSource,
        server: Server,
        store: Store,
        until: int,
    ) -> Series:
        """Each round is in the journal when it comes out, and in a checkpoint from time to time."""
        last_checkpoint = perf_counter()
        cost = 0.0
        series = source.run(server, store, until)
        del server  # or the model of the beginning would stay in memory for all rounds
        for after_round, row in series:
            self._journal.append(row.to_dict())
            yield after_round, row
            # by what the last one cost: a large model is saved seldom, a small one every round
            elapsed = perf_counter() - last_checkpoint
            if elapsed * self.checkpoint_share >= cost:
                cost = self._checkpoint(after_round, store)
                last_checkpoint = perf_counter()

    def rows(self) -> list[RoundReport]:
        """Every row so far, also those of earlier calls."""
        return [RoundReport.from_dict(row) for row in self._journal.rows()]

    def _finish(self, server: Server, model: State) -> None:
        """Write model and server, then the mark that makes the run finished."""
        self.claim.check()
        self._journal.flush()
        server_tensors = checkpoint.server_tensors(server)
        hashes = {
            # also of what the run is: results of another one are not to be taken for it
            SPEC: file_sha256(self.path / SPEC),
            JOURNAL: file_sha256(self.path / JOURNAL),
            MODEL: write_tensors(self.path / MODEL, model),
            SERVER: write_tensors(self.path / SERVER, server_tensors),
        }
        mark = {
            "rounds": server.round,
            "horizon": server.horizon,
            "checkpoint_seconds": round(self.checkpoint_seconds, 3),
            "sha256": hashes,
        }
        write_sealed(self.path / DONE, mark)
        # the mark is on the disk before the checkpoints go: a power cut leaves one of the two
        sync_folder(self.path)
        checkpoint.remove(self.path)

    def finished_server(self) -> Server:
        """What the server of a finished run knew in the end."""
        mark = read_mark(self.path)
        if mark is None:
            raise InputError(f"{self.path}: the run is not finished")
        check_file(self.path, mark, SERVER)
        tensors = safetensors.torch.load_file(self.path / SERVER)
        return checkpoint.server_from(tensors, mark.rounds, mark.horizon)

    def _resume(self, source: RoundSource, until: int) -> tuple[Server, Store]:
        # rows are about to change: a mark that speaks of the old ones would call them damaged
        (self.path / DONE).unlink(missing_ok=True)
        restored = checkpoint.restore(self.path)
        if restored is None:
            # rows without a checkpoint are done again, and must not stand there twice
            self._journal.keep(0)
            memories = self.path / checkpoint.MEMORIES
            return source.begin(until), source.new_store(memories)
        self.notes.extend(restored.complaints)
        if restored.journal is None:
            self._journal.keep(restored.server.round)
        else:
            self._journal.cut(restored.journal)
        return restored.server, restored.store

    def _checkpoint(self, server: Server, store: Store) -> float:
        """Write one, and return the seconds it took."""
        begun = perf_counter()
        self.claim.check()  # one that lost the folder must not write into it
        self._journal.flush()  # first: the checkpoint means these rows
        checkpoint.save(
            self.path,
            server,
            store,
            self._journal.mark(),
        )
        seconds = perf_counter() - begun
        self.checkpoint_seconds += seconds
        return seconds

    def _refuse_other_layout(self) -> None:
        if (self.path / "run.json").exists():
            raise InputError(
                f"{self.path}: it holds the results of another run, "
                "of an older version of fedstep; choose another directory or remove it"
            )

    def _note_other_torch(self, before: Mapping[str, Any]) -> None:
        recorded = before.get("versions", {}).get("torch")
        here = program_versions()["torch"]
        if recorded is not None and recorded != here:
            self.notes.append(
                f"{self.path}: begun with torch {recorded}, goes on with {here}: "
                "the last bits may differ from an uninterrupted run"
            )


def program_versions() -> dict[str, str]:
    """What the numbers depend on besides the settings."""
    return {
        "fedstep": fedstep.__version__,
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }
