"""Names of lines at the right edge of a chart, beside the lines' last points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedstep.report.chart import Series
from fedstep.report.frame import Axes, Frame, Point
from fedstep.report.markup import element, words_in

LABEL_HEIGHT = 15.0  # between two names
LONGEST = 34  # letters of a name
LETTER = 7.4  # pixels


@dataclass(frozen=True)
class LineEnd:
    """A line and the last of its points that is shown."""

    line: Series
    point: Point


def room_for_names(series: Sequence[Series]) -> int:
    """The margin that the longest name needs."""
    longest = max(len(_short(line.name)) for line in series)
    # The stroke that leads to the name, and a little air on both sides.
    return 32 + round(LETTER * longest)


def end_names(
    series: Sequence[Series],
    axes: Axes,
    frame: Frame,
) -> list[str]:
    """The name of each line beside its last point; names that would cover each other are moved."""
    ends = _line_ends(series, axes)
    # From top to bottom: names that are moved must not cross the strokes of others.
    ends.sort(key=lambda end: end.point.y)
    wanted = [end.point.y for end in ends]
    heights = _apart(wanted, frame.top, frame.plot_bottom)
    names_left = frame.plot_right + 18
    parts = []
    for end, height in zip(ends, heights, strict=True):
        parts.append(_end_name(end, height, names_left))
    return parts


def _line_ends(series: Sequence[Series], axes: Axes) -> list[LineEnd]:
    ends = []
    for line in series:
        points = axes.points(line.x, line.y)
        shown = [point for point in points if point.shown]
        # A line that diverged at once has no place to be named at.
        if shown:
            ends.append(LineEnd(line, shown[-1]))
    return ends


def _end_name(end: LineEnd, height: float, x: float) -> str:
    line = end.line
    point = end.point
    # A thin stroke from the point to its name: the name may have been moved.
    begin = f"{point.x + 5:.1f} {point.y:.1f}"
    stroke = f"M{begin}L{x} {height:.1f}"
    return element(
        "g",
        element("path", class_="pull", d=stroke),
        words_in(
            "text",
            _short(line.name),
            x=x + 4,
            # Letters stand on their y: a third of them lower, so that the stroke meets the middle.
            y=height + 4,
            text_anchor="start",
        ),
        class_=f"series end c{line.style.colour}",
        data_name=line.name,
    )


def _apart(
    wanted: Sequence[float],
    top: float,
    bottom: float,
) -> list[float]:
    """Ascending heights, a line of text apart, near to those wanted."""
    heights: list[float] = []
    for height in wanted:
        within = min(max(height, top), bottom)
        # Below the name before, however close the lines end.
        if heights:
            within = max(within, heights[-1] + LABEL_HEIGHT)
        heights.append(within)
    # Pushed below the frame: push back up from its lower end.
    if heights and heights[-1] > bottom:
        heights[-1] = bottom
        for k in range(len(heights) - 2, -1, -1):
            highest = heights[k + 1] - LABEL_HEIGHT
            heights[k] = min(heights[k], highest)
    return heights


def _short(name: str) -> str:
    if len(name) <= LONGEST:
        return name
    return name[: LONGEST - 1] + "…"
