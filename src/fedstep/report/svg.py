"""Charts as inline SVG, coloured by the page's style sheet (light and dark).

The text returned here is put into pages as it stands; `markup` escapes what it is given.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedstep.report.axis import Axis, tick_text
from fedstep.report.chart import Band, Chart, Series
from fedstep.report.end_names import end_names, room_for_names
from fedstep.report.frame import Axes, Frame, Point
from fedstep.report.markup import element, words_in
from fedstep.report.style import LineStyle

MARKED = 7  # markers along a line
FEW = 3  # dots of a line that are drawn large: there is no cloud to see
CROWD = 6  # lines; the bands of more would hide them
BESIDE = 5  # pixels around the plot, so that markers at its edge are whole

PANEL = Frame()


def draw(chart: Chart) -> str:
    """An svg element as wide as half a screen, or as a phone."""
    return _svg(chart, PANEL, named=())


def draw_wide(chart: Chart) -> str:
    """An svg element as wide as a screen, its lines named where they end."""
    named = [line for line in chart.series if not line.faint]
    # A single line is named by the title of the page.
    if len(named) < 2:
        bare = Frame(width=1100, height=430, right=20)
        return _svg(chart, bare, named=())
    room = room_for_names(named)
    frame = Frame(width=1100, height=430, right=room)
    return _svg(chart, frame, named)


def swatch(style: LineStyle) -> str:
    """The line and the marker of a style, for legends and tables."""
    middle = Point(17.0, 6.0)
    return element(
        "svg",
        _line_path("M1 6H33", style),
        _markers(style, [middle]),
        class_=f"key c{style.colour}",
        viewBox="0 0 34 12",
        # The name stands beside it: a screen reader would read nothing useful here.
        aria_hidden="true",
    )


def _svg(chart: Chart, frame: Frame, named: Sequence[Series]) -> str:
    axes = _axes(chart, frame)
    crowd = ""
    if len(chart.series) > CROWD:
        crowd = "many"
    return element(
        "svg",
        *_grid(axes, frame),
        *_axis_names(chart, frame),
        _plot(chart, axes, frame),
        *end_names(named, axes, frame),
        class_=crowd,
        viewBox=f"0 0 {frame.width} {frame.height}",
        role="img",
        aria_label=chart.title,
    )


def _axes(chart: Chart, frame: Frame) -> Axes:
    x_values: list[float] = []
    y_values: list[float] = []
    for line in chart.series:
        x_values += line.x
        # What happens in the first rounds would press the rest of the lines flat.
        begin = int(chart.settled * len(line.y))
        for values in line.heights:
            y_values += values[begin:]
    x_axis = Axis.over(
        x_values,
        first=frame.left,
        last=frame.plot_right,
        log=chart.log_x,
    )
    y_axis = Axis.over(
        y_values,
        # Pixels are counted from the top: the smallest value has the largest.
        first=frame.plot_bottom,
        last=frame.top,
        log=chart.log_y,
    )
    return Axes(x_axis, y_axis)


def _grid(axes: Axes, frame: Frame) -> list[str]:
    """Lines at the ticks, and their values."""
    parts = []
    for tick in axes.y.ticks():
        y = axes.y.at(tick)
        across = f"M{frame.left} {y:.1f}H{frame.plot_right}"
        number = _text(
            tick_text(tick),
            frame.left - 6,
            # Letters stand on their y: lower by a third of them, the line meets the middle.
            y + 3.5,
            anchor="end",
        )
        parts.append(_grid_line(across))
        parts.append(number)
    for tick in axes.x.ticks():
        x = axes.x.at(tick)
        upright = f"M{x:.1f} {frame.top}V{frame.plot_bottom}"
        number = _text(
            tick_text(tick),
            x,
            frame.plot_bottom + 17,
            anchor="middle",
        )
        parts.append(_grid_line(upright))
        parts.append(number)
    return parts


def _grid_line(moves: str) -> str:
    return element("path", class_="grid", d=moves)


def _axis_names(chart: Chart, frame: Frame) -> list[str]:
    middle_x = (frame.left + frame.plot_right) / 2
    middle_y = (frame.top + frame.plot_bottom) / 2
    return [
        words_in(
            "text",
            chart.x_label,
            class_="axis",
            x=middle_x,
            y=frame.height - 8,
            text_anchor="middle",
        ),
        words_in(
            "text",
            chart.y_label,
            class_="axis",
            x=13,
            y=middle_y,
            text_anchor="middle",
            transform=f"rotate(-90 13 {middle_y})",
        ),
    ]


def _text(
    words: str,
    x: float,
    y: float,
    anchor: str,
) -> str:
    return words_in(
        "text",
        words,
        x=x,
        y=y,
        text_anchor=anchor,
    )


def _plot(chart: Chart, axes: Axes, frame: Frame) -> str:
    """The lines, cut off at the frame."""
    # An svg element of their own cuts them off. A clip path would need a name, and names of two
    # charts of a page must not be the same.
    x = frame.left - BESIDE
    y = frame.top - BESIDE
    width = frame.plot_right - frame.left + 2 * BESIDE
    height = frame.plot_bottom - frame.top + 2 * BESIDE
    lines = []
    for place, line in enumerate(chart.series):
        lines.append(_series(line, place, axes))
    return element(
        "svg",
        *lines,
        class_="plot",
        x=x,
        y=y,
        width=width,
        height=height,
        viewBox=f"{x} {y} {width} {height}",
    )


def _series(line: Series, place: int, axes: Axes) -> str:
    points = axes.points(line.x, line.y)
    parts = [words_in("title", line.name)]
    # The band first: what comes later lies above.
    if line.band:
        parts.append(_band(line.band, line.x, axes))
    if line.dots:
        mark = "mark dots"
        if len(points) <= FEW:
            mark = "mark few"
        dots = _markers(line.style, points, mark)
        parts.append(dots)
    else:
        path = _line_path(_pen(points), line.style)
        parts.append(path)
    # A faint line goes with another one that has the markers already.
    if not line.dots and not line.faint:
        few = _marked(points, place)
        parts.append(_markers(line.style, few))
    kind = f"series c{line.style.colour}"
    if line.faint:
        kind += " faint"
    return element(
        "g",
        *parts,
        class_=kind,
        # The page's script finds the lines of a method by it.
        data_name=line.name,
    )


def _line_path(moves: str, style: LineStyle) -> str:
    return element(
        "path",
        class_="line",
        stroke_dasharray=style.dash,
        d=moves,
    )


def _band(band: Band, x: Sequence[float], axes: Axes) -> str:
    low = axes.points(x, band.low)
    high = axes.points(x, band.high)
    # A band needs both of its ends: where one is missing it goes on at the next place with both.
    there = []
    back = []
    for lower, upper in zip(low, high, strict=True):
        if lower.shown and upper.shown:
            there.append(str(upper))
            back.append(str(lower))
    # One place has no area.
    if len(there) < 2:
        return ""
    # Along the upper end and home along the lower one.
    back.reverse()
    outline = "L".join(there + back)
    return element("path", class_="band", d=f"M{outline}Z")


def _pen(points: Sequence[Point]) -> str:
    """The moves of a pen that is lifted where a value is missing."""
    moves = ""
    command = "M"  # lifted; L draws
    for point in points:
        if point.shown:
            moves += f"{command}{point}"
            command = "L"
        else:
            command = "M"
    return moves


def _marked(points: Sequence[Point], place: int) -> list[Point]:
    """A few points of a line."""
    shown = [point for point in points if point.shown]
    if len(shown) <= 2:
        return shown
    # Other points for each line: the markers of lines that coincide do not cover each other.
    shift = (place % 4) / 4
    every = (len(shown) - 1) / MARKED
    marked = []
    for k in range(MARKED + 1):
        place_in_line = round((k + shift) * every)
        # A short line has fewer points than markers, and a shifted one may end too early.
        if place_in_line < len(shown) and place_in_line not in marked:
            marked.append(place_in_line)
    return [shown[k] for k in marked]


def _markers(style: LineStyle, points: Sequence[Point], kind: str = "mark") -> str:
    # One path for all: hundreds of dots are one element.
    outlines = ""
    for point in points:
        if point.shown:
            outlines += f"M{point}{style.marker}"
    return element("path", class_=kind, d=outlines)
