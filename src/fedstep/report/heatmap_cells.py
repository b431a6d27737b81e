"""The cells of a map of labels by client: few paths, however many cells there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedstep.report.heatmap_layout import Counts, Layout, shares
from fedstep.report.markup import element

LEVELS = 50  # shades; cells of one shade share a path


@dataclass(frozen=True)
class Stretch:
    """Neighbouring clients of one shade."""

    begin: int  # the first of them
    end: int  # the first after them
    shade: int


def map_cells(counts: Counts, largest: float, layout: Layout) -> list[str]:
    """One path a shade: a rectangle for every run of neighbouring clients with the same shade."""
    boxes = _boxes_by_shade(counts, largest, layout)
    paths = []
    for shade in sorted(boxes):
        opacity = shade / LEVELS
        path = element(
            "path",
            opacity=f"{opacity:g}",
            d=boxes[shade],
        )
        paths.append(path)
    outline = _outline(layout)
    if not paths:
        return [outline]
    cells = element(
        "g",
        *paths,
        class_="c0",
        fill="var(--c)",
        # Smoothed edges would let the page shine through between neighbours.
        shape_rendering="crispEdges",
    )
    return [outline, cells]


def _boxes_by_shade(
    counts: Counts,
    largest: float,
    layout: Layout,
) -> dict[int, str]:
    """The moves of the pen around all cells of a shade."""
    table = []
    for row in shares(counts):
        shades = [_shade(share, largest) for share in row]
        table.append(shades)
    boxes: dict[int, str] = {}
    for label in range(layout.labels):
        of_label = [shades[label] for shades in table]
        for stretch in _stretches(of_label):
            # What is empty is not drawn: most cells are, and the page stays small.
            if stretch.shade:
                drawn = boxes.get(stretch.shade, "")
                boxes[stretch.shade] = drawn + _box(label, stretch, layout)
    return boxes


def _outline(layout: Layout) -> str:
    left = f"{layout.left:.1f}"
    top = f"{layout.top:.1f}"
    right = f"{layout.right:.1f}"
    bottom = f"{layout.bottom:.1f}"
    moves = f"M{left} {top}H{right}V{bottom}H{left}z"
    return element("path", class_="grid", d=moves)


def _stretches(shades: Sequence[int]) -> list[Stretch]:
    stretches = []
    begin = 0
    # One place beyond the last, where the last stretch ends.
    for place in range(1, len(shades) + 1):
        if place == len(shades) or shades[place] != shades[begin]:
            stretches.append(Stretch(begin, place, shades[begin]))
            begin = place
    return stretches


def _box(label: int, stretch: Stretch, layout: Layout) -> str:
    # Ends, not lengths: neighbours share an edge to the last digit, so that no seam shows.
    left = f"{layout.x(stretch.begin):.2f}"
    right = f"{layout.x(stretch.end):.2f}"
    top = f"{layout.y(label):.2f}"
    bottom = f"{layout.y(label + 1):.2f}"
    return f"M{left} {top}H{right}V{bottom}H{left}z"


def _shade(share: float, largest: float) -> int:
    """0 for nothing, else 1 to LEVELS."""
    if not share:
        return 0
    root = math.sqrt(share / largest)
    # At least 1: the rarest label of a client is still there.
    return max(1, round(LEVELS * root))
