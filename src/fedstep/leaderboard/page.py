"""The leaderboard as one page: who stands where, the curves, and where every number comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite, isnan

from fedstep.leaderboard.provenance import made_by, provenance_name
from fedstep.leaderboard.read import Board, ShownTrack
from fedstep.leaderboard.standing import Standing, mean_curve
from fedstep.leaderboard.standings import EntryStandings, Roundup, roundups
from fedstep.leaderboard.words import NO_RESULT, cost_text, target_text, track_facts
from fedstep.report.chart import Band, Chart, Series
from fedstep.report.metric_text import axis_label, metric_spread, with_unit
from fedstep.report.page import (
    Cell,
    Detail,
    LegendKey,
    Page,
    PageTable,
    Section,
    TableRow,
    figure,
    legend_of,
)
from fedstep.report.style import LineStyle, line_style

TARGET = "target"
SHOWN = 10  # entries whose lines are drawn at once; with more nobody can follow one
LAST = 1e300  # the order of what was never reached: behind all numbers, also in JavaScript
RULES = (
    "A track is a task with a target and a budget of rounds. What an entry spends is the rounds of "
    "all points of its grid and the rounds of one run to the target, which is reached when the mean "
    "over a window of evaluations and over all seeds is there. Grid points are compared on clients "
    "that are set aside, never on test samples; seeds are drawn from the hash of track and entry. "
    "A forward pass alone is a third of a gradient. Every number leads to the command and the hash "
    f"that made it. Charts open with the entries of the best mean place, {SHOWN} at most; a click on "
    "a name shows another."
)


def board_page(board: Board) -> Page:
    """All tracks with their entries; a track without results says how to be the first."""
    styles = _styles(board)
    sections = [_overview(roundup, styles) for roundup in roundups(board)]
    sections += [_track_section(shown, styles) for shown in board.tracks]
    return Page(
        title="The fedstep leaderboard",
        summary=_summary(board),
        legend=_legend(board, styles),
        texts=(RULES,),
        warning=" ".join(board.warnings),
        sections=tuple(sections),
        command="fedstep leaderboard page",
    )


def _styles(board: Board) -> Mapping[str, LineStyle]:
    """An entry looks the same on every track."""
    names: dict[str, None] = {}
    for shown in board.tracks:
        for standing in shown.standings:
            names[standing.outcome.entry.name] = None
    # by name: a new result does not recolour the others of its track
    return {name: line_style(index) for index, name in enumerate([*sorted(names), TARGET])}


def _legend(board: Board, styles: Mapping[str, LineStyle]) -> tuple[LegendKey, ...]:
    # the target alone is no legend
    if len(styles) < 2:
        return ()
    leaders = _leaders(roundups(board))
    keys = []
    for key in legend_of(list(styles)):
        shown = key.name in leaders or key.name == TARGET
        keys.append(replace(key, shown=shown))
    return tuple(keys)


def _leaders(tables: Sequence[Roundup]) -> set[str]:
    """The best of every table, as many of each."""
    most = SHOWN // len(tables)
    return {row.name for roundup in tables for row in roundup.rows[:most]}


def _summary(board: Board) -> str:
    with_results = [shown for shown in board.tracks if shown.standings]
    if not with_results:
        return NO_RESULT
    firsts = []
    for shown in with_results:
        first = shown.standings[0]
        entry = first.outcome.entry.title
        if first.reached:
            rounds = cost_text(first.total.rounds)
            firsts.append(f"{entry} on {shown.track.name} ({rounds} rounds in all)")
        else:
            firsts.append(f"nobody on {shown.track.name}")
    return f"First: {'; '.join(firsts)}."


def _overview(roundup: Roundup, styles: Mapping[str, LineStyle]) -> Section:
    """Entries by tracks: all rounds to the target."""
    # the order of the rows is that of the tables in docs/leaderboard.md
    rows = [_overview_row(row, roundup.tracks, styles[row.name]) for row in roundup.rows]
    heads = ("entry", "mean place", "reached", *(each.track.name for each in roundup.tracks))
    return Section(
        f"All {roundup.size} tracks",
        words="Rounds to the target of each track, tuning counted; empty: not run yet. "
        "A click on a head sorts.",
        tables=(PageTable(heads, tuple(rows), sortable=True),),
        name=f"all-{roundup.size}",
    )


def _overview_row(
    row: EntryStandings,
    shown: Iterable[ShownTrack],
    style: LineStyle,
) -> TableRow:
    cells = [
        Cell(row.name, strong=True),
        Cell(f"{row.mean_place:.1f}", order=row.mean_place),
        Cell(f"{row.reached} of {len(row.by_track)}", order=-row.reached),
    ]
    for each in shown:
        standing = row.by_track.get(each.track.name)
        if standing is None:
            # behind those who never arrived: nothing is known of it
            cells.append(Cell("", order=2 * LAST))
        else:
            cells.append(_cost_cell(standing.total.rounds, standing))
    return TableRow(tuple(cells), style)


def _track_section(shown: ShownTrack, styles: Mapping[str, LineStyle]) -> Section:
    track = shown.track
    title = f"{track.title} ({track.name})"
    words = f"{track.text} {track_facts(track)}".strip()
    command = f"fedstep leaderboard run {track.name} ENTRY"
    if not shown.standings:
        return Section(title, words=f"{words} No result yet.", code=command, name=track.name)
    # folded: for whoever doubts a number, and long
    details = Detail(
        f"The command and the hash behind every number of {track.name}",
        tables=tuple(made_by(standing) for standing in shown.standings),
    )
    charts = [_curves(shown, styles), _cost_chart(shown, styles)]
    return Section(
        title,
        words=words,
        code=command,
        tables=(_track_table(shown, styles),),
        notes=("Rounds, gradients and MB are those of tuning and of one run to the target.",),
        figures=tuple(figure(chart) for chart in charts if chart.drawable),
        details=(details,),
        name=track.name,
    )


def _track_table(shown: ShownTrack, styles: Mapping[str, LineStyle]) -> PageTable:
    metric = shown.standings[0].outcome.metric
    rows = []
    for standing in shown.standings:
        outcome = standing.outcome
        score = Cell(
            metric_spread(standing.score, metric),
            order=_score_order(standing),
            link=_link(standing),
        )
        cells = (
            Cell(outcome.entry.title, strong=True),
            Cell(str(standing.place), order=standing.place),
            _cost_cell(standing.total.rounds, standing),
            _cost_cell(outcome.tuning.spent.rounds, standing),
            _cost_cell(standing.reach.rounds, standing),
            _cost_cell(standing.total.gradients, standing),
            _cost_cell(standing.total.megabytes, standing),
            score,
            Cell(outcome.entry.who),
            Cell(outcome.digest[:12], code=True, link=_link(standing)),
        )
        rows.append(TableRow(cells, styles[outcome.entry.name]))
    heads = (
        "entry",
        "place",
        f"rounds to {target_text(shown.track)}",
        "of it tuning",
        "one run",
        "gradients",
        "MB",
        with_unit(f"final {metric.title}", metric),
        "who",
        "hash",
    )
    return PageTable(heads, tuple(rows), sortable=True)


def _cost_cell(value: float, standing: Standing) -> Cell:
    order = value
    # an infinity has no spelling that both Python and JavaScript read
    if value == inf:
        order = LAST
    return Cell(cost_text(value), order=order, link=_link(standing))


def _score_order(standing: Standing) -> float:
    """The best first, and what diverged last."""
    mean = standing.score.mean
    if isnan(mean):
        return LAST
    return -standing.outcome.metric.rank(mean)


def _link(standing: Standing) -> str:
    return f"#{provenance_name(standing)}"


def _curves(shown: ShownTrack, styles: Mapping[str, LineStyle]) -> Chart:
    metric = shown.standings[0].outcome.metric
    lines = []
    for standing in shown.standings:
        curve = mean_curve(standing.outcome)
        lines.append(
            Series(
                name=standing.outcome.entry.name,
                x=curve.x,
                y=curve.y,
                style=styles[standing.outcome.entry.name],
                band=Band(curve.low, curve.high),
            )
        )
    lines.append(_target_line(shown, styles))
    return Chart(
        title=f"Test {metric.title} by round, {shown.track.name}",
        x_label="round of a run, tuning not counted",
        y_label=axis_label(metric),
        series=tuple(lines),
        note="Mean over seeds, band: one standard deviation; the thin line is the target.",
        # the first rounds all look alike, and would press the rest flat
        settled=0.25,
    )


def _target_line(shown: ShownTrack, styles: Mapping[str, LineStyle]) -> Series:
    metric = shown.standings[0].outcome.metric
    target = shown.track.target
    if metric.percent:
        target *= 100
    return Series(
        name=TARGET,
        x=(0.0, float(shown.track.setting.rounds)),
        y=(target, target),
        style=styles[TARGET],
        faint=True,
    )


def _cost_chart(shown: ShownTrack, styles: Mapping[str, LineStyle]) -> Chart:
    """A dot an entry: what it paid, and what it got."""
    metric = shown.standings[0].outcome.metric
    scale = 1
    if metric.percent:
        scale = 100
    dots = []
    for standing in shown.standings:
        paid = standing.spent.rounds
        # who diverged has no place on an axis; the table says so
        if not isfinite(standing.score.mean):
            continue
        dots.append(
            Series(
                name=standing.outcome.entry.name,
                x=(paid,),
                y=(scale * standing.score.mean,),
                style=styles[standing.outcome.entry.name],
                dots=True,
            )
        )
    return Chart(
        title=f"Cost against {metric.title}, {shown.track.name}",
        x_label="all rounds, tuning counted",
        y_label=f"final {axis_label(metric)}",
        series=tuple(dots),
        log_x=True,
        note="To the left: cheap. Who never reached the target has paid the whole budget.",
    )
