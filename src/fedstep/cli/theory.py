"""`fedstep theory`: the constants of the theorems along a run, their hypotheses, and how far the
bounds are.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from fedstep.cli.options import add_data, add_json, add_results, add_study, print_json
from fedstep.cli.study import default_home, find_study
from fedstep.run.terminal import console

if TYPE_CHECKING:
    from fedstep.analysis.grid import Grid
    from fedstep.analysis.theory.findings import Finding

NUMBERS = ("value", "at most", "measured", "ratio")  # columns of the tables


def register(commands: Any) -> None:
    """Add the command to the parser."""
    theory = commands.add_parser(
        "theory",
        help="measure a study's smoothness, noise and drift; which theorems hold",
    )
    add_study(theory)
    theory.add_argument(
        "--method",
        action="append",
        default=[],
        metavar="LABEL",
        help="a label of the study, or a call (default: every line search)",
    )
    theory.add_argument(
        "--rounds",
        type=int,
        help="rounds to run (default: the study's, at most 30)",
    )
    theory.add_argument("--seed", type=int, help="seed (default: the study's first)")
    theory.add_argument(
        "--points",
        type=int,
        default=5,
        help="rounds that are looked into (default: 5)",
    )
    theory.add_argument(
        "--clients",
        type=int,
        default=64,
        help="clients that f is the mean of, at most (default: 64)",
    )
    add_data(theory)
    add_results(theory)
    add_json(theory)
    theory.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure, print the tables, write theory.json and theory.html."""
    from fedstep.analysis.theory.findings import finding_record
    from fedstep.analysis.theory.study import chosen_methods, study_theory
    from fedstep.report.theory_page import write_findings
    from fedstep.run import progress
    from fedstep.study.study_file import read_study
    from fedstep.study.work import prepare

    study = read_study(find_study(options.study), options.scale)
    # a model or a partition that cannot be made is one line, before anything is measured
    prepare(study)
    home = options.out or default_home(study)
    seed = options.seed
    # not `or`: 0 is a seed
    if seed is None:
        seed = study.seeds[0]
    measured = study_theory(
        study,
        chosen_methods(study, options.method, home),
        seed,
        options.rounds,
        options.points,
        options.clients,
        options.data,
        lambda name, total, rows: progress.show(rows, total, name),
    )
    written = write_findings(home, study, measured)
    if options.json:
        print_json([finding_record(finding) for finding in measured])
        return
    terminal = console()
    for finding in measured:
        _print(terminal, finding)
    for path in written:
        terminal.print(f"{path.suffix[1:]}: {path}", soft_wrap=True)


def _print(terminal: Console, finding: Finding) -> None:
    from fedstep.analysis.theory.findings import finding_grids, finding_notes

    title = f"{finding.label}   {finding.spec}, seed {finding.seed}"
    terminal.print(title, style="bold", soft_wrap=True)
    for grid in finding_grids(finding):
        terminal.print(_table(grid))
        terminal.print()
    for note in finding_notes(finding):
        terminal.print(note, style="dim")
    terminal.print()


def _table(grid: Grid) -> Table:
    """The last column, and a first one of long names, are broken between words where the terminal
    is narrow.
    """
    table = Table(
        title=grid.title,
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for i, head in enumerate(grid.heads):
        if head in NUMBERS:
            table.add_column(head, justify="right", no_wrap=True)
        else:
            # names of quantities and verdicts stay whole; those of bounds are sentences
            fixed = head in ("form", "holds") or (i == 0 and head != "bound")
            table.add_column(head, no_wrap=fixed)
    for row in grid.rows:
        table.add_row(*row)
    return table
