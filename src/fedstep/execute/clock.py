"""Where a round's time goes: a stop-watch that the parts of a run are handed, and a task that hands it to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from fedstep.core.types import Batch, Forward, Line, Output
from fedstep.core.vec import Scalar, Vec
from fedstep.execute.task import Task
from fedstep.local.objective import Objective
from fedstep.local.oracles import Oracle

KINDS = ("data", "forward", "backward", "trials", "update", "aggregation", "evaluation", "idle")


@dataclass
class Clock:
    """Seconds by kind. What is charged inside another charge counts once, for the inner kind."""

    seconds: dict[str, float] = field(default_factory=dict)
    _stack: list[tuple[str, float]] = field(default_factory=list, repr=False)

    @contextmanager
    def charge(self, kind: str) -> Iterator[None]:
        """Count the time inside for this kind."""
        self._tick()
        self._stack.append((kind, perf_counter()))
        try:
            yield
        finally:
            self._tick()
            self._stack.pop()
            if self._stack:
                self._stack[-1] = (self._stack[-1][0], perf_counter())

    def add(self, kind: str, seconds: float) -> None:
        """Count seconds that somebody else has measured."""
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds

    def taken(self) -> dict[str, float]:
        """What has been counted, and begin anew."""
        seconds, self.seconds = self.seconds, {}
        return seconds

    def _tick(self) -> None:
        if self._stack:
            kind, since = self._stack[-1]
            self.add(kind, perf_counter() - since)


@dataclass(frozen=True)
class TimedTask(Task):
    """A task whose every part is timed; the numbers are those of the task."""

    clock: Clock = field(default_factory=Clock, compare=False)

    @staticmethod
    def of(task: Task, clock: Clock) -> TimedTask:
        local = replace(
            task.algorithm.local, oracle=TimedOracle(task.algorithm.local.oracle, clock)
        )
        parts = {**vars(task), "algorithm": replace(task.algorithm, local=local)}
        return TimedTask(**parts, clock=clock)

    def positions(self, client: int, round: int, probe: bool = False) -> list[Tensor]:
        with self.clock.charge("data"):
            return super().positions(client, round, probe)

    def gather(self, *given: Any) -> Batch:
        with self.clock.charge("data"):
            return super().gather(*given)

    def place(self, *given: Any) -> Batch:
        with self.clock.charge("data"):
            return super().place(*given)

    def watched(self, forward: Forward) -> Forward:
        return TimedForward(forward, self.clock)

    def told(self) -> dict[str, float]:
        return self.clock.taken()

    def heard(self, seconds: dict[str, float]) -> None:
        for kind, value in seconds.items():
            self.clock.add(kind, value)

    @contextmanager
    def working(self) -> Iterator[None]:
        """What a client does besides passes and data is its updates: directions, conditions, moves, messages."""
        with self.clock.charge("update"):
            yield


@dataclass(frozen=True)
class TimedOracle:
    """An oracle; what it does besides forward passes is the backward pass."""

    inner: Oracle
    clock: Clock = field(compare=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __call__(self, phi: Objective, x: Vec) -> tuple[Scalar, Vec]:
        with self.clock.charge("backward"):
            return self.inner(phi, x)


@dataclass(frozen=True)
class TimedForward:
    """A model; a pass that records no gradient is a trial."""

    inner: Forward
    clock: Clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __call__(self, x: Vec, batch: Batch) -> Output:
        with self.clock.charge("forward" if torch.is_grad_enabled() else "trials"):
            return self.inner(x, batch)

    def line(self, at_x: Output, d: Vec, batch: Batch) -> Line | None:
        with self.clock.charge("trials"):
            line = self.inner.line(at_x, d, batch)
        return None if line is None else self._timed(line)

    def _timed(self, line: Line) -> Line:
        def timed(eta: Scalar, rows: Tensor | None) -> Output:
            with self.clock.charge("trials"):
                return line(eta, rows)

        return timed
