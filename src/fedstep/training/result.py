"""What `fit` returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from fedstep.algorithm import Algorithm, Server
from fedstep.core.errors import InputError
from fedstep.core.vec import Vec
from fedstep.data.lazy import Collate
from fedstep.data.plan import Plan
from fedstep.models.flat import FlatModel
from fedstep.report.figures import chart_row
from fedstep.report.report import run_charts, write_report
from fedstep.run.columns import metric_infos
from fedstep.run.history import Run
from fedstep.run.privacy import privacy_notes
from fedstep.run.progress import summary
from fedstep.run.record import RoundReport

REPORT = "report.html"


@dataclass(frozen=True)
class Recipe:
    """How the run was made, as far as a further one needs it (`fine_tune`)."""

    algorithm: Algorithm
    flat: FlatModel
    plan: Plan
    collate: Collate | None


@dataclass(frozen=True)
class Fit:
    """A finished run."""

    name: str
    rows: list[RoundReport]
    server: Server
    model: nn.Module | None  # a trained copy in evaluation mode; None for a plain function
    settings: dict[str, Any]
    notes: tuple[str, ...] = ()  # what a user should know: how samples were read, what was warned
    recipe: Recipe | None = field(default=None, repr=False)  # None: read back from files
    # what `load` was given with the trained values in it, in the modes it had
    trainable: nn.Module | None = field(default=None, repr=False)

    @property
    def x(self) -> Vec:
        """The trained parameters as one flat vector."""
        return self.server.readout

    def report(self, path: str | Path = REPORT) -> Path:
        """Write a self-contained HTML page of the run and return its path."""
        title = f"{self.name}: a run of fedstep"
        lead = " ".join(self._privacy())
        return write_report(Path(path), title, [self.run], lead=lead, settings=self.settings)

    def _privacy(self) -> tuple[str, ...]:
        """What a run with noise has spent; nothing of others."""
        if self.recipe is None:
            return ()
        return privacy_notes(
            self.recipe.algorithm,
            clients=self.settings["clients"],
            per_round=self.settings["per_round"],
            rounds=len(self.rows),
        )

    def history(self) -> Any:
        """The rows as a pandas frame, a column for everything that a round reports."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise InputError(
                "pandas is not installed: pip install 'fedstep[pandas]'; `rows` needs none"
            ) from None
        flat_rows = []
        for row in self.rows:
            columns = row.to_dict()
            quantiles = columns.pop("steps")
            # one number a cell: a frame with lists in it cannot be drawn
            names = ("step_min", "step_q1", "step_median", "step_q3", "step_max")
            columns.update(zip(names, quantiles, strict=True))
            flat_rows.append(columns)
        return pandas.DataFrame(flat_rows).set_index("round")

    def plot(self, path: str | Path | None = None) -> Any:
        """Metric (or loss) and steps by round as a matplotlib figure, saved where a path is given."""
        return chart_row(run_charts(self.run), path)

    def save(self, folder: str | Path) -> Path:
        """Write the run into a new folder, as `fit(out=...)` does; `fedstep.load` reads it."""
        from fedstep.training.stored import save_result  # it needs this class

        return save_result(self, folder)

    @property
    def run(self) -> Run:
        """The rows under the method's name, as tables and reports take them."""
        rows = [row.to_dict() for row in self.rows]
        return Run(self.name, rows, metric_infos(self.settings))

    def __str__(self) -> str:
        last = self.rows[-1]
        lines = [f"{self.name}: {last.round} rounds, {summary(last)}"]
        lines.extend(self.notes)
        return "\n".join(lines)
