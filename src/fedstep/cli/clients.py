"""`fedstep clients`: how the clients of a study fare one by one."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fedstep.cli.options import add_data, add_json, print_json
from fedstep.run.terminal import console

if TYPE_CHECKING:
    from fedstep.analysis.client_spread import MeasuredClients


def register(commands: Any) -> None:
    """Add the command to the parser."""
    clients = commands.add_parser(
        "clients",
        help="the clients of a study one by one: mean, worst tenth and spread",
    )
    clients.add_argument(
        "home",
        type=Path,
        metavar="HOME",
        help="results directory of fedstep run",
    )
    add_data(clients)
    add_json(clients)
    clients.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Score what is not scored yet, write clients.json, print a table."""
    from fedstep.analysis.client_spread import measure_clients

    # not on stdout, which --json keeps to itself
    progress = console(stderr=True)

    def tell(name: str) -> None:
        progress.print(f"scoring the clients of {name}", soft_wrap=True)

    found = measure_clients(options.home, options.data, tell)
    if options.json:
        print_json(asdict(found))
        return
    terminal = console()
    if found.methods:
        terminal.print(_table(found))
        terminal.print(
            "Each client on its own training samples, mean ± standard deviation over seeds.",
            style="dim",
        )
    if found.without_model:
        terminal.print(
            f"{found.without_model} finished runs are not here with their models "
            "and cannot be scored; in a folder of its own (--out) fedstep run does them again.",
            style="dim",
        )


def _table(found: MeasuredClients) -> Table:
    from fedstep.report.metric_text import axis_label, metric_spread

    table = Table(title=f"Clients: {axis_label(found.metric)}")
    table.add_column("method")
    for column in ("seeds", "clients", "mean", "worst tenth", "deviation"):
        table.add_column(column, justify="right")
    for method in found.methods:
        table.add_row(
            method.label,
            str(method.seeds),
            str(method.clients),
            metric_spread(method.mean, found.metric),
            metric_spread(method.worst, found.metric),
            metric_spread(method.deviation, found.metric),
        )
    return table
