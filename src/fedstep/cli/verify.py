"""`fedstep verify`: runs of a study made again and compared with what was recorded."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedstep.cli.options import add_data, add_workers
from fedstep.core.printable import printable
from fedstep.run.terminal import console


def register(commands: Any) -> None:
    """Add the command to the parser."""
    verify = commands.add_parser(
        "verify",
        help="make runs of a study again from scratch and compare them with what was recorded",
    )
    verify.add_argument(
        "home",
        type=Path,
        metavar="HOME",
        help="results directory of fedstep run",
    )
    verify.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="LABEL",
        help="this method of the study alone (may be given several times; default: all)",
    )
    verify.add_argument(
        "--seed",
        type=int,
        help="which run of a method (default: its first seed)",
    )
    verify.add_argument(
        "--rounds",
        type=int,
        help="compare so many rounds from the first on (default: all)",
    )
    add_data(verify)
    add_workers(verify)
    verify.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """A line a run; exit code 1 where one does not agree."""
    from fedstep.analysis.verify import recorded_runs, verify_run
    from fedstep.study.board import RunsBoard

    # all are looked up first: a slip in the last name is not found after an hour
    chosen = recorded_runs(options.home, options.only, options.seed)
    agreed = True
    for recorded in chosen:
        job = recorded.run.job
        with RunsBoard(options.rounds or job.setting.rounds) as board:
            watch = board.watcher(job, recorded.run.label)
            verdict = verify_run(recorded, options.data, options.rounds, options.workers, watch)
        agreed = agreed and verdict.agrees
        console().print(printable(verdict.line), soft_wrap=True)
    return int(not agreed)
