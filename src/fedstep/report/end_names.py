"""Names of lines at the right edge of a chart, beside the lines' last points."""

from __future__ import annotations

from collections.abc import Sequence

from fedstep.report.chart import Series
from fedstep.report.frame import Axes, Frame, Point
from fedstep.report.markup import element, words_in

LABEL_HEIGHT = 15.0  # between two names
LONGEST = 34  # letters of a name
LETTER = 7.4  # pixels


def room_for_names(series: Sequence[Series]) -> int:
    """The margin that the longest name needs."""
    longest = max(len(_short(line.name)) for line in series)
    return 32 + round(LETTER * longest)


def end_names(series: Sequence[Series], axes: Axes, frame: Frame) -> list[str]:
    """The name of each line beside its last point; names that would cover each other are moved."""
    ends = []
    for line in series:
        shown = [point for point in axes.points(line.x, line.y) if point.shown]
        if shown:
            ends.append((line, shown[-1]))
    ends.sort(key=lambda end: end[1].y)
    heights = _apart([point.y for _, point in ends], frame.top, frame.plot_bottom)
    parts = []
    for (line, point), height in zip(ends, heights, strict=True):
        parts.append(_end_name(line, point, height, frame.plot_right + 18))
    return parts


def _end_name(line: Series, point: Point, height: float, x: float) -> str:
    # A thin stroke from the point to its name: the name may have been moved.
    stroke = f"M{point.x + 5:.1f} {point.y:.1f}L{x} {height:.1f}"
    return element(
        "g",
        element("path", class_="pull", d=stroke),
        words_in(
            "text",
            _short(line.name),
            x=x + 4,
            y=height + 4,
            text_anchor="start",
        ),
        class_=f"series end c{line.style.colour}",
        data_name=line.name,
    )


def _apart(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Ascending heights, a line of text apart, near to those wanted."""
    heights = [min(max(height, top), bottom) for height in wanted]
    for k in range(1, len(heights)):
        heights[k] = max(heights[k], heights[k - 1] + LABEL_HEIGHT)
    # Pushed below the frame: push back up from its lower end.
    if heights and heights[-1] > bottom:
        heights[-1] = bottom
        for k in range(len(heights) - 2, -1, -1):
            heights[k] = min(heights[k], heights[k + 1] - LABEL_HEIGHT)
    return heights


def _short(name: str) -> str:
    if len(name) <= LONGEST:
        return name
    return name[: LONGEST - 1] + "…"
