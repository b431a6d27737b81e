"""What becomes of a search that found no good step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from fedstep.core.errors import InputError
from fedstep.steps.trial import FailedSearch, Fallback


class Failure(ABC):
    """What becomes of a search that found nothing."""

    @abstractmethod
    def __call__(self, search: FailedSearch) -> Fallback:
        """Step to take and step to remember."""


@dataclass(frozen=True)
class Settle(Failure):
    """Take the longest trial that was only too short, for it decreases enough; or do as `Skip`.

    Under Armijo's condition no step is too short, so this is `Skip`. Under the others it is what
    rounding leaves to do close to a minimum.
    """

    def __call__(self, search: FailedSearch) -> Fallback:
        remembered = torch.where(
            search.short > 0,
            search.short,
            search.start,
        )
        return Fallback(search.short, remembered)


@dataclass(frozen=True)
class Skip(Failure):
    """Take no step and begin anew from the start value: one bad batch must not freeze a client."""

    def __call__(self, search: FailedSearch) -> Fallback:
        return Fallback(torch.zeros_like(search.tried), search.start)


@dataclass(frozen=True)
class Nudge(Failure):
    """Take a tiny step all the same, as the SLS program and the paper's authors do.

    The SLS program remembers the last trial (`remember_trial=True`), the authors' later client the
    tiny step.
    """

    step: float = 1e-6
    remember_trial: bool = False

    def __post_init__(self) -> None:
        if not self.step >= 0:
            raise InputError(
                f"Nudge(step={self.step}): the step must be 0 or more; the programs use 1e-6"
            )

    def __call__(self, search: FailedSearch) -> Fallback:
        taken = torch.full_like(search.tried, self.step)
        if self.remember_trial:
            return Fallback(taken, search.following)
        return Fallback(taken, taken)


@dataclass(frozen=True)
class LastTrial(Failure):
    """Stay at the last trial, good or not, as the SLS program does under Goldstein's conditions.

    What it remembers is the trial that would have come next. A last trial whose loss was not
    finite is not taken.
    """

    def __call__(self, search: FailedSearch) -> Fallback:
        return Fallback(search.tried, search.following)
