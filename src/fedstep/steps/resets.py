"""Where a search begins, and what becomes of it when it fails.

The papers number the reset rules differently (the federated paper: 0 keep, 1 restart, 2 grow; the SLS program: 0 keep, 1 grow,
2 restart), so here they have names only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar


class Reset(Protocol):
    """Where a search begins."""

    def __call__(self, last: Scalar, start: Scalar, share: Scalar) -> Scalar:
        """First trial, from the last accepted step, the round's start value and batch size / client size."""
        ...


@dataclass(frozen=True)
class Keep:
    """Begin at the last accepted step: steps never grow within a round."""

    def __call__(self, last: Scalar, start: Scalar, share: Scalar) -> Scalar:
        return last


@dataclass(frozen=True)
class Restart:
    """Begin at the start value every time: most trials, longest steps."""

    def __call__(self, last: Scalar, start: Scalar, share: Scalar) -> Scalar:
        return start


@dataclass(frozen=True)
class Grow:
    """Begin a little above the last accepted step.

        first = last * factor^(1 / per)

    `per` is the number of steps over which a step may grow by `factor`; None means one pass over the client's data, the
    paper's factor^(b / n) for batch size b and n samples.
    """

    factor: float = 2.0
    per: float | None = None

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise InputError(f"Grow(factor={self.factor}): the factor must be positive; the paper uses 2")
        if self.per is not None and not self.per > 0:
            raise InputError(f"Grow(per={self.per}): the number of steps must be positive, or None for one epoch")

    def __call__(self, last: Scalar, start: Scalar, share: Scalar) -> Scalar:
        if self.per is None:
            return last * torch.pow(self.factor, share.to(last.dtype))
        return last * float(self.factor ** (1 / self.per))


class Failure(Protocol):
    """What becomes of a search that found nothing."""

    def __call__(self, trial: Scalar, start: Scalar) -> tuple[Scalar, Scalar]:
        """Step to take and step to remember, given the last trial and the round's start value."""
        ...


@dataclass(frozen=True)
class Skip:
    """Take no step, and begin anew from the start value: one bad batch must not freeze the client."""

    def __call__(self, trial: Scalar, start: Scalar) -> tuple[Scalar, Scalar]:
        return torch.zeros_like(trial), start


@dataclass(frozen=True)
class Nudge:
    """Take a tiny step all the same, as the SLS program and the paper's authors do.

    The SLS program remembers the last trial (`remember_trial=True`), the authors' later client the tiny step.
    """

    step: float = 1e-6
    remember_trial: bool = False

    def __post_init__(self) -> None:
        if not self.step >= 0:
            raise InputError(f"Nudge(step={self.step}): the step must be 0 or more; the programs use 1e-6")

    def __call__(self, trial: Scalar, start: Scalar) -> tuple[Scalar, Scalar]:
        taken = torch.full_like(trial, self.step)
        return taken, trial if self.remember_trial else taken
