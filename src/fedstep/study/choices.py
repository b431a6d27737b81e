"""What tuning chose, as `tuning.json` holds it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from fedstep.core.errors import InputError
from fedstep.run.listed import read_listed
from fedstep.study.typed import typed


@dataclass(frozen=True)
class Choice:
    """What tuning chose for a method and what it spent: rounds are those of all grid points
    together.
    """

    label: str  # of the method
    spec: str  # with the chosen values filled in
    rounds: int  # 0 of a method without a grid
    # the study's first metric, last tenth of the rounds, by grid point; None: diverged
    scores: dict[str, float | None]


def read_choices(home: Path) -> dict[str, Choice]:
    """What tuning chose before."""
    path = home / "tuning.json"
    if not path.exists():
        raise InputError(f"{path}: there is none; fedstep tune makes it")
    try:
        rows = json.loads(read_listed(path))
        choices = [typed(Choice, row) for row in rows]
    except (ValueError, TypeError, RecursionError) as error:
        # what is refused because it does not agree with its hash names the file already
        reason = str(error).removeprefix(f"{path}: ")
        raise InputError(f"{path}: {reason}; make it anew with fedstep tune") from None
    return {choice.label: choice for choice in choices}
