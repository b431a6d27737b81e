"""Charts as inline SVG, coloured by the page's style sheet (light and dark).

The text returned here is put into pages as it stands: every label goes through `escape`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain

from fedstep.report.axis import Axis, tick_text
from fedstep.report.chart import Chart, Series
from fedstep.report.style import LineStyle

MARKED = 7  # markers along a line
LABEL_HEIGHT = 15.0  # between two names at the right edge

Point = tuple[float, float]


@dataclass(frozen=True)
class Frame:
    """The size of a drawing and of the margins around its plot, in pixels."""

    width: int = 560
    height: int = 330
    left: int = 58
    right: int = 14
    top: int = 12
    bottom: int = 44

    @property
    def plot_right(self) -> int:
        return self.width - self.right

    @property
    def plot_bottom(self) -> int:
        return self.height - self.bottom


PANEL = Frame()


def wide_frame(names: Sequence[str]) -> Frame:
    """For the first chart of a page on wide screens: room on the right for names at the ends of lines."""
    if len(names) < 2:
        return Frame(width=1100, height=430, right=20)
    longest = max(len(_short(name)) for name in names)
    return Frame(width=1100, height=430, right=32 + round(7.4 * longest))


@dataclass(frozen=True)
class Axes:
    """Both axes of a drawing."""

    x: Axis
    y: Axis

    def points(self, x: Sequence[float], y: Sequence[float]) -> list[Point]:
        """Pixels; NaN where a value cannot be shown."""
        return [(self.x.at(a), self.y.at(b)) for a, b in zip(x, y, strict=True)]


def draw(chart: Chart) -> str:
    """An svg element as wide as half a screen, or as a phone."""
    return _svg(chart, PANEL, end_names=[])


def draw_wide(chart: Chart) -> str:
    """An svg element as wide as a screen, its lines named where they end."""
    frame = wide_frame([line.name for line in chart.series])
    end_names: list[Series] = []
    if len(chart.series) > 1:
        end_names = [line for line in chart.series if not line.faint]
    return _svg(chart, frame, end_names)


def swatch(style: LineStyle) -> str:
    """The line and the marker of a style, for legends and tables."""
    line = f'<path class="line"{_dashes(style)} d="M1 6H33"/>'
    body = line + _markers(style, [(17.0, 6.0)])
    return f'<svg class="key c{style.colour}" viewBox="0 0 34 12" aria-hidden="true">{body}</svg>'


def _svg(chart: Chart, frame: Frame, end_names: Sequence[Series]) -> str:
    axes = _axes(chart, frame)
    parts = [
        *_grid(axes, frame),
        *_axis_names(chart, frame),
        _plot(chart, axes, frame),
        *_end_names(end_names, axes, frame),
    ]
    size = f'viewBox="0 0 {frame.width} {frame.height}"'
    # Many bands one upon another would hide the lines.
    crowd = ' class="many"' if len(chart.series) > 6 else ""
    body = "".join(parts)
    return f'<svg{crowd} {size} role="img" aria-label="{escape(chart.title)}">{body}</svg>'


def _axes(chart: Chart, frame: Frame) -> Axes:
    x_values = [v for line in chart.series for v in line.x]
    y_values: list[float] = []
    for line in chart.series:
        for values in (line.y, *(line.band or ())):
            begin = int(chart.settled * len(values))
            y_values += values[begin:]
    return Axes(
        x=Axis.over(x_values, frame.left, frame.plot_right, chart.log_x),
        y=Axis.over(y_values, frame.plot_bottom, frame.top, chart.log_y),
    )


def _grid(axes: Axes, frame: Frame) -> list[str]:
    """Lines at the ticks, and their values."""
    parts = []
    for tick in axes.y.ticks():
        y = axes.y.at(tick)
        parts.append(f'<path class="grid" d="M{frame.left} {y:.1f}H{frame.plot_right}"/>')
        parts.append(_text(tick_text(tick), frame.left - 6, y + 3.5, anchor="end"))
    for tick in axes.x.ticks():
        x = axes.x.at(tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {frame.top}V{frame.plot_bottom}"/>')
        parts.append(_text(tick_text(tick), x, frame.plot_bottom + 17))
    return parts


def _axis_names(chart: Chart, frame: Frame) -> list[str]:
    middle_x = (frame.left + frame.plot_right) / 2
    middle_y = (frame.top + frame.plot_bottom) / 2
    turn = f' transform="rotate(-90 13 {middle_y})"'
    return [
        _text(chart.x_label, middle_x, frame.height - 8, more=' class="axis"'),
        _text(chart.y_label, 13, middle_y, more=f' class="axis"{turn}'),
    ]


def _text(words: str, x: float, y: float, anchor: str = "middle", more: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text{more} {place}>{escape(words)}</text>"


def _plot(chart: Chart, axes: Axes, frame: Frame) -> str:
    """The lines, cut off at the frame by an svg element of their own: it needs no name, unlike a clip path."""
    x = frame.left - 5
    y = frame.top - 5
    width = frame.plot_right - frame.left + 10
    height = frame.plot_bottom - frame.top + 10
    place = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    view = f'viewBox="{x} {y} {width} {height}"'
    lines = "".join(_series(line, k, axes) for k, line in enumerate(chart.series))
    return f'<svg class="plot" {place} {view}>{lines}</svg>'


def _series(line: Series, place: int, axes: Axes) -> str:
    points = axes.points(line.x, line.y)
    parts = [f"<title>{escape(line.name)}</title>"]
    if line.band:
        parts.append(_band(line.band, line.x, axes))
    if line.dots:
        parts.append(_markers(line.style, points, "mark dots"))
    else:
        parts.append(f'<path class="line"{_dashes(line.style)} d="{_path(points)}"/>')
    if not line.dots and not line.faint:
        parts.append(_markers(line.style, _marked(points, place)))
    faint = " faint" if line.faint else ""
    head = f'<g class="series c{line.style.colour}{faint}" data-name="{escape(line.name)}">'
    return head + "".join(parts) + "</g>"


def _band(band: tuple[Sequence[float], Sequence[float]], x: Sequence[float], axes: Axes) -> str:
    low = axes.points(x, band[0])
    high = axes.points(x, band[1])
    # A band needs both of its ends: where one is missing it jumps to the next place that has them.
    whole = [k for k in range(len(low)) if _shown(low[k]) and _shown(high[k])]
    if len(whole) < 2:
        return ""
    upper = [high[k] for k in whole]
    lower = [low[k] for k in reversed(whole)]
    outline = "L".join(f"{a:.1f} {b:.1f}" for a, b in chain(upper, lower))
    return f'<path class="band" d="M{outline}Z"/>'


def _path(points: Sequence[Point]) -> str:
    """A pen that is lifted where a value is missing."""
    moves = []
    drawing = False
    for point in points:
        if not _shown(point):
            drawing = False
            continue
        letter = "L" if drawing else "M"
        moves.append(f"{letter}{point[0]:.1f} {point[1]:.1f}")
        drawing = True
    return "".join(moves)


def _marked(points: Sequence[Point], place: int) -> list[Point]:
    """A few points of a line, other ones for each line: equal lines do not cover each other's markers."""
    shown = [point for point in points if _shown(point)]
    if len(shown) <= 2:
        return shown
    every = (len(shown) - 1) / MARKED
    shift = (place % 4) / 4
    chosen = {round((k + shift) * every) for k in range(MARKED + 1)}
    return [shown[k] for k in sorted(chosen) if k < len(shown)]


def _markers(style: LineStyle, points: Sequence[Point], kind: str = "mark") -> str:
    outlines = [f"M{x:.1f} {y:.1f}{style.marker}" for x, y in points if _shown((x, y))]
    return f'<path class="{kind}" d="{"".join(outlines)}"/>'


def _dashes(style: LineStyle) -> str:
    if not style.dash:
        return ""
    return f' stroke-dasharray="{style.dash}"'


def _end_names(series: Sequence[Series], axes: Axes, frame: Frame) -> list[str]:
    """The name of each line beside its last point; names that would cover each other are moved apart."""
    ends = []
    for line in series:
        shown = [point for point in axes.points(line.x, line.y) if _shown(point)]
        if shown:
            ends.append((line, shown[-1]))
    ends.sort(key=lambda end: end[1][1])
    heights = _apart([point[1] for _, point in ends], frame.top, frame.plot_bottom)
    parts = []
    for (line, point), height in zip(ends, heights, strict=True):
        begin = frame.plot_right + 6
        bend = f"M{point[0] + 5:.1f} {point[1]:.1f}L{begin + 12} {height:.1f}"
        name = _text(_short(line.name), begin + 16, height + 4, anchor="start")
        group = f'<g class="series end c{line.style.colour}" data-name="{escape(line.name)}">'
        parts.append(f'{group}<path class="pull" d="{bend}"/>{name}</g>')
    return parts


def _apart(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Ascending heights, at least a line of text between neighbours, as near to those wanted as a push down and up gets."""
    heights = [min(max(h, top), bottom) for h in wanted]
    for k in range(1, len(heights)):
        heights[k] = max(heights[k], heights[k - 1] + LABEL_HEIGHT)
    if heights and heights[-1] > bottom:
        heights[-1] = bottom
        for k in range(len(heights) - 2, -1, -1):
            heights[k] = min(heights[k], heights[k + 1] - LABEL_HEIGHT)
    return heights


def _short(name: str, most: int = 34) -> str:
    if len(name) <= most:
        return name
    return name[: most - 1] + "…"


def _shown(point: Point) -> bool:
    return not (math.isnan(point[0]) or math.isnan(point[1]))
