"""What a page says, as data: a sentence, a chart, then sections. `render` turns it into HTML.

A report of one run, of a study, of a partition and of the theory are all one `Page`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedstep.report.chart import Chart
from fedstep.report.style import LineStyle, line_style
from fedstep.report.svg import draw, draw_wide


@dataclass(frozen=True)
class Cell:
    """Words of a table; code and emphasis are told apart by the template."""

    text: str
    code: bool = False
    strong: bool = False


@dataclass(frozen=True)
class TableRow:
    """Cells, and the style of the method they are about."""

    cells: tuple[Cell, ...]
    style: LineStyle | None = None


@dataclass(frozen=True)
class PageTable:
    """A table; its columns after the first hold numbers unless they are words."""

    heads: tuple[str, ...]
    rows: tuple[TableRow, ...]
    title: str = ""
    words: bool = False

    @property
    def keyed(self) -> bool:
        """Whether the rows begin with the line of their method."""
        return any(row.style is not None for row in self.rows)


@dataclass(frozen=True)
class LegendKey:
    """The name of a line beside its looks."""

    name: str
    style: LineStyle


@dataclass(frozen=True)
class Figure:
    """A drawing and the numbers behind it; a second drawing where one cannot serve all screens."""

    title: str
    svg: str
    csv: str
    note: str = ""
    keys: tuple[LegendKey, ...] = ()
    wide_svg: str = ""  # letters of a drawing shrink with it: a phone needs another one
    full_width: bool = False


@dataclass(frozen=True)
class Section:
    """A heading with tables, notes and figures below."""

    title: str
    words: str = ""
    code: str = ""  # a spec, above everything else
    tables: tuple[PageTable, ...] = ()
    notes: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Detail:
    """What is unfolded by whoever wants it."""

    title: str
    table: PageTable | None = None
    text: str = ""


@dataclass(frozen=True)
class Page:
    """A whole page: the sentence and the chart come first."""

    title: str
    summary: str = ""  # the outcome in a sentence
    first: Figure | None = None
    legend: tuple[LegendKey, ...] = ()
    texts: tuple[str, ...] = ()
    warning: str = ""
    sections: tuple[Section, ...] = ()
    command: str = ""
    made: str = ""
    details: tuple[Detail, ...] = ()  # folded


def figure(chart: Chart) -> Figure:
    """A chart as one of the small pictures of a section."""
    # Each name once: a line and its dots share one.
    keys: tuple[LegendKey, ...] = ()
    if chart.keys:
        keys = tuple(dict.fromkeys(LegendKey(s.name, s.style) for s in chart.series if s.name))
    return Figure(
        title=chart.title,
        svg=draw(chart),
        csv=chart.csv(),
        note=chart.note,
        keys=keys,
    )


def first_figure(chart: Chart) -> Figure:
    """A chart as the first thing on a page: large, its lines named; small on a phone."""
    return Figure(
        title=chart.title,
        svg=draw(chart),
        csv=chart.csv(),
        note=chart.note,
        wide_svg=draw_wide(chart),
        full_width=True,
    )


def legend_of(names: Sequence[str]) -> tuple[LegendKey, ...]:
    """Keys for the methods of a page; a single line needs none."""
    if len(names) < 2:
        return ()
    return tuple(LegendKey(name, line_style(k)) for k, name in enumerate(names))


def word_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], words: bool = False, title: str = ""
) -> PageTable:
    """A table of plain words without keys."""
    made = tuple(TableRow(tuple(Cell(text) for text in row)) for row in rows)
    return PageTable(tuple(heads), made, title=title, words=words)
