"""Looking over the clients' shoulders: the run is the same, every local step of some rounds is
noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from fedstep.algorithm import Broadcast, Update
from fedstep.core.aggregate import Aggregate
from fedstep.core.message_kinds import MessageKind
from fedstep.core.vec import Scalar, State, Vec
from fedstep.execute.base import Executor
from fedstep.execute.sequential import Sequential
from fedstep.execute.store import Store
from fedstep.execute.task import Task
from fedstep.steps.rule import Outcome, Phi, StepRule


@dataclass(frozen=True)
class NotedStep:
    """One local step: the batch's function, where it was taken, and what was found."""

    phi: Phi  # the batch's function
    x: Vec  # before the step
    f: Scalar  # phi(x)
    g: Vec  # its gradient
    d: Vec  # direction
    out: Outcome


@dataclass(frozen=True)
class Watched(StepRule):
    """Another rule, and a note of every step."""

    rule: StepRule
    notes: list[NotedStep]  # appended to
    carry: bool = False  # that of the rule, which the solver asks for

    @staticmethod
    def of(rule: StepRule, notes: list[NotedStep]) -> Watched:
        return Watched(rule, notes, rule.carry)

    def init(self, x: Vec) -> dict[str, Tensor]:
        return self.rule.init(x)

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        return self.rule.shared_init(x)

    def begin(
        self,
        x: Vec,
        shared: State,
        memory: State,
    ) -> dict[str, Tensor]:
        return self.rule.begin(x, shared, memory)

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, dict[str, Tensor]]:
        out, after = self.rule.search(
            phi,
            x,
            f,
            g,
            d,
            state,
        )
        self.notes.append(
            NotedStep(
                phi=phi,
                x=x,
                f=f,
                g=g,
                d=d,
                out=out,
            )
        )
        return out, after

    def message(self, state: State) -> dict[str, Tensor]:
        return self.rule.message(state)

    def message_kinds(self) -> dict[str, MessageKind]:
        return self.rule.message_kinds()

    def received(
        self,
        message: State,
        shared: State,
    ) -> State:
        return self.rule.received(message, shared)

    def fold(
        self,
        shared: State,
        message: State,
        agg: Aggregate,
    ) -> dict[str, Tensor]:
        return self.rule.fold(shared, message, agg)


@dataclass(frozen=True)
class Watching(Executor):
    """An executor that runs the clients of some rounds one by one and shows their steps.

    The others as the inner one does.
    """

    inner: Executor
    rounds: frozenset[int]  # that are watched
    show: Callable[[int, Broadcast, list[NotedStep]], None]  # client, what it was sent, its steps

    def __call__(
        self,
        task: Task,
        sent: Broadcast,
        cohort: Sequence[int],
        store: Store,
        probe: bool = False,
    ) -> Iterator[Update]:
        if probe or sent.round not in self.rounds:
            yield from self.inner(
                task,
                sent,
                cohort,
                store,
                probe,
            )
            return
        # one by one: in a block the notes of several clients would be one tensor
        for client in cohort:
            notes: list[NotedStep] = []
            step = Watched.of(task.algorithm.local.step, notes)
            local = replace(task.algorithm.local, step=step)
            algorithm = replace(task.algorithm, local=local)
            watched = replace(task, algorithm=algorithm)
            yield from Sequential()(
                watched,
                sent,
                [client],
                store,
            )
            self.show(client, sent, notes)
