"""Progress on a terminal as a live line, elsewhere as plain lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from fedstep.core.printable import printable
from fedstep.run.record import RoundReport
from fedstep.run.terminal import console

T = TypeVar("T")
METRICS = 2  # of a line: more would not fit a terminal


def summary(row: RoundReport) -> str:
    """A round in one line."""
    words = [f"loss {row.loss:.4g}"]
    shown = list(row.test.items())[:METRICS]
    for name, value in shown:
        if not math.isnan(value):
            words.append(f"{name} {metric_text(value)}")
    median_step = row.steps[2]
    if not math.isnan(median_step):
        words.append(f"step {median_step:.3g}")
    if row.trials:
        words.append(f"trials {row.trials:.2f}")
    words.append(f"eta_g {row.eta_g:.3g}")
    if row.failed:
        words.append(f"failed {row.failed}")
    if row.rejected:
        words.append(f"rejected {row.rejected}")
    if row.missing:
        words.append(f"missing {row.missing}")
    if row.clipped:
        words.append(f"clipped {row.clipped}")
    return "  ".join(words)


def metric_text(value: float) -> str:
    """A metric in a few digits: shares of [0, 1] line up, other numbers have any size."""
    if abs(value) <= 1:
        return f"{value:.4f}"
    return f"{value:.4g}"


def show(
    rounds: Iterable[tuple[T, RoundReport]],
    total: int,
    name: str,
) -> Iterator[tuple[T, RoundReport]]:
    """Pass the rounds through, telling how far they are.

    About twenty lines where there is no terminal.
    """
    terminal = console(stderr=True)
    if not terminal.is_terminal:
        # a log of a thousand lines is read by nobody
        interval = max(1, total // 20)
        for state, row in rounds:
            if row.round % interval == 0 or row.round == total:
                progress = f"{row.round}/{total}"
                terminal.print(f"{name} {progress}  {summary(row)}", soft_wrap=True)
            yield state, row
        return
    with progress_bar(terminal, width=40) as bar:
        job = bar.add_task(printable(name), total=total, summary="")
        for state, row in rounds:
            bar.update(job, completed=row.round, summary=summary(row))
            yield state, row


def progress_bar(
    terminal: Console,
    width: int,
    disable: bool = False,
) -> Progress:
    """A line a task.

    Its name, a bar, how many of how many, the time that is left, and its field `summary`.
    """
    # names are put in by format, never part of the format itself, and never read as markup
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(width),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[summary]}", markup=False),
        console=terminal,
        disable=disable,
    )
