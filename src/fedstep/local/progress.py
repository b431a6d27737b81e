"""Where clients stand: between two local steps, after one, and at the end of a round."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedstep.core.exchange import ClientMessage
from fedstep.core.nested import NestedState
from fedstep.core.vec import State, Vec
from fedstep.local.trace import StepRecord, Trace


@dataclass(frozen=True, eq=False)
class SolverState(NestedState):
    """What the parts of a solver remember from one local step to the next."""

    step: State
    direction: State
    move: State


@dataclass(frozen=True)
class LocalStep:
    """Where one local step led to."""

    x: Vec
    state: SolverState
    record: StepRecord
    # of the clients that took the step, where they looked it up; None where nobody asked for it
    gradient: Vec | None

    def placed(
        self,
        rows: Tensor,
        x: Vec,
        state: SolverState,
    ) -> LocalStep:
        """The block, before at x, after this step of some of its rows; the others stay."""
        return LocalStep(
            x=x.index_copy(0, rows, self.x),
            state=state.put(rows, self.state),
            record=self.record.of_rows(rows, len(x)),
            gradient=self.gradient,
        )


@dataclass(frozen=True)
class LocalRun:
    """Where a client has arrived at the end of its round, and how."""

    x: Vec
    trace: Trace
    step_memory: State  # what the step rule wants to find again in the client's next round
    message: ClientMessage
