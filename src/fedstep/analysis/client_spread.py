"""How the clients of a study fare one by one, measured on the models of its finished runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch

from fedstep.analysis.results import LabelledRun, labelled_runs
from fedstep.analysis.statistics import Spread
from fedstep.run.client_scores import ClientSamples, client_values, spread_columns
from fedstep.run.columns import MetricInfo, metric_infos
from fedstep.run.files import file_sha256, read_sealed, write_sealed
from fedstep.run.folder import MODEL
from fedstep.study.kept import finished, folder_of
from fedstep.study.plan import Job
from fedstep.study.work import simulation

CLIENTS = "clients.json"

# mean, worst tenth and standard deviation over clients, and how many clients there are
ClientScores = Mapping[str, float]


@dataclass(frozen=True)
class MethodSpread:
    """A method's clients over its seeds."""

    label: str
    seeds: int
    clients: int
    mean: Spread
    worst: Spread  # the mean of the worst tenth
    deviation: Spread


@dataclass(frozen=True)
class MeasuredClients:
    """What is known of a study's clients."""

    methods: tuple[MethodSpread, ...]
    metric: MetricInfo
    without_model: int  # runs that are finished and whose models are not here


@dataclass(frozen=True)
class Noted:
    """What was measured before, by the digest of the run."""

    scores: dict[str, ClientScores]
    models: dict[str, str]  # the hash of the model that was scored

    @staticmethod
    def read(home: Path) -> Noted:
        path = home / CLIENTS
        if not path.exists():
            return Noted({}, {})
        fields = read_sealed(path, ("runs",))
        # an earlier version did not note them: those models are scored again if they are here
        return Noted(fields["runs"], fields.get("models", {}))

    def write(self, home: Path) -> None:
        write_sealed(home / CLIENTS, {"runs": self.scores, "models": self.models})


def read_client_scores(home: Path) -> dict[str, ClientScores]:
    """What was measured before, by the digest of the run."""
    return Noted.read(home).scores


def measure_clients(
    home: Path,
    data: Path | None,
    tell: Callable[[str], None],
) -> MeasuredClients:
    """Score the clients of every finished run whose model is kept, and note it in clients.json.

    Each client is scored on its own training samples, those that seldom took part among them.
    """
    noted = Noted.read(home)
    runs = labelled_runs(home)
    without_model = 0
    for run in runs:
        job = run.job
        if not run.stored.done:
            continue
        # a compact file holds the rows of a run and not its model
        if not finished(job, home):
            without_model += job.digest not in noted.scores
            continue
        model = file_sha256(folder_of(job, home) / MODEL)
        # the digest names settings: another version may have made another model of them
        if noted.models.get(job.digest) == model:
            continue
        tell(f"{run.label}, seed {job.seed}")
        noted.scores[job.digest] = _scores_of(job, home, data)
        noted.models[job.digest] = model
        # after every run: whoever interrupts it loses one
        noted.write(home)
    return MeasuredClients(
        methods=_by_method(runs, noted.scores),
        metric=_metric_of(runs),
        without_model=without_model,
    )


def _scores_of(job: Job, home: Path, data: Path | None) -> ClientScores:
    made, split = simulation(job, data)
    federation = split.federation
    metric = None
    if made.measured:
        metric = made.measured[0]
    # `finished` has compared its hash
    tensors = safetensors.torch.load_file(folder_of(job, home) / MODEL)
    model = made.task.model
    values = client_values(
        model.evaluating(),
        tensors["readout"].to(model.init().device),
        ClientSamples(federation.fields, federation.parts),
        federation.transform,
        metric,
    )
    return {"clients": len(values), **spread_columns(values, metric)}


def _by_method(
    runs: Sequence[LabelledRun],
    scores: Mapping[str, ClientScores],
) -> tuple[MethodSpread, ...]:
    """In the order of the study."""
    by_label: dict[str, list[ClientScores]] = {}
    for run in runs:
        known = scores.get(run.job.digest)
        if known is not None:
            by_label.setdefault(run.label, []).append(known)
    return tuple(method_spread(label, known) for label, known in by_label.items())


def method_spread(label: str, scores: Sequence[ClientScores]) -> MethodSpread:
    """The clients of a method, mean and deviation over seeds."""
    return MethodSpread(
        label=label,
        seeds=len(scores),
        clients=int(scores[0]["clients"]),
        mean=_spread_of("mean_", scores),
        worst=_spread_of("worst_", scores),
        deviation=_spread_of("spread_", scores),
    )


def _spread_of(prefix: str, scores: Sequence[ClientScores]) -> Spread:
    values = []
    for of_run in scores:
        values += [value for name, value in of_run.items() if name.startswith(prefix)]
    return Spread.of(values)


def _metric_of(runs: Sequence[LabelledRun]) -> MetricInfo:
    """What clients are compared by: the study's first metric, or their loss where it has none."""
    for run in runs:
        for metric in metric_infos(run.stored.spec):
            return metric
    return MetricInfo("client_loss", higher_is_better=False)
