"""`fedstep demo`: the main job on an embedded task, in under a minute."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from fedstep.cli.options import add_json, check_rounds, print_json
from fedstep.run.terminal import console

if TYPE_CHECKING:
    from fedstep.analysis.compare import Comparison
    from fedstep.paper.demo import Problem
    from fedstep.run.record import RoundReport
    from fedstep.training import Fit

LEAD = (
    "Each line is one method on the same clients, with the same start and the same random "
    "numbers. FedAvg is shown at three learning rates, because somebody has to choose one; "
    "FedSLS and FedExpSLS find their steps by a line search on the clients and, for FedExpSLS, "
    "extrapolation on the server; FedPace's clients measure one step and the scales of all "
    "coordinates together. Trials of the line search are counted in the cost."
)


def register(commands: Any) -> None:
    """Add the command to the parser."""
    demo = commands.add_parser("demo", help="a federated task in under a minute, with a report")
    demo.add_argument(
        "--data",
        default="digits",
        help="digits (scikit-learn's images, the default) or synthetic",
    )
    demo.add_argument("--rounds", type=int, default=40, help="rounds a method (default: 40)")
    demo.add_argument("--seed", type=int, default=0, help="seed of everything random (default: 0)")
    demo.add_argument(
        "--out",
        type=Path,
        default=Path("out/demo"),
        help="directory for the report (default: out/demo)",
    )
    add_json(demo)
    demo.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the methods one after another, show them live, write the report."""
    import torch

    from fedstep.paper import demo

    check_rounds(options.rounds)
    # small tensors: more threads only wait for each other, above all on a busy machine
    torch.set_num_threads(1)
    # with --json nothing else is on stdout
    terminal = console(stderr=options.json, highlight=True)
    task = demo.problem(options.data, options.seed)
    terminal.print(_task_line(task), highlight=False)
    board = DemoBoard(terminal, demo.METHODS, options.rounds)
    # one after another: side by side they would share the processor, and seconds would mean nothing
    fits = []
    with board.live:
        for method in demo.METHODS:
            watch = board.watcher(method)
            fits.append(demo.run_demo(task, method, options.rounds, options.seed, watch))
            board.finished(method)
    comparison = _comparison(fits, options.rounds)
    path = _write_report(fits, task, options, comparison.target)
    # after the report: its path is part of the answer
    if options.json:
        print_json({**asdict(comparison), "report": str(path)})
        return
    terminal.print(final_table(comparison))
    terminal.print(f"report: {path}", soft_wrap=True, highlight=False)


def _task_line(task: Problem) -> str:
    from fedstep.paper import demo

    sizes = task.federation.sizes.tolist()
    return (
        f"{task.name}: {sum(sizes)} training samples on {len(sizes)} clients "
        f"(Dirichlet {demo.ALPHA} over labels), {demo.PER_ROUND} a round, "
        f"20 local steps of batch {demo.BATCH}, {len(task.test[1])} test samples"
    )


def _comparison(fits: list[Fit], rounds: int) -> Comparison:
    from fedstep.analysis.compare import common_target, compare_groups
    from fedstep.analysis.group import Group

    # one seed: every method is a group of one run
    runs = [fit.run for fit in fits]
    groups = [Group.alone(run) for run in runs]
    return compare_groups(groups, rounds, common_target(runs))


def _write_report(
    fits: list[Fit], task: Problem, options: argparse.Namespace, target: float
) -> Path:
    from fedstep.report.report import write_report

    # without --out: the same run has the same page, wherever it is written
    command = f"fedstep demo --data {options.data} --rounds {options.rounds} --seed {options.seed}"
    return write_report(
        options.out / "report.html",
        f"Step sizes asked for, and step sizes found ({task.name})",
        [fit.run for fit in fits],
        lead=LEAD,
        command=command,
        settings={fit.name: fit.settings for fit in fits},
        # the page and the terminal count the same costs
        target=target,
    )


class DemoBoard:
    """A table of methods that is redrawn while they run; plain lines where there is no terminal."""

    def __init__(self, terminal: Console, methods: tuple[str, ...], rounds: int) -> None:
        self.console = terminal
        self.rounds = rounds
        # all of them from the start: the table does not grow under the eyes of the reader
        self.rows: dict[str, RoundReport | None] = dict.fromkeys(methods)
        # transient: the final table takes the place of the live one
        self.live = Live(self.table(), console=terminal, auto_refresh=False, transient=True)

    def watcher(self, method: str) -> Callable[[RoundReport], None]:
        def watch(row: RoundReport) -> None:
            self.rows[method] = row
            # in a file every redrawing would be a new table
            if self.console.is_terminal:
                self.live.update(self.table(), refresh=True)

        return watch

    def finished(self, method: str) -> None:
        row = self.rows[method]
        if row is not None and not self.console.is_terminal:
            from fedstep.run.progress import summary

            self.console.print(
                f"{method} {row.round}/{self.rounds}  {summary(row)}",
                highlight=False,
                soft_wrap=True,
            )

    def table(self) -> Table:
        table = Table(
            "method",
            "round",
            "loss",
            "accuracy",
            "median step",
            "trials a step",
            "eta_g",
            box=None,
            pad_edge=False,
        )
        for method, row in self.rows.items():
            # its turn has not come
            if row is None:
                table.add_row(method, "waiting")
                continue
            table.add_row(
                method,
                f"{row.round}/{self.rounds}",
                f"{row.loss:.4g}",
                f"{row.accuracy:.4f}",
                f"{row.steps[2]:.3g}",
                _trials(row.trials),
                f"{row.eta_g:.3g}",
            )
        return table


def final_table(comparison: Comparison) -> Table:
    """What the methods reached and what it cost."""
    metric = comparison.metric.title
    heads = (metric, "best", "rounds", "gradients", "trials a step", "failed")
    caption = (
        f"rounds and gradients: to reach {metric} {comparison.target:.3f}, 95 % of the best; "
        "a trial counts as 1/3 gradient"
    )
    table = Table(box=None, pad_edge=False, caption=caption, caption_justify="left")
    table.add_column("method", no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right")
    for method in comparison.methods:
        table.add_row(
            method.label,
            f"{method.score.mean:.4f}",
            f"{method.best.mean:.4f}",
            _cost(method.reach.rounds),
            _cost(method.reach.gradients),
            _trials(method.trials),
            f"{method.failed:.0f}",
        )
    return table


def _cost(value: float) -> str:
    # a method that never got there has no cost
    if value == inf:
        return "never"
    return f"{value:,.0f}"


def _trials(value: float) -> str:
    """Trials a step; a method without a search makes none."""
    if not value:
        return "-"
    return f"{value:.2f}"
