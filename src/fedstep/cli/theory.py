"""`fedstep theory`: the constants of the theorems along a run, their hypotheses, and how far the bounds are."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedstep.cli.study import find_study

if TYPE_CHECKING:
    from fedstep.analysis.grid import Grid


def register(commands: Any) -> None:
    """Add the command to the parser."""
    theory = commands.add_parser(
        "theory", help="measure a study's smoothness, noise and drift; which theorems hold"
    )
    theory.add_argument(
        "study", metavar="STUDY", help="a TOML file, or the name of one of the paper's studies"
    )
    theory.add_argument(
        "--method",
        action="append",
        default=[],
        metavar="LABEL",
        help="a label of the study, or a call (default: every line search)",
    )
    theory.add_argument(
        "--rounds", type=int, help="rounds to run (default: the study's, at most 30)"
    )
    theory.add_argument("--seed", type=int, help="seed (default: the study's first)")
    theory.add_argument(
        "--points", type=int, default=5, help="rounds that are looked into (default: 5)"
    )
    theory.add_argument(
        "--clients",
        type=int,
        default=64,
        help="clients that f is the mean of, at most (default: 64)",
    )
    theory.add_argument(
        "--scale", default="paper", help="paper (the default) or a scale of the file, such as small"
    )
    theory.add_argument(
        "--data", type=Path, help="directory of the data sets (default: FEDSTEP_DATA)"
    )
    theory.add_argument(
        "--out",
        type=Path,
        help="results directory (default: results/NAME, with the scale behind it)",
    )
    theory.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure, print the tables, write theory.json and theory.html."""
    from fedstep.analysis.theory.findings import finding_grids, finding_notes
    from fedstep.analysis.theory.study import chosen_methods, study_theory
    from fedstep.report.theory_page import write_findings
    from fedstep.run import progress
    from fedstep.study.study_file import read_study
    from fedstep.study.work import prepare

    study = read_study(find_study(options.study), options.scale)
    prepare(study)
    home = options.out or Path("results") / (
        study.name if study.scale == "paper" else f"{study.name}-{study.scale}"
    )
    found = study_theory(
        study,
        chosen_methods(study, options.method, home),
        study.seeds[0] if options.seed is None else options.seed,
        options.rounds,
        options.points,
        options.clients,
        options.data,
        lambda name, total, rows: progress.show(rows, total, name),
    )
    console = Console(highlight=False)
    for each in found:
        console.print(
            Text(f"{each.label}   {each.spec}, seed {each.seed}", style="bold"), soft_wrap=True
        )
        for grid in finding_grids(each):
            console.print(_table(grid))
            console.print()
        for note in finding_notes(each):
            console.print(note, style="dim", markup=False)
        console.print()
    for path in write_findings(home, study, found):
        console.print(f"{path.suffix[1:]}: {path}", soft_wrap=True, markup=False)


def _table(grid: Grid) -> Table:
    """The last column, and a first one of long names, are broken between words where the terminal is narrow."""
    table = Table(
        title=grid.title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    numbers = {"value", "at most", "measured", "ratio"}
    for i, head in enumerate(grid.heads):
        fixed = head in numbers or head in ("form", "holds") or (i == 0 and head != "bound")
        table.add_column(head, justify="right" if head in numbers else "left", no_wrap=fixed)
    for row in grid.rows:
        table.add_row(*map(Text, row))
    return table
