"""Which folders hold results, and whether anything in them has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from fedstep.run.folder import DONE, JOURNAL, SPEC

STUDY = "study.toml"
# Whatever a page is made of. Checkpoints are not: they change between rounds too.
SHOWN = (SPEC, JOURNAL, DONE, STUDY, "scale.txt", "tuning.json", "labels.json")
DEPTH = 3  # folders below the one that is watched; results are seldom deeper


def homes(folder: Path) -> list[Path]:
    """The results below a folder, or the folder itself where it holds some."""
    return sorted(_homes(folder, DEPTH))


def _homes(folder: Path, depth: int) -> Iterator[Path]:
    if is_home(folder):
        # the runs below a study belong to the study
        yield folder
        return
    if depth == 0:
        return
    for child in folder.iterdir():
        if child.is_dir() and not child.name.startswith("."):
            yield from _homes(child, depth - 1)


def is_home(folder: Path) -> bool:
    """Whether `fedstep run` or `fit(out=...)` has begun here."""
    return (folder / STUDY).exists() or (folder / SPEC).exists()


def content_mark(folder: Path) -> str:
    """A short text that changes whenever a page of the folder would."""
    state = hashlib.sha256()
    for home in homes(folder):
        for place in (home, *_runs(home)):
            for name in SHOWN:
                state.update(_file_state(place / name).encode())
    return state.hexdigest()[:16]


def _runs(home: Path) -> list[Path]:
    runs = home / "runs"
    if not runs.is_dir():
        return []
    return sorted(runs.iterdir())


def _file_state(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return f"{path} is missing\n"
    # the size too: two rounds may end within one tick of a coarse clock
    return f"{path} {status.st_size} {status.st_mtime_ns}\n"
