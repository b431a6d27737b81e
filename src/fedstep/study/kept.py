"""What a study's folder holds: runs of their own folders, and those of the compact file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedstep.core.errors import InputError
from fedstep.run.folder import StoredRun, check_digest, check_finished, read_run
from fedstep.run.packed import PACKED, unpack
from fedstep.study.plan import Job


def folder_of(run: Job, home: Path) -> Path:
    """Where a run's files are."""
    return home / "runs" / run.digest


def finished(run: Job, home: Path) -> bool:
    """Whether there is nothing left to do; a finished run that was damaged since is to be done
    again.
    """
    folder = folder_of(run, home)
    # not done again: what lies there is the result of another run, and whole
    check_digest(folder, run.digest)
    try:
        return check_finished(folder, run.setting.rounds)
    except InputError:
        # damaged: `work` will say so, and do it again
        return False


@dataclass(frozen=True)
class KeptRuns:
    """The runs of a results folder by job.

    A compact file is believed: whoever clones the repository goes on from what is committed. Remove
    it, or give another folder, to do its runs again.
    """

    home: Path
    packed: Mapping[str, StoredRun]  # finished ones, by digest

    @staticmethod
    def of(home: Path) -> KeptRuns:
        """Read the compact file, if there is one; folders are read when they are asked for."""
        path = home / PACKED
        if not path.exists():
            return KeptRuns(home, {})
        return KeptRuns(home, unpack(path))

    def read(self, job: Job) -> StoredRun | None:
        """A run, also one that is under way; None before its first round."""
        # a folder of the run itself knows more than the rounded numbers of the compact file
        stored = read_run(folder_of(job, self.home), job.digest)
        packed = self.packed.get(job.digest)
        if packed is not None and (stored is None or not stored.done):
            return packed
        return stored
