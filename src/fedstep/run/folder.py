"""What a run's folder holds, and how it is read back without torch. `run/driver.py` writes it.

    spec.json          what identifies the run, and what else there is to know about it
    rounds.jsonl       a row a round
    model.safetensors  the trained model
    server.safetensors all that the server knew after the last round
    done.json          the finished mark: rounds and the hashes of the four files above
    lock, owner.json   who works on it
    checkpoint-*, memories/   only while the run is not finished

A study's folder holds many of them under runs/; `fit(out=...)` writes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedstep.core.errors import InputError, brief
from fedstep.run.files import file_sha256, read_sealed
from fedstep.run.journal import Journal, JournalMark

SPEC = "spec.json"
JOURNAL = "rounds.jsonl"
MODEL = "model.safetensors"
SERVER = "server.safetensors"
DONE = "done.json"


@dataclass(frozen=True)
class FinishedMark:
    """What done.json says; older ones have no hashes."""

    rounds: int
    horizon: int  # the rounds that schedules counted on; older marks lack it
    sha256: Mapping[str, str]  # by the name of the file


@dataclass(frozen=True)
class StoredRun:
    """What one run left: its spec.json, its rows, and whether it reached its last round."""

    spec: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    done: bool


def read_run(folder: Path, digest: str | None = None) -> StoredRun | None:
    """The run of a folder, also one that is under way; None before its first round.

    digest: of the run that must be there.
    """
    check_digest(folder, digest)
    mark = read_mark(folder)
    journal = Journal(folder / JOURNAL)
    if mark is not None:
        check_file(folder, mark, SPEC)
        check_file(folder, mark, JOURNAL)
    else:
        _check_against_checkpoint(folder, journal)
    rows = journal.rows()
    if not rows:
        return None
    spec: dict[str, Any] = {}
    if (folder / SPEC).exists():
        spec = read_sealed(folder / SPEC)
    return StoredRun(spec, rows, done=mark is not None)


def check_digest(folder: Path, digest: str | None) -> None:
    """Refuse a folder with the files of another run than its name says."""
    path = folder / SPEC
    if digest is None or not path.exists():
        return
    # a run of `fit` has no digest
    found = read_sealed(path).get("digest", digest)
    if found != digest:
        raise InputError(
            f"{path}: it is that of the run {brief(found)}, which belongs elsewhere; "
            f"remove {folder} to run {digest} again"
        )


def descriptions(folder: Path) -> list[Path]:
    """The checkpoints of a folder, newest first."""
    return sorted(folder.glob("checkpoint-*.json"), reverse=True)


def journal_mark(description: Mapping[str, Any]) -> JournalMark | None:
    """Which part of the journal a checkpoint means; older ones do not say."""
    if "journal_sha256" not in description:
        return None
    return JournalMark(description["journal_bytes"], description["journal_sha256"])


def _check_against_checkpoint(folder: Path, journal: Journal) -> None:
    """Refuse a journal that has lost rows since: those that are left look like a shorter run."""
    for path in descriptions(folder)[:1]:
        try:
            mark = journal_mark(read_sealed(path))
        except (InputError, OSError):
            # damaged, or replaced just now: rows are read without it
            return
        if mark is not None:
            journal.before(mark)


def read_mark(folder: Path) -> FinishedMark | None:
    """The finished mark; None where the run is not finished."""
    path = folder / DONE
    if not path.exists():
        return None
    fields = read_sealed(path)
    rounds = fields.get("rounds")
    hashes = fields.get("sha256", {})
    if not isinstance(rounds, int) or not isinstance(hashes, dict):
        raise InputError(f"{path}: damaged (its fields are not those of a finished run)")
    return FinishedMark(rounds, fields.get("horizon", rounds), hashes)


def check_file(
    folder: Path,
    mark: FinishedMark,
    name: str,
) -> None:
    """Refuse a file of a finished run that is not the one it was finished with."""
    path = folder / name
    if name not in mark.sha256:
        return  # finished by an older version, or a file it did not write
    if not path.exists():
        raise InputError(f"{path}: missing from a finished run; remove {folder} to run it again")
    if file_sha256(path) != mark.sha256[name]:
        raise InputError(
            f"{path}: damaged (it does not agree with {DONE}); remove {folder} to run it again"
        )


def check_finished(folder: Path, rounds: int) -> bool:
    """Whether all `rounds` are done; a finished run that is damaged is refused."""
    mark = read_mark(folder)
    if mark is None:
        return False
    for name in mark.sha256:
        check_file(folder, mark, name)
    # older marks have no hashes: the number of rows is all that can be held against them
    rows = len(Journal(folder / JOURNAL).rows())
    # a run that was stopped early has fewer rounds than its schedules counted on
    if rows != mark.rounds or rounds not in (mark.rounds, mark.horizon):
        raise InputError(
            f"{folder / JOURNAL}: {rows} rows "
            f"in a finished run of {rounds} rounds; "
            f"remove {folder} to run it again"
        )
    return True
