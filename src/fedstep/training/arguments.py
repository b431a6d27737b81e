"""What a caller of `fit` may give, and what it comes to."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError, unknown
from fedstep.data.federation import Federation
from fedstep.data.gathering import Gathered, cast_to, gather
from fedstep.data.lazy import Collate, ReadSamples
from fedstep.data.plan import Plan
from fedstep.execute.base import Executor, Local
from fedstep.execute.choose import choose
from fedstep.execute.cohort import Cohort
from fedstep.execute.processes import Processes
from fedstep.execute.sequential import Sequential
from fedstep.models.flat import FlatModel
from fedstep.models.losses import GivenLoss, OwnLoss
from fedstep.models.module import ModuleModel
from fedstep.models.outputs import computes_own_loss, forward_parameters
from fedstep.models.standardize import Standardize, standardized
from fedstep.run.client_scores import ClientSamples
from fedstep.run.guarded import usually_guarded
from fedstep.run.identity import tensors_digest, text_digest, text_of
from fedstep.run.metrics.base import Metric
from fedstep.run.metrics.choose import GivenMetric, metrics_of
from fedstep.server.guards import Guard
from fedstep.server.weighting import BySamples, Equal, Weighting
from fedstep.spec import build

CUSTOM = "custom"  # the name of a run whose algorithm was not given as text
COHORT = 20  # clients a round where nothing is said
LOCAL_STEPS = 20
BATCH = 50
FINGERPRINT = 16  # samples that stand for all where they are read lazily
WEIGHTINGS: dict[str, Weighting] = {"equal": Equal(), "samples": BySamples()}


def name_of(algorithm: Algorithm | str) -> str:
    """What the run is called."""
    if isinstance(algorithm, str):
        return algorithm
    return CUSTOM


def algorithm_of(given: Any) -> Algorithm:
    """The algorithm, built from its spec where it is text."""
    if isinstance(given, str):
        return build(given)
    if not isinstance(given, Algorithm):
        raise InputError(
            f"algorithm is {given!r}: give a name such as 'fedpace', "
            "or call the constructor: zoo.fedpace()"
        )
    return given


def guarded(algorithm: Algorithm, guard: Any) -> Algorithm:
    """The algorithm with the guard that was asked for: True is the usual one, False none but its
    own.
    """
    if isinstance(guard, Guard):
        return replace(algorithm, guard=guard)
    if not isinstance(guard, bool):
        raise InputError(f"guard={guard!r}: give True, False or a guard such as NormLimit()")
    if guard:
        return usually_guarded(algorithm)
    return algorithm


def weighted(algorithm: Algorithm, weighting: str | None) -> Algorithm:
    """The algorithm with another weighting of clients; None: its own."""
    if weighting is None:
        return algorithm
    if weighting not in WEIGHTINGS:
        raise InputError(unknown("weighting", str(weighting), list(WEIGHTINGS)))
    return replace(algorithm, weighting=WEIGHTINGS[weighting])


def flat_model_of(model: Any, loss: GivenLoss) -> FlatModel:
    """The model as a function of one flat vector."""
    if isinstance(model, FlatModel):
        # a model learns about itself when it is run: the caller's stays as it is
        return copy.copy(model)
    if not isinstance(model, nn.Module):
        raise InputError(
            f"model is a {type(model).__name__}: give an nn.Module, or FunctionModel(loss, start)"
        )
    # its targets go into the model, which returns a loss: a second one would train something else
    if loss is None and computes_own_loss(model):
        return ModuleModel(model, OwnLoss())
    return ModuleModel(model, loss)


def refuse_second_loss(model: Any, loss: GivenLoss) -> None:
    """A model that is a function of a flat vector has its own loss."""
    if isinstance(model, FlatModel) and loss is not None:
        raise InputError(f"loss={loss!r}: this model has its own loss; leave `loss` out")


def accepted_names(flat: FlatModel) -> list[str] | None:
    """The parameters of the module's `forward`; None for a plain function."""
    if not isinstance(flat, ModuleModel):
        return None
    # *args and **kwargs accept anything, and so say nothing about names
    accepted = []
    for name, parameter in forward_parameters(flat.module).items():
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            accepted.append(name)
    return accepted


def samples_of(
    flat: FlatModel,
    clients: Any,
    scored: Mapping[str, Any],
    collate: Collate | None,
) -> Gathered:
    """Clients and scored sets, in the type that the model has."""
    gathered = gather(clients, scored, collate, accepted_names(flat))
    if isinstance(flat, ModuleModel):
        # as the model is: float64 inputs, as numpy makes them, are the usual first error
        gathered = cast_to(gathered, flat.layout.dtype)
    return gathered


def fitted(flat: FlatModel, federation: Federation, standardize: bool) -> FlatModel:
    """The model as it is called with these clients' samples, standardized where that is wanted."""
    if not isinstance(flat, ModuleModel):
        if standardize:
            raise InputError("standardize=True with a plain function: give an nn.Module")
        return flat
    if not standardize:
        flat.names = federation.names
        return flat
    if federation.names is not None:
        raise InputError(
            "standardize=True: the model is called by the names of columns; give arrays"
        )
    # of the clients alone: the test must not have a say in how it is scaled
    first = Standardize.of(federation, flat.layout.dtype)
    return ModuleModel(standardized(first, flat.module), flat.given_loss)


def scored_fields(samples: Gathered, name: str) -> tuple[Tensor, ...] | None:
    """The samples of a scored set; None where it was not given."""
    if name not in samples.scored:
        return None
    return samples.scored[name].fields


def client_samples(samples: Gathered, wanted: bool) -> ClientSamples | None:
    """What is scored client by client: the test samples of each, else its training samples."""
    if not wanted:
        return None
    test = samples.scored.get("test")
    if test is not None and test.parts is not None:
        return ClientSamples(test.fields, test.parts)
    federation = samples.federation
    return ClientSamples(federation.fields, federation.parts)


def data_settings(
    flat: FlatModel,
    samples: Gathered,
    collate: Collate | None,
    standardize: bool,
) -> dict[str, Any]:
    """What decides the numbers of a run besides what its simulation knows."""
    settings: dict[str, Any] = {"standardize": standardize}
    if isinstance(flat, ModuleModel):
        # layers without parameters too: the same weights behind another activation are another run
        settings["layers"] = text_digest(text_of(flat.module))
        loss: Any = flat.given_loss or "cross_entropy"
        if not isinstance(loss, str):
            settings["loss_settings"] = _settings_digest(loss)
            loss = text_of(getattr(loss, "__name__", loss))
        settings["loss"] = loss
    if collate is not None:
        settings["collate"] = text_of(getattr(collate, "__name__", collate))
    transform = samples.federation.transform
    if isinstance(transform, ReadSamples):
        # numbers of samples say nothing of the samples: the first ones stand for all
        numbers = samples.federation.fields[0][:FINGERPRINT]
        settings["samples_read"] = tensors_digest(transform((numbers,), None))
    return settings


def _settings_digest(loss: Any) -> str | None:
    """A hash of what a loss was made with; None of a function, which is known by its name alone."""
    if not isinstance(loss, nn.Module):
        return None
    # its repr leaves out most of it: CrossEntropyLoss(label_smoothing=0.1) is CrossEntropyLoss()
    plain = {}
    for name, value in vars(loss).items():
        # `training` is a mode, and no setting
        if name != "training" and isinstance(value, str | int | float | None):
            plain[name] = value
    tensors = tensors_digest(loss.state_dict().values())
    return text_digest(f"{sorted(plain.items())} {tensors}")


def weighting_note(algorithm: Algorithm) -> str:
    """Who counts how much, for the summary."""
    if isinstance(algorithm.weighting, BySamples):
        return "a client counts by its number of samples (weighting='equal' counts clients)"
    if isinstance(algorithm.weighting, Equal):
        return "every client counts the same (weighting='samples' counts samples)"
    return f"clients count by {algorithm.weighting!r}"


def plan_of(batch: int | None, local_steps: int | None, local_epochs: int | None) -> Plan:
    """Batches and local steps."""
    if local_steps is not None and local_epochs is not None:
        raise InputError(
            f"local_steps={local_steps} and local_epochs={local_epochs}: give one of them"
        )
    if local_steps is None and local_epochs is None:
        local_steps = LOCAL_STEPS
    if batch is None:
        batch = BATCH
    return Plan(batch, local_steps, local_epochs)


def cohort_size_of(per_round: int | None, federation: Federation) -> int:
    """Clients a round."""
    if per_round is None:
        return min(COHORT, len(federation))
    return per_round


def metrics_given(
    given: Sequence[GivenMetric] | None, measured_on: bool
) -> tuple[Metric, ...] | None:
    """What is measured; None: what is usual for such targets."""
    if given is None:
        return None
    metrics = metrics_of(given)
    if metrics and not measured_on:
        raise InputError(
            f"metrics={list(given)!r} and nothing to measure them on: give test=, validation=, "
            "or scoring=Scoring(clients=True)"
        )
    return metrics


def executor_of(
    given: Executor | None,
    workers: int,
    flat: FlatModel,
    federation: Federation,
) -> Executor:
    """Who runs the clients."""
    transform = federation.transform
    ragged = isinstance(transform, ReadSamples) and transform.ragged
    if ragged and isinstance(given, Cohort):
        raise InputError(
            "executor=Cohort(): batches made by collate may differ in shape and cannot be stacked; "
            "leave `executor` out"
        )
    # batches of unequal shape cannot be stacked into a block
    if given is None and ragged:
        given = Sequential()
    if given is None:
        given = choose(flat)
    if workers == 1:
        return given
    if not isinstance(given, Local):
        raise InputError(
            f"workers={workers}: this executor runs in one place; leave `workers` or `executor` out"
        )
    return Processes(given, workers)


def wants_progress(progress: bool | None) -> bool:
    """Whether to show progress: by default on a terminal only."""
    if progress is None:
        return sys.stderr.isatty()
    return progress
