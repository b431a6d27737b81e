"""The server's half as a Flower Strategy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from logging import INFO
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from torch import nn
from torch.nn import functional

from fedstep.algorithm import Algorithm, Server
from fedstep.core.errors import InputError
from fedstep.execute.processes import one_thread
from fedstep.execute.store import Store
from fedstep.flower.between_rounds import (
    EvaluateFn,
    RoundWatch,
    model_arrays,
    model_from,
    model_state,
    start_command,
)
from fedstep.flower.courier import GridCourier
from fedstep.flower.evaluation import ClientEvaluation
from fedstep.flower.secure import (
    SecureDeployment,
    refuse_known_noise,
    refuse_memory,
    sealable,
)
from fedstep.models.flat import FlatModel
from fedstep.remote.deployment import Deployment
from fedstep.remote.enrol import Registry
from fedstep.remote.order import RunSettings, client_half, run_name
from fedstep.remote.patience import Patience
from fedstep.remote.roster import model_digest
from fedstep.report.render import page_if_possible
from fedstep.report.report import write_report
from fedstep.run.driver import RunFolder, opened
from fedstep.run.history import Run
from fedstep.run.privacy import privacy_notes
from fedstep.run.record import RoundReport
from fedstep.server.guards import Guard
from fedstep.training.arguments import (
    COHORT,
    algorithm_of,
    flat_model_of,
    guarded,
    name_of,
    plan_of,
    weighted,
)

REPORT = "report.html"


class FedStep(Strategy):
    """Any method of fedstep over Flower: `FedStep("fedexpsls", Net(), per_round=10)`.

    The clients run `fedstep.flower.client_app`. The bits are those of
    `fit(executor=Sequential())` with the same settings, in simulation, in deployment and on a
    `LocalGrid`.

    algorithm: a name or spec, or an Algorithm (then the clients are given it too). clients: how
    many there are in all, 0 to clients - 1; without it as many as answer at the start. per_round,
    batch, local_steps, local_epochs, weighting, guard, seed: as in `fit`. timeout: seconds a node has for a round.
    quorum: the part of a cohort that must answer usefully; the round is asked for three times, then
    the run stops and can be resumed. patience: seconds that all clients have to appear. out: a
    folder; a run that was killed goes on from there, a finished one is read back. trace=False: no
    losses and step sizes of single steps leave a client. forget=True: a client whose node lost its
    memory begins afresh. secure=True: masked sums alone (Flower's SecAgg+), with
    `client_app(make, secure=True)`; no guard, no trace. fraction_evaluate: as in Flower's FedAvg.
    """

    def __init__(
        self,
        algorithm: str | Algorithm,
        model: nn.Module | FlatModel,
        *,
        clients: int | None = None,
        per_round: int | None = None,
        seed: int = 0,
        batch: int = 50,
        local_steps: int | None = None,
        local_epochs: int | None = None,
        weighting: Any = None,
        guard: Guard | bool = True,
        timeout: float = 3600.0,
        quorum: float = 0.5,
        patience: float = 300.0,
        out: str | Path | None = None,
        trace: bool = True,
        forget: bool = False,
        secure: bool = False,
        fraction_evaluate: float = 1.0,
    ) -> None:
        self.name = name_of(algorithm)
        self.algorithm = guarded(weighted(algorithm_of(algorithm), weighting), guard)
        refuse_known_noise(self.algorithm.guard)
        self.secure = secure
        if secure:
            self.algorithm = sealable(self.algorithm, guard)
            trace = False
        # clients build it from the text; without one they must have been given the algorithm
        self.method = ""
        if isinstance(algorithm, str):
            self.method = algorithm
        self.model = flat_model_of(model, functional.cross_entropy)
        self.clients = clients
        self.per_round = per_round
        self.seed = seed
        self.plan = plan_of(batch, local_steps, local_epochs)
        self.replies = Patience(timeout, quorum)
        self.patience = patience
        self.out = out
        self.trace = trace
        self.forget = forget
        self.evaluation = ClientEvaluation(fraction_evaluate, seed)
        self.rows: list[RoundReport] = []  # of the run, after `start`
        self.server: Server | None = None  # after the last round
        self.refusals: list[str] = []  # a line for every reply that was not used

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 3,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Train, with Flower's own arguments; `train_config` is not sent, clients do not need it.

        Flower's loop is not used: a round may take several exchanges (probes, a missed quorum),
        and a run that was killed begins in the middle.
        """
        if num_rounds < 1:
            raise InputError(f"num_rounds={num_rounds}: give at least 1")
        if timeout is not None:
            self.replies = replace(self.replies, timeout=timeout)
        model = model_from(self.model, initial_arrays)
        courier = GridCourier(grid)
        # all that is Flower's stays in it: the loop below is that of `fit`
        watch = RoundWatch(
            self,
            model,
            grid,
            evaluate_config or ConfigRecord(),
            evaluate_fn,
            self.replies.timeout,
        )
        # as `fit` does: the bits of a sum may depend on the number of threads
        with one_thread():
            if self.out is None:
                # another name every time: nodes may hold memories of a run that ended
                deployment = self._deployment(courier, model, uuid4().hex)
                self._in_memory(deployment, num_rounds, watch)
            else:
                with opened(Path(self.out)) as folder:
                    self._in_folder(folder, courier, model, num_rounds, watch)
        assert self.server is not None
        watch.result.arrays = model_arrays(model, self.server)
        return watch.result

    def _in_memory(self, deployment: Deployment, rounds: int, watch: RoundWatch) -> None:
        self.rows = []
        self.refusals = deployment.refusals
        before = deployment.begin(rounds)
        watch.begin(before)
        for server, row in watch(deployment.run(before, Store(), rounds)):
            self.rows.append(row)
            self.server = server

    def _in_folder(
        self,
        folder: RunFolder,
        courier: GridCourier,
        model: FlatModel,
        rounds: int,
        watch: RoundWatch,
    ) -> None:
        # after every round: nodes keep no older memories than those of the round under way
        folder.checkpoint_share = inf
        deployment = self._deployment(courier, model, run_name(folder.path))
        self.refusals = deployment.refusals
        settings = folder.identify(deployment.identity(rounds), about={"method": self.name})
        if folder.is_finished(rounds):
            self.server = folder.finished_server()
        else:
            watch.begin(deployment.begin(rounds))
            self.server = folder.complete(
                deployment,
                rounds,
                model_of=lambda server: model_state(model, server),
                watch=watch,
            )
        for note in folder.notes:
            log(INFO, "%s", note)
        self.rows = folder.rows()
        run = Run(self.name, [row.to_dict() for row in self.rows])
        title = f"{self.name}: a run of fedstep over Flower"
        lead = " ".join(self._privacy(deployment, rounds))
        command = start_command(self.method, settings)
        page = folder.path / REPORT
        with page_if_possible():
            write_report(page, title, [run], lead=lead, command=command, settings=settings)

    def _privacy(self, deployment: Deployment, rounds: int) -> tuple[str, ...]:
        """What a run with noise has spent; nothing of others."""
        clients = len(deployment.registry.roster.samples)
        return privacy_notes(self.algorithm, clients, deployment.per_round, rounds)

    def _deployment(self, courier: GridCourier, model: FlatModel, run: str) -> Deployment:
        registry = Registry(
            courier=courier,
            model=model_digest(model),
            clients=self.clients,
            timeout=self.replies.timeout,
            patience=self.patience,
        )
        # the clients know what their targets are, the server has none
        algorithm = self.algorithm.suited(model, registry.gather())
        if algorithm.correction.embeds:
            model = model.embedding()
        population = len(registry.roster.samples)
        per_round = self.per_round
        if per_round is None:
            per_round = min(COHORT, population)
        if not 1 <= per_round <= population:
            raise InputError(
                f"per_round={per_round}: there are {population} clients; give 1 to {population}"
            )
        settings = RunSettings(
            run=run,
            method=self.method,
            algorithm=client_half(algorithm),
            seed=self.seed,
            plan=self.plan,
            trace=self.trace,
        )
        kind = Deployment
        if self.secure:
            refuse_memory(algorithm, model.init())
            kind = SecureDeployment
        return kind(
            algorithm,
            model,
            settings,
            registry,
            courier,
            per_round,
            patience=self.replies,
            forget=self.forget,
        )

    def summary(self) -> None:
        """Log what this strategy is."""
        log(INFO, "\t├──> fedstep: %s", self.name)
        log(INFO, "\t├──> clients a round: %s, seed %d", self.per_round, self.seed)
        log(
            INFO,
            "\t└──> timeout %g s, quorum %g, out %s",
            self.replies.timeout,
            self.replies.quorum,
            self.out,
        )

    def configure_train(self, *_: Any, **__: Any) -> Iterable[Message]:
        """Not a way in: see `start`."""
        raise NotImplementedError("FedStep.start runs the rounds: a round may take two exchanges")

    def aggregate_train(self, *_: Any, **__: Any) -> Any:
        """Not a way in: see `start`."""
        raise NotImplementedError("FedStep.start runs the rounds: a round may take two exchanges")

    def configure_evaluate(
        self,
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Grid,
    ) -> Iterable[Message]:
        return self.evaluation.messages(server_round, arrays, config, grid)

    def aggregate_evaluate(
        self,
        server_round: int,
        replies: Iterable[Message],
    ) -> MetricRecord | None:
        return self.evaluation.mean(server_round, replies)
