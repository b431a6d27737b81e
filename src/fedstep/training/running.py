"""A call of `fit` after its arguments have been understood: in memory, or in a folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fedstep.algorithm import Server
from fedstep.callbacks.base import Callback, RoundEnd, RunStart
from fedstep.core.errors import InputError
from fedstep.execute.store import DiskStore, Store, lives_on_disk
from fedstep.execute.task import Task
from fedstep.models.module import ModuleModel
from fedstep.report.render import page_if_possible
from fedstep.run.columns import metric_infos
from fedstep.run.driver import RunFolder, Series, opened, program_versions
from fedstep.run.folder import SPEC
from fedstep.run.identity import data_identity, identity
from fedstep.run.record import RoundReport
from fedstep.run.scratch import scratch_folder
from fedstep.run.simulate import Simulation
from fedstep.training.early import EarlyWarnings
from fedstep.training.result import REPORT, Fit, Recipe


@dataclass
class Training:
    """One run, and who looks on."""

    name: str
    simulation: Simulation
    rounds: int
    recipe: Recipe
    identity: Mapping[str, Any]  # what decides the numbers besides what a simulation knows
    notes: tuple[str, ...]
    callbacks: Sequence[Callback]
    early: EarlyWarnings
    stopped: str | None = field(default=None, init=False)  # why a callback ended the run

    def run(self, out: str | Path | None, resume: bool) -> Fit:
        """Train, with or without a folder, and tell everybody how it ended."""
        if out is None:
            result = self._in_memory()
        else:
            with opened(Path(out)) as folder:
                result = self._in_folder(folder, resume)
        for callback in self.callbacks:
            callback.end(result)
        return result

    def _in_memory(self) -> Fit:
        """Nothing is written but the memories of clients that do not fit into this process."""
        # the number of rounds belongs to the state: readouts and schedules plan with it
        server = self.simulation.begin(self.rounds)
        rows: list[RoundReport] = []
        settings = {
            "method": self.name,
            **identity(self.simulation, self.rounds),
            # not the hashes of all samples: nobody goes on with a run that is in memory
            **self.identity,
            "versions": program_versions(),
        }
        self._start(settings, None, [])
        with _memories(self.simulation.task) as store:
            series = self.simulation.run(server, store, self.rounds)
            for after_round, row in self._watched(series):
                server = after_round
                rows.append(row)
        return self._result(rows, server, settings)

    def _in_folder(self, folder: RunFolder, resume: bool) -> Fit:
        """From where the last call stopped to the finished mark; a finished run is read back."""
        if not resume and (folder.path / SPEC).exists():
            raise InputError(
                f"{folder.path}: there is a run already; resume=True goes on with it, "
                "or choose another directory"
            )
        run_identity = {
            **identity(self.simulation, self.rounds),
            **data_identity(self.simulation),
            **self.identity,
        }
        # before asking whether it is finished: the finished run of somebody else is not ours
        settings = folder.identify(run_identity, about={"method": self.name})
        page = folder.path / REPORT

        def watched(series: Series) -> Series:
            # begun by the first round that is asked for: the journal has been cut by then
            self._start(settings, folder.path, folder.rows())
            yield from self._watched(series)

        if folder.is_finished(self.rounds):
            server = folder.finished_server()
            self._start(settings, folder.path, folder.rows())
        else:
            # a page of the run before it was damaged, or of a call that was interrupted
            page.unlink(missing_ok=True)
            server = folder.complete(
                self.simulation,
                self.rounds,
                model_of=self._model_tensors,
                watch=watched,
            )
        result = self._result(folder.rows(), server, settings)
        # always: nothing says whether one that is there is whole
        with page_if_possible():
            result.report(page)
        for note in folder.notes:
            warnings.warn(note, stacklevel=5)
        return result

    def _start(
        self,
        settings: Mapping[str, Any],
        folder: Path | None,
        earlier: Sequence[RoundReport],
    ) -> None:
        # one object for all callbacks: what one of them needs more is a field, no new argument
        run = RunStart(
            name=self.name,
            rounds=self.rounds,
            settings=settings,
            metrics=metric_infos(settings),
            folder=folder,
            earlier=earlier,
            notes=self.notes,
        )
        for callback in (self.early, *self.callbacks):
            callback.start(run)

    def _watched(self, series: Series) -> Series:
        """Every round is shown to the callbacks, the last of which may be the last round."""
        for server, row in series:
            # the model is made when somebody asks for it: most callbacks do not
            moment = RoundEnd(row, self.rounds, server, self._module, self._model_tensors)
            for callback in (self.early, *self.callbacks):
                callback.round(moment)
            yield server, row
            if moment.reason is not None and not moment.last:
                self.stopped = moment.reason
                return

    def _module(self, server: Server) -> nn.Module | None:
        """The trained module; None for a plain function."""
        if isinstance(self.recipe.flat, ModuleModel):
            return self.recipe.flat.load(server.readout)
        return None

    def _model_tensors(self, server: Server) -> dict[str, Tensor]:
        """What model.safetensors holds: what the user's module loads, or the flat vector."""
        module = self._module(server)
        if module is None:
            return {"x": server.readout}
        return module.state_dict()

    def _result(
        self,
        rows: list[RoundReport],
        server: Server,
        settings: Mapping[str, Any],
    ) -> Fit:
        # what was warned of stays with the result, for whoever opens it later
        notes = [*self.notes, *self.early.said]
        if len(rows) < self.rounds:
            reason = self.stopped or "as it was asked to"
            notes.append(f"stopped after round {len(rows)} of {self.rounds}: {reason}")
        return Fit(
            name=self.name,
            rows=rows,
            server=server,
            model=self._module(server),
            settings=dict(settings),
            notes=tuple(notes),
            recipe=self.recipe,
        )


@contextmanager
def _memories(task: Task) -> Iterator[Store]:
    """Clients' memories of a run that leaves nothing behind."""
    if not lives_on_disk(task):
        yield Store()
        return
    with scratch_folder() as folder:
        yield DiskStore(folder=folder / "memories", history=False)
