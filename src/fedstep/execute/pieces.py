"""What goes to a worker and what comes back: pieces of a round, and answers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from fedstep.algorithm import Update
from fedstep.core.vec import State

W = TypeVar("W", bound=Hashable)  # a worker, of whatever kind its crew has


@dataclass(frozen=True)
class Piece:
    """Some jobs of a round for one worker."""

    round: int
    probe: bool  # gradients are wanted instead of deltas
    numbers: tuple[int, ...]  # the places of the jobs in the order of their updates
    jobs: tuple[tuple[int, ...], ...]  # the clients of each
    memories: tuple[State, ...]  # of the clients of each

    @property
    def clients(self) -> list[int]:
        return [client for job in self.jobs for client in job]


@dataclass(frozen=True)
class Joined(Generic[W]):
    """A worker is ready for its first piece."""

    worker: W


@dataclass(frozen=True)
class PieceFinished(Generic[W]):
    """A worker has done its piece."""

    worker: W
    updates: Sequence[Update]  # of its jobs, in their order
    seconds: float = 0.0  # that it took, by the clock: what a worker does not spend so, it waits
    profile: Mapping[str, float] = field(default_factory=dict)  # seconds by kind, if measured


@dataclass(frozen=True)
class Failed(Generic[W]):
    """A client has raised an error."""

    worker: W
    error: Exception  # with a note that names round and clients


@dataclass(frozen=True)
class Died(Generic[W]):
    """A worker is gone, with whatever it was at."""

    worker: W
    reason: str  # as a message gives it, such as an exit code


Answer: TypeAlias = Joined[W] | PieceFinished[W] | Failed[W] | Died[W]
