"""The page of a theory measurement: constants, hypotheses and bounds of each method."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path

from fedstep.analysis.theory import bounds
from fedstep.analysis.theory.findings import (
    Finding,
    finding_grids,
    finding_notes,
    finding_record,
)
from fedstep.report.chart import Chart, Series
from fedstep.report.page import Figure, Page, Section, figure, legend_of, word_table
from fedstep.report.render import write_page
from fedstep.report.style import line_style
from fedstep.run.files import write_json
from fedstep.study.plan import Study

# The page's legend has them in this order, and the chart their looks.
LINES = ("measured", "proved bound", "printed bound")


def write_findings(home: Path, study: Study, findings: Sequence[Finding]) -> tuple[Path, Path]:
    """theory.json and theory.html in the results directory; returns their absolute paths."""
    home.mkdir(parents=True, exist_ok=True)
    data = home / "theory.json"
    record = {
        "study": study.name,
        "title": study.title,
        "scale": study.scale,
        "methods": [finding_record(finding) for finding in findings],
    }
    write_json(data, record)
    title = f"{study.title}: theorems and measurements"
    page = write_page(home / "theory.html", theory_page(title, findings))
    return data.resolve(), page


def theory_page(title: str, findings: Sequence[Finding]) -> Page:
    """A section for every method."""
    sections = tuple(_section(finding) for finding in findings)
    # A legend without a chart would name lines that nobody sees.
    legend = legend_of(LINES)
    if not any(section.figures for section in sections):
        legend = ()
    return Page(title, legend=legend, sections=sections)


def _section(finding: Finding) -> Section:
    tables = []
    for grid in finding_grids(finding):
        table = word_table(
            grid.heads,
            grid.rows,
            words=True,
            title=grid.title,
        )
        tables.append(table)
    chart = _gap_chart(finding)
    figures: tuple[Figure, ...] = ()
    if chart is not None:
        figures = (figure(chart),)
    return Section(
        title=finding.label,
        code=finding.spec,
        words=f"Seed {finding.seed}",
        tables=tuple(tables),
        notes=tuple(finding_notes(finding)),
        figures=figures,
    )


def _gap_chart(finding: Finding) -> Chart | None:
    """f at the mean of the iterates against its bounds; None where no theorem or f* is at hand."""
    measured = finding.measured
    setup = finding.covered
    if setup is None or measured.best is None:
        return None
    smallest = bounds.smallest_step(
        measured.L,
        setup.c,
        setup.start,
        setup.shrink,
    )
    c_left = bounds.reduced_c(setup.c, measured.noise, setup.max_step)
    # From 1: the bounds divide by the number of rounds.
    rounds = list(range(1, measured.rounds + 1))
    gap = [value - measured.best.value for value in measured.curve.f_mean[1:]]
    proved = [
        bounds.convex(
            setup.c,
            setup.eta_g,
            smallest,
            t,
            measured.D2,
        )
        for t in rounds
    ]
    # As the paper prints it, which is false for c near 1: the chart shows both.
    printed = [
        bounds.printed_convex(
            c_left,
            setup.eta_g,
            measured.steps,
            measured.L,
            setup.max_step,
            t,
            measured.D2,
        )
        for t in rounds
    ]
    lines = []
    for index, values in enumerate((gap, proved, printed)):
        # The axis is logarithmic: a bound that is nowhere positive has no place on it.
        if any(isfinite(value) and value > 0 for value in values):
            line = Series(
                name=LINES[index],
                x=rounds,
                y=values,
                style=line_style(index),
            )
            lines.append(line)
    return Chart(
        title="f at the mean of the iterates, less f*",
        x_label="round",
        y_label="gap",
        series=tuple(lines),
        log_y=True,
    )
