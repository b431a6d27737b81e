"""Where a round's time goes: hooks around the parts of a run, and a profiler that uses them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from fedstep.algorithm import Algorithm
from fedstep.core.types import Batch, Forward, Output, OutputAlongLine
from fedstep.core.vec import Scalar, Vec
from fedstep.local.objective import Objective
from fedstep.local.oracles import Oracle

Kind: TypeAlias = Literal[
    "data",
    "forward",
    "backward",
    "trials",
    "update",
    "aggregation",
    "evaluation",
    "idle",
]
_NOTHING = nullcontext()  # one for all: the hooks lie on the path of every batch


class Profiler:
    """The hooks that a run offers.

    This one measures nothing and costs nothing; a leaf overrides what it wants to see. A hook may
    look and count. It must not change a number: profile on or off, the bits are the same.
    """

    def charge(self, kind: Kind) -> AbstractContextManager[None]:
        """Count the time inside for this kind."""
        return _NOTHING

    def job(self) -> AbstractContextManager[None]:
        """Around the work of a job."""
        return _NOTHING

    def wrap_algorithm(self, algorithm: Algorithm) -> Algorithm:
        """The algorithm as the clients run it."""
        return algorithm

    def wrap_model(self, forward: Forward) -> Forward:
        """The model as the clients are given it."""
        return forward

    def drain(self) -> dict[str, float]:
        """What has been counted since the last time, for a process that will `merge` it."""
        return {}

    def merge(self, seconds: Mapping[str, float]) -> None:
        """Add what was counted elsewhere."""
        return None


@dataclass
class TimeProfiler(Profiler):
    """Seconds by kind. What is charged inside another charge counts once, for the inner kind."""

    seconds: dict[str, float] = field(default_factory=dict)
    _open: list[_Charge] = field(default_factory=list, repr=False)  # the innermost last

    @contextmanager
    def charge(self, kind: Kind) -> Iterator[None]:
        self._settle()
        self._open.append(_Charge(kind, since=perf_counter()))
        try:
            yield
        finally:
            self._settle()
            self._open.pop()
            if self._open:
                self._open[-1].since = perf_counter()  # the outer charge goes on from here

    def job(self) -> AbstractContextManager[None]:
        # what a client does besides passes and data is its updates: directions, conditions, moves,
        # messages
        return self.charge("update")

    def wrap_algorithm(self, algorithm: Algorithm) -> Algorithm:
        timed = TimedOracle(algorithm.local.oracle, self)
        local = replace(algorithm.local, oracle=timed)
        return replace(algorithm, local=local)

    def wrap_model(self, forward: Forward) -> Forward:
        return TimedForward(forward, self)

    def drain(self) -> dict[str, float]:
        seconds = self.seconds
        self.seconds = {}
        return seconds

    def merge(self, seconds: Mapping[str, float]) -> None:
        for kind, value in seconds.items():
            self.seconds[kind] = self.seconds.get(kind, 0.0) + value

    def _settle(self) -> None:
        """Book what the innermost open charge has run up."""
        if self._open:
            innermost = self._open[-1]
            elapsed = perf_counter() - innermost.since
            self.merge({innermost.kind: elapsed})


@dataclass
class _Charge:
    kind: Kind
    since: float  # what came before it is booked already


@dataclass(frozen=True)
class TimedOracle(Oracle):
    """An oracle; what it does besides forward passes is the backward pass."""

    inner: Oracle
    profiler: Profiler = field(compare=False)  # two oracles are the same, whoever looks at them

    @property
    def intrinsic(self) -> bool:  # type: ignore[override]
        return self.inner.intrinsic

    @property
    def forwards(self) -> int:
        return self.inner.forwards

    @property
    def backwards(self) -> int:
        return self.inner.backwards

    def __call__(self, phi: Objective, x: Vec) -> tuple[Scalar, Vec]:
        with self.profiler.charge("backward"):
            return self.inner(phi, x)


@dataclass(frozen=True)
class TimedForward:
    """A model; a pass that records no gradient is a trial."""

    inner: Forward
    profiler: Profiler

    def __getattr__(self, name: str) -> Any:
        # parts ask models for more than `Forward` has (`samples`, `dim`): all but the passes is the
        # model's own
        return getattr(self.inner, name)

    def __call__(self, x: Vec, batch: Batch) -> Output:
        # a step needs the graph of its one pass, a search only the values of its trials
        kind: Kind = "forward"
        if not torch.is_grad_enabled():
            kind = "trials"
        with self.profiler.charge(kind):
            return self.inner(x, batch)

    def line(
        self,
        at_x: Output,
        d: Vec,
        batch: Batch,
    ) -> OutputAlongLine | None:
        with self.profiler.charge("trials"):
            line = self.inner.line(at_x, d, batch)
        if line is None:
            return None
        return TimedLine(line, self.profiler)


@dataclass(frozen=True)
class TimedLine:
    """A model's output along a line: all of it is trials."""

    inner: OutputAlongLine
    profiler: Profiler

    def __call__(self, eta: Scalar, rows: Tensor | None) -> Output:
        with self.profiler.charge("trials"):
            return self.inner(eta, rows)

    def among(self, active: Tensor) -> TimedLine:
        with self.profiler.charge("trials"):
            return TimedLine(self.inner.among(active), self.profiler)
