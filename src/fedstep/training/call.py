"""`fit`: from what the caller gives to a finished run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedstep.algorithm import Algorithm
from fedstep.callbacks.base import Callback, RoundEnd, callbacks_of
from fedstep.callbacks.progress import Progress
from fedstep.core.errors import InputError
from fedstep.data.lazy import Collate
from fedstep.execute.base import Executor
from fedstep.execute.processes import one_thread
from fedstep.execute.task import Task
from fedstep.models.flat import FlatModel
from fedstep.models.losses import GivenLoss
from fedstep.models.vmap_hints import without_vmap_hints
from fedstep.run.devices import placed
from fedstep.run.metrics.choose import GivenMetric
from fedstep.run.privacy import privacy_notes
from fedstep.run.record import RoundReport
from fedstep.run.simulate import Simulation
from fedstep.server.guards import Guard
from fedstep.training.arguments import (
    algorithm_of,
    client_samples,
    cohort_size_of,
    data_settings,
    executor_of,
    fitted,
    flat_model_of,
    guarded,
    metrics_given,
    name_of,
    plan_of,
    refuse_second_loss,
    samples_of,
    scored_fields,
    wants_progress,
    weighted,
    weighting_note,
)
from fedstep.training.early import EarlyWarnings
from fedstep.training.first_pass import fitting
from fedstep.training.result import Fit, Recipe
from fedstep.training.running import Training
from fedstep.training.scoring import Scoring


class OnRound(Callback):
    """A function of the report of every round."""

    def __init__(self, function: Callable[[RoundReport], None]) -> None:
        self.function = function

    def round(self, moment: RoundEnd) -> None:
        self.function(moment.report)


def fit(
    model: nn.Module | FlatModel,
    clients: Any,
    algorithm: Algorithm | str = "fedpace",
    rounds: int = 100,
    per_round: int | None = None,
    *,
    # what is learnt from
    loss: GivenLoss = None,
    collate: Collate | None = None,
    standardize: bool = False,
    # how a client trains, and how much it counts
    batch: int | None = None,
    local_steps: int | None = None,
    local_epochs: int | None = None,
    weighting: str | None = None,
    guard: Guard | bool = True,
    # what is measured
    test: Any = None,
    validation: Any = None,
    metrics: Sequence[GivenMetric] | None = None,
    every: int = 1,
    scoring: Scoring = Scoring(),
    # the run, its files and who looks on
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = True,
    callbacks: Sequence[Callback | Callable[[RoundEnd], None]] = (),
    on_round: Callable[[RoundReport], None] | None = None,
    progress: bool | None = None,
    # who computes
    executor: Executor | None = None,
    workers: int = 1,
    device: str | torch.device | None = None,
) -> Fit:
    """Train over clients; nothing is changed in what is passed in.

    model: any nn.Module, a Hugging Face model, or a FunctionModel. clients: a list (or dict) with
    the samples of each: `(inputs, targets)`, a dict of arrays, a Dataset, a `datasets.Dataset`, a
    list of samples; or what `fedstep.data.clients_from` makes of a table. Samples that are random
    or larger than 1 GiB are read a batch at a time. algorithm: a name or spec such as
    "fedexpsls(c=0.1)", or an Algorithm. per_round: clients a round, 20 or all by default.

    What is learnt from. loss: "cross_entropy" (the default), "mse", "bce", "l1", "huber", "nll"; a
    class or module such as nn.MSELoss; a function of (predictions, targets), or of (output, batch) if its second argument is
    called so. A model that takes `labels` computes its own. collate: makes a batch of a list of
    samples, such as `fedstep.data.Pad()`. standardize: put a layer in front of the model that gives
    all columns mean 0 and variance 1 over all clients.

    How a client trains. batch: samples a step (50). local_steps: mini-batch steps a client takes in
    a round (20), or local_epochs. weighting: "equal" (every client counts the same, which is usual)
    or "samples". guard: what keeps one client from taking the model; True is `NormLimit()` where
    the algorithm has no guard of its own (docs/trust.md), False is the algorithm as it is.

    What is measured. test: as one client's samples, or a list with one set for each client.
    validation: the same, apart from the test: what callbacks choose by. metrics: names such as
    "accuracy" or "top_k(k=5)", metrics, or functions of (predictions, targets) that give a value a
    sample; the first is compared and drawn; by default accuracy for classes, squared error and R2
    for numbers. every: rounds between evaluations. scoring: further evaluations, `Scoring(
    clients=True)` for the spread over clients.

    The run. out: a directory for it, which `fedstep report`, `compare` and `export` open. A call that
    was interrupted goes on from there when it is made again, to the same bits; one that was finished
    is read back. resume=False refuses a folder that has a run. callbacks: such as
    `fedstep.callbacks.EarlyStopping()`, or functions of a RoundEnd (its report, its model,
    `stop(reason)`); on_round: a function of the report alone. progress: by default on a terminal.

    Who computes. workers: processes that share the clients of a round, one torch thread each; the
    results do not depend on their number. executor: another way to run them. device: such as
    "cuda"; by default `FEDSTEP_DEVICE`, else that of the model.
    """
    # what costs nothing to check comes first: a misspelt name must not wait for the data
    method = guarded(weighted(algorithm_of(algorithm), weighting), guard)
    refuse_second_loss(model, loss)
    flat = flat_model_of(model, loss)
    scored = {"test": test, "validation": validation, "heldout": scoring.heldout}
    samples = samples_of(flat, clients, scored, collate)
    federation = samples.federation
    flat = placed(fitted(flat, federation, standardize), device)
    samples = fitting(flat, samples)
    federation = samples.federation
    plan = plan_of(batch, local_steps, local_epochs)
    if rounds < 1:
        raise InputError(f"rounds={rounds}: give at least 1")
    with without_vmap_hints():
        simulation = Simulation(
            task=Task(method, flat, federation, plan, seed),
            per_round=cohort_size_of(per_round, federation),
            executor=executor_of(executor, workers, flat, federation),
            test=scored_fields(samples, "test"),
            every=every,
            metrics=metrics_given(metrics, bool(samples.scored) or scoring.clients),
            validation=scored_fields(samples, "validation"),
            heldout=scored_fields(samples, "heldout"),
            by_client=client_samples(samples, scoring.clients),
        )
    # the bar comes last: what another callback prints stands above it
    looking_on = callbacks_of(callbacks)
    if on_round is not None:
        looking_on.append(OnRound(on_round))
    bar = Progress()
    if wants_progress(progress):
        looking_on.append(bar)
    training = Training(
        name=name_of(algorithm),
        simulation=simulation,
        rounds=rounds,
        recipe=Recipe(method, flat, plan, collate),
        identity=data_settings(flat, samples, collate, standardize),
        notes=(
            *federation.notes,
            weighting_note(method),
            *privacy_notes(method, len(federation), simulation.per_round, rounds),
        ),
        callbacks=looking_on,
        early=EarlyWarnings(simulation, batch_given=batch is not None),
    )
    try:
        with one_thread(), without_vmap_hints(), simulation.executor:
            return training.run(out, resume)
    finally:
        # also where the run was interrupted: a live line must not stay on the terminal
        bar.close()
