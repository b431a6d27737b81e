"""Personal models: the trained one, taken further on one client's samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.corrections.base import Correction
from fedstep.data.lazy import Collate
from fedstep.data.plan import Plan
from fedstep.models.losses import NAMED, GivenLoss, OwnLoss
from fedstep.server.codecs import Plain
from fedstep.server.guards import Open
from fedstep.server.readouts import Last
from fedstep.server.rules import Step
from fedstep.training.arguments import CUSTOM, algorithm_of, flat_model_of
from fedstep.training.call import fit
from fedstep.training.result import Fit, Recipe

STEPS = 100


def fine_tune(
    result: Fit,
    client: Any,
    steps: int = STEPS,
    *,
    test: Any = None,
    seed: int = 0,
    batch: int | None = None,
    algorithm: Algorithm | str | None = None,
    loss: GivenLoss = None,
    collate: Collate | None = None,
) -> Fit:
    """A model of one client's own: `steps` more steps from the trained one, by the same search.

    client: its samples, as one of `fit`'s clients. One row a round of the run's local steps; the
    last round has what is left. Nothing of other clients is used any more: no correction, and the
    server takes the client's model as it is.
    algorithm, loss, collate: as of `fit`, where the files of `fedstep.load(folder, model)` cannot
    hold what the run had: a method without a name, a function.
    """
    if steps < 1:
        raise InputError(f"steps={steps}: give at least 1")
    recipe = result.recipe
    if recipe is None:
        recipe = _recipe_of_files(result, algorithm, loss, collate)
    elif algorithm is not None or loss is not None or collate is not None:
        raise InputError(
            "fine_tune: this result knows its algorithm, loss and collate; leave them out"
        )
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


def _recipe_of_files(
    result: Fit,
    algorithm: Algorithm | str | None,
    loss: GivenLoss,
    collate: Collate | None,
) -> Recipe:
    """How the run was made, from its settings and from what files cannot hold."""
    if result.trainable is None:
        raise InputError(
            "fine_tune: the files hold no architecture; give it: fedstep.load(folder, model=...)"
        )
    settings = result.settings
    if algorithm is None:
        algorithm = result.name
        if algorithm == CUSTOM:
            raise InputError("fine_tune: the run's method has no name; give algorithm=...")
    # padded by another rule the samples would be others
    if collate is None and "collate" in settings:
        raise InputError(
            f"fine_tune: the run had collate={settings['collate']}; give collate=... again"
        )
    if loss is None:
        loss = _loss_of_files(settings)
    return Recipe(
        algorithm=algorithm_of(algorithm),
        flat=flat_model_of(result.trainable, loss),
        plan=Plan(settings["batch"], settings["steps"], settings["epochs"]),
        collate=collate,
    )


def _loss_of_files(settings: Mapping[str, Any]) -> GivenLoss:
    """The loss that the settings name; one that is a function has to be given again."""
    # the name of a function stands there in quotes
    name = str(settings.get("loss")).strip("'")
    if name == repr(OwnLoss()):
        return OwnLoss()
    if name in NAMED:
        return name
    raise InputError(f"fine_tune: the run's loss was {name}; give loss=... as to fit")
