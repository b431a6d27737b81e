"""The page of results: of one run, of several, or of a whole study."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedstep.analysis.compare import Comparison, compare, compare_groups
from fedstep.analysis.grid import Grid
from fedstep.analysis.group import Group
from fedstep.analysis.results import Results
from fedstep.report import panels
from fedstep.report.chart import Chart
from fedstep.report.page import (
    Cell,
    Detail,
    Figure,
    Page,
    PageTable,
    Section,
    TableRow,
    figure,
    first_figure,
    legend_of,
    word_table,
)
from fedstep.report.provenance import (
    command_of,
    facts,
    fit_command,
    hashes,
    tuning_section,
    unfinished,
    versions,
)
from fedstep.report.render import write_page
from fedstep.report.sensitivity import sensitivity_charts
from fedstep.report.style import line_style
from fedstep.report.tables import comparison_grids, comparison_notes
from fedstep.report.verdict import verdict, verdict_details
from fedstep.run.files import plain
from fedstep.run.history import Run


def write_report(
    path: Path,
    title: str,
    runs: Sequence[Run],
    *,
    lead: str = "",
    command: str = "",
    settings: Mapping[str, Any] | None = None,
    target: float | None = None,
) -> Path:
    """Write the page of one or several runs and return its absolute path.

    target: of the metric, that costs are counted to; None: near the best mean.
    """
    page = runs_page(
        title,
        runs,
        lead=lead,
        command=command,
        settings=settings,
        target=target,
    )
    return write_page(path, page)


def write_study_report(
    path: Path,
    results: Results,
    extra: Sequence[Figure] = (),
) -> Path:
    """Write the page of a study and return its absolute path."""
    page = study_page(results, compare(results), extra)
    return write_page(path, page)


def run_charts(run: Run) -> list[Chart]:
    """The few charts of one run: its metric, its loss and its steps by round."""
    groups = [Group.alone(run)]
    charts = [panels.first_chart(groups), *panels.loss_charts(groups)[:1]]
    charts += panels.step_charts(groups)[:1]
    seen: dict[str, Chart] = {}
    for chart in charts:
        # without a metric the first chart is that of the loss
        if chart is not None:
            seen.setdefault(chart.title, chart)
    return list(seen.values())


def runs_page(
    title: str,
    runs: Sequence[Run],
    lead: str = "",
    command: str = "",
    settings: Mapping[str, Any] | None = None,
    target: float | None = None,
) -> Page:
    """Runs of which nothing is known but their rows: each is a method with one seed."""
    groups = [Group.alone(run) for run in runs]
    # The longest run: an interrupted one must not shorten the others.
    rounds = max((len(run.rows) for run in runs), default=0)
    details: tuple[Detail, ...] = ()
    if settings:
        details = (_settings(settings),)
    return _page(
        title=title,
        groups=groups,
        comparison=compare_groups(groups, rounds, target),
        texts=(lead,),
        command=command or fit_command(settings or {}),
        details=details,
    )


def study_page(
    results: Results,
    comparison: Comparison,
    extra: Sequence[Figure] = (),
) -> Page:
    """A study; `extra` holds further figures, such as a map of the clients' labels."""
    sections = []
    if extra:
        sections.append(Section("The clients' data", figures=tuple(extra)))
    tuned = tuning_section(results)
    if tuned:
        sections.append(tuned)
    study = results.study
    return _page(
        title=study.title,
        groups=results.groups,
        comparison=comparison,
        texts=(study.text.strip(), facts(results)),
        warning=unfinished(results),
        sections=sections,
        command=command_of(results),
        made=versions(results),
        # Folded: they are for whoever doubts a number, and long.
        details=(
            hashes(results),
            _settings(asdict(study.setting)),
        ),
    )


def _page(
    title: str,
    groups: Sequence[Group],
    comparison: Comparison,
    texts: Iterable[str],
    command: str,
    details: tuple[Detail, ...],
    sections: Iterable[Section] = (),
    warning: str = "",
    made: str = "",
) -> Page:
    """What runs and studies have in common: a sentence and a chart, then all the rest."""
    # Most readers want no more than who came first and how: that is not below four tables.
    opening = panels.first_chart(groups)
    first = None
    if opening is not None:
        first = first_figure(opening)
    return Page(
        title=title,
        summary=verdict(comparison),
        first=first,
        legend=legend_of([group.label for group in groups]),
        texts=tuple(text for text in (verdict_details(comparison), *texts) if text),
        warning=warning,
        sections=(
            *_result_sections(groups, comparison, opening),
            *sections,
        ),
        command=command,
        made=made,
        details=details,
    )


def _result_sections(
    groups: Sequence[Group],
    comparison: Comparison,
    opening: Chart | None,
) -> list[Section]:
    over_seeds = ""
    if any(len(group.runs) > 1 for group in groups):
        over_seeds = "Lines are means over seeds, bands one standard deviation."
    # In the order of a reader's questions: who is better, by how much, and why.
    sections = [
        _chart_section(
            comparison.metric.title.capitalize(),
            panels.metric_charts(groups),
            words=over_seeds,
            opening=opening,
        ),
        Section(
            title="In numbers",
            tables=_tables(comparison),
            notes=tuple(comparison_notes(comparison)),
        ),
        _chart_section("Loss", panels.loss_charts(groups), opening=opening),
        _chart_section("Steps of the clients", panels.step_charts(groups)),
        _chart_section("Step of the server", panels.server_charts(groups)),
        _chart_section("Clients left out", panels.client_charts(groups)),
        _chart_section("Sensitivity", sensitivity_charts(comparison)),
    ]
    # Methods with a fixed step have no searches to show: no heading over nothing.
    return [section for section in sections if section.figures or section.tables]


def _chart_section(
    title: str,
    charts: Sequence[Chart],
    words: str = "",
    opening: Chart | None = None,
) -> Section:
    """The chart that opens the page is not shown twice."""
    # Compared by value: the chart is made anew by whoever lists the charts of a section.
    others = [chart for chart in charts if chart != opening]
    figures = tuple(figure(chart) for chart in others)
    return Section(title, words=words, figures=figures)


def _tables(comparison: Comparison) -> tuple[PageTable, ...]:
    grids = comparison_grids(comparison)
    if len(comparison.methods) > 1:
        return tuple(_comparison_table(grid) for grid in grids)
    # Four tables of one row each are read more easily as one of two columns.
    pairs: list[tuple[str, str]] = []
    for grid in grids:
        # Without the first, the method's name: it is the title of the page.
        heads = grid.heads[1:]
        cells = grid.rows[0][1:]
        pairs += zip(heads, cells, strict=True)
    return (word_table((), pairs, words=True),)


def _comparison_table(grid: Grid) -> PageTable:
    rows = []
    for index, row in enumerate(grid.rows):
        cells = tuple(Cell(text) for text in row)
        rows.append(TableRow(cells, line_style(index)))
    return PageTable(grid.heads, tuple(rows), title=grid.title)


def _settings(settings: Mapping[str, Any]) -> Detail:
    text = json.dumps(plain(settings), indent=1)
    return Detail("Settings", text=text)
