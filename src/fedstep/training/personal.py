"""Personal models: the trained one, taken further on one client's samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.corrections.base import Correction
from fedstep.server.codecs import Plain
from fedstep.server.guards import Open
from fedstep.server.readouts import Last
from fedstep.server.rules import Step
from fedstep.training.call import fit
from fedstep.training.result import Fit

STEPS = 100


def fine_tune(
    result: Fit,
    client: Any,
    steps: int = STEPS,
    *,
    test: Any = None,
    seed: int = 0,
    batch: int | None = None,
) -> Fit:
    """A model of one client's own: `steps` more steps from the trained one, by the same search.

    client: its samples, as one of `fit`'s clients. One row a round of the run's local steps; the
    last round has what is left. Nothing of other clients is used any more: no correction, and the
    server takes the client's model as it is.
    """
    # how the run was made: its plan, model and method, which files do not hold
    recipe = result.recipe
    if recipe is None:
        raise InputError(
            "fine_tune: fedstep.load does not know model, loss and method; "
            "make the call fit(..., out=...) again, which reads the run back"
        )
    if steps < 1:
        raise InputError(f"steps={steps}: give at least 1")
    # rounds as long as the run had, so that resets of the search come as often
    local_steps = min(steps, recipe.plan.steps or steps)
    return fit(
        recipe.flat.starting_at(result.x),
        [client],
        alone(recipe.algorithm),
        # rounded up
        rounds=-(-steps // local_steps),
        per_round=1,
        test=test,
        seed=seed,
        batch=batch or recipe.plan.batch,
        local_steps=local_steps,
        collate=recipe.collate,
        progress=False,
    )


def alone(algorithm: Algorithm) -> Algorithm:
    """The clients' half of a method: how far and which way they step."""
    return replace(
        algorithm,
        # of one client there is nothing to average, correct, pack or guard
        server=Step(),
        correction=Correction(),
        readout=Last(),
        codec=Plain(),
        guard=Open(),
    )
