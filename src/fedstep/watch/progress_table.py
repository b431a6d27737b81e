"""How far the runs of a folder are: rounds, time left, and what became of the clients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from fedstep.analysis.group import Group
from fedstep.analysis.results import Results, is_single_run
from fedstep.report.page import Cell, PageTable, Section, TableRow
from fedstep.report.style import line_style
from fedstep.run.claim import is_held
from fedstep.run.history import Run

RECENT = 10  # rounds whose time says how long the next ones take
HEADS = (
    "run",
    "state",
    "round",
    "time left",
    "failed searches",
    "clients refused",
    "clients clipped",
)
PACE = "pace"  # a further column where a method has one


@dataclass(frozen=True)
class RunProgress:
    """One run: how far it is, and how long it still needs at the pace of its last rounds."""

    state: str  # finished, running or stopped
    round: int
    rounds: int  # of the whole run
    seconds_left: float  # 0 of a finished run

    @staticmethod
    def of(
        run: Run,
        rounds: int,
        done: bool,
        held: bool,
    ) -> RunProgress:
        last = int(run.rows[-1]["round"])
        # also where a callback ended it early: nothing is left to do
        if done:
            return RunProgress(
                "finished",
                last,
                rounds,
                0.0,
            )
        state = "stopped"
        # whoever holds the claim is alive: the lock of a dead process is free
        if held:
            state = "running"
        seconds = fmean(run.column("seconds")[-RECENT:])
        return RunProgress(
            state,
            last,
            rounds,
            seconds * (rounds - last),
        )


def progress_section(results: Results, home: Path) -> Section:
    """A row for every run that has begun; how much work is left."""
    rounds = results.study.setting.rounds
    heads: tuple[str, ...] = HEADS
    # few methods have a pace: a column of dashes would say nothing
    if any(run.evaluated(PACE) for group in results.groups for run in group.runs):
        heads = (*HEADS, PACE)
    rows = []
    left = 0.0
    for index, group in enumerate(results.groups):
        for place in range(len(group.runs)):
            progress = _progress(
                group,
                place,
                rounds,
                home,
            )
            left += progress.seconds_left
            cells = _cells(group, place, progress)
            rows.append(TableRow(cells[: len(heads)], line_style(index)))
    table = PageTable(heads, tuple(rows))
    return Section("Progress", words=_words(results, left), tables=(table,))


def time_text(seconds: float) -> str:
    """A time as people say it, in its two largest units."""
    if math.isnan(seconds):
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} days {whole % 86400 // 3600} h"


def _progress(
    group: Group,
    place: int,
    rounds: int,
    home: Path,
) -> RunProgress:
    done = group.seeds[place] not in group.unfinished
    # `fit(out=...)` is its own folder, a study has one a run
    folder = home
    if not is_single_run(home):
        folder = home / "runs" / str(group.specs[place].get("digest", ""))
    return RunProgress.of(
        group.runs[place],
        rounds,
        done,
        is_held(folder),
    )


def _cells(
    group: Group,
    place: int,
    progress: RunProgress,
) -> tuple[Cell, ...]:
    run = group.runs[place]
    left = "-"
    if progress.seconds_left:
        left = time_text(progress.seconds_left)
    words = (
        f"{group.label}, seed {group.seeds[place]}",
        progress.state,
        f"{progress.round} of {progress.rounds}",
        left,
        _total(run, "failed"),
        _total(run, "rejected"),
        _total(run, "clipped"),
        _last(run, PACE),
    )
    return tuple(Cell(word) for word in words)


def _total(run: Run, column: str) -> str:
    """The sum over all rounds; older runs did not count everything."""
    values = run.evaluated(column)
    if not values:
        return "-"
    return f"{sum(values):,.0f}"


def _last(run: Run, column: str) -> str:
    values = run.evaluated(column)
    if not values:
        return "-"
    return f"{values[-1]:.3g}"


def _words(results: Results, seconds: float) -> str:
    waiting = len(results.missing)
    parts = []
    if seconds:
        parts.append(f"About {time_text(seconds)} of work left in the runs that have begun.")
    if waiting:
        parts.append(f"{waiting} methods have not begun.")
    return " ".join(parts)
