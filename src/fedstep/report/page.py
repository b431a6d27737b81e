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
    link: str = ""  # where it leads, on a page that is served or on this one
    order: float | None = None  # in a table that can be sorted; None: by its words


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
    words: bool = False  # to the left; numbers stand to the right
    name: str = ""  # links lead here by it
    sortable: bool = False  # by a click on a head

    @property
    def keyed(self) -> bool:
        """Whether the rows begin with the line of their method."""
        return any(row.style is not None for row in self.rows)


@dataclass(frozen=True)
class LegendKey:
    """The name of a line beside its looks."""

    name: str
    style: LineStyle
    shown: bool = True  # when the page is opened; a click shows what is not


@dataclass(frozen=True)
class Figure:
    """A drawing and the numbers behind it; a second drawing where one cannot serve all screens."""

    title: str
    svg: str
    csv: str
    note: str = ""
    # Of its own lines, where they are not those of the page's legend.
    keys: tuple[LegendKey, ...] = ()
    wide_svg: str = ""  # letters of a drawing shrink with it: a phone needs another one
    full_width: bool = False  # of the page, not half of it


@dataclass(frozen=True)
class Section:
    """A heading with tables, notes and figures below."""

    title: str
    words: str = ""
    code: str = ""  # a spec, above everything else
    tables: tuple[PageTable, ...] = ()
    notes: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    details: tuple[Detail, ...] = ()  # folded, at its end
    name: str = ""  # links lead here by it


@dataclass(frozen=True)
class Detail:
    """What is unfolded by whoever wants it."""

    title: str
    table: PageTable | None = None
    text: str = ""
    tables: tuple[PageTable, ...] = ()


@dataclass(frozen=True)
class Page:
    """A whole page: the sentence and the chart come first."""

    title: str
    summary: str = ""  # the outcome in a sentence
    first: Figure | None = None
    legend: tuple[LegendKey, ...] = ()
    texts: tuple[str, ...] = ()  # paragraphs
    warning: str = ""  # what is missing
    sections: tuple[Section, ...] = ()
    command: str = ""  # that makes the results again
    made: str = ""  # versions and seeds
    details: tuple[Detail, ...] = ()  # folded


def figure(chart: Chart) -> Figure:
    """A chart as one of the small pictures of a section."""
    keys: list[LegendKey] = []
    if chart.keys:
        keys = _chart_keys(chart)
    return Figure(
        title=chart.title,
        svg=draw(chart),
        csv=chart.csv(),
        note=chart.note,
        keys=tuple(keys),
    )


def _chart_keys(chart: Chart) -> list[LegendKey]:
    keys = []
    for line in chart.series:
        key = LegendKey(line.name, line.style)
        # Each name once: a line and its dots share one.
        if line.name and key not in keys:
            keys.append(key)
    return keys


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
    keys = []
    for index, name in enumerate(names):
        keys.append(LegendKey(name, line_style(index)))
    return tuple(keys)


def word_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    words: bool = False,
    title: str = "",
) -> PageTable:
    """A table of plain words without keys."""
    table_rows = []
    for row in rows:
        cells = tuple(Cell(text) for text in row)
        table_rows.append(TableRow(cells))
    return PageTable(
        heads=tuple(heads),
        rows=tuple(table_rows),
        title=title,
        words=words,
    )
