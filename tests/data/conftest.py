"""Where the real data sets are, if they are there."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def shared() -> Callable[[str], Path]:
    """A directory of real data, found through FEDSTEP_DATA or beside the repository; its test is skipped without it."""
    root = Path(os.environ.get("FEDSTEP_DATA") or Path(__file__).parents[3] / "shared" / "data")

    def locate(name: str) -> Path:
        if not (root / name).is_dir():
            pytest.skip(f"no {name} in {root}: set FEDSTEP_DATA to the directory of the data sets")
        return root / name

    return locate
