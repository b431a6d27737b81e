"""Which labels each client holds, as inline SVG coloured by the page's style sheet.

The drawing goes into pages as it stands; `markup` escapes what it is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedstep.analysis.csv_text import csv_text
from fedstep.report.axis import tick_text
from fedstep.report.heatmap_layout import (
    BARS,
    LINE_HEIGHT,
    MOST_CLIENTS,
    RIGHT,
    TOP,
    WIDTH,
    Counts,
    Layout,
    caption,
    check_counts,
    divided_up,
    largest_share,
    shares,
)
from fedstep.report.markup import element, words_in
from fedstep.report.page import Figure

BOTTOM = 42
LEVELS = 50  # shades; cells of one shade share a path


def heatmap(counts: Counts, labels: Sequence[str], title: str) -> Figure:
    """A column for each client, a row for each label, above it the clients' sizes.

    counts: samples by client, then by label. A cell's colour is the label's share of the client's
    samples; it grows with the square root of the share, so that rare labels show. Of more than 200
    clients the first 200 are drawn, and the caption says so; the numbers to download are all there.
    """
    check_counts(counts, labels)
    shown = counts[:MOST_CLIENTS]
    layout = Layout.of(shown, labels)
    largest = largest_share(shares(shown))
    tooltips = [_tooltip(client, row, labels, layout) for client, row in enumerate(shown)]
    drawing = element(
        "svg",
        *_colour_key(largest),
        *_bars([sum(row) for row in shown], layout),
        *_cells(shown, largest, layout),
        *_row_names(labels, layout),
        *_column_names(layout),
        # Last, so that they lie above what they tell of.
        *tooltips,
        viewBox=f"0 0 {WIDTH} {layout.bottom + BOTTOM:.0f}",
        style="min-width: 720px",
        role="img",
        aria_label=caption(title, counts),
    )
    return Figure(
        title=caption(title, counts),
        svg=drawing,
        csv=csv_text(["client", *labels], [[k, *row] for k, row in enumerate(counts)]),
        full_width=True,
    )


def _cells(counts: Counts, largest: float, layout: Layout) -> list[str]:
    """One path a shade: a rectangle for every run of neighbouring clients with the same shade."""
    boxes: dict[int, str] = {}
    table = [[_shade(share, largest) for share in row] for row in shares(counts)]
    for label in range(layout.labels):
        of_label = [row[label] for row in table]
        for stretch in _stretches(of_label):
            # What is empty is not drawn: most cells are, and the page stays small.
            if stretch.shade:
                drawn = boxes.get(stretch.shade, "")
                boxes[stretch.shade] = drawn + _box(label, stretch, layout)
    paths = []
    for shade in sorted(boxes):
        paths.append(element("path", opacity=f"{shade / LEVELS:g}", d=boxes[shade]))
    if not paths:
        return [_outline(layout)]
    cells = element(
        "g",
        *paths,
        class_="c0",
        fill="var(--c)",
        shape_rendering="crispEdges",
    )
    return [_outline(layout), cells]


def _outline(layout: Layout) -> str:
    left = f"{layout.left:.1f}"
    top = f"{layout.top:.1f}"
    moves = f"M{left} {top}H{layout.right:.1f}V{layout.bottom:.1f}H{left}z"
    return element("path", class_="grid", d=moves)


@dataclass(frozen=True)
class Stretch:
    """Neighbouring clients of one shade: the first of them and the first after them."""

    begin: int
    end: int
    shade: int


def _stretches(shades: Sequence[int]) -> list[Stretch]:
    stretches = []
    begin = 0
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
    return max(1, round(LEVELS * math.sqrt(share / largest)))


def _colour_key(largest: float) -> list[str]:
    """Five shades and the shares they stand for."""
    shades = [step / 5 for step in range(1, 6)]
    begin = WIDTH - RIGHT - 66 * len(shades)
    parts = [_text("share of the client's samples", begin - 10, 14, anchor="end")]
    for place, shade in enumerate(shades):
        x = begin + 66 * place
        # The shade is the root of the share, see heatmap.
        per_cent = float(f"{100 * largest * shade * shade:.2g}")
        box = element(
            "rect",
            class_="c0",
            x=x,
            y=4,
            width=14,
            height=12,
            fill="var(--c)",
            opacity=f"{shade:g}",
        )
        parts.append(box)
        parts.append(_text(f"{tick_text(per_cent)} %", x + 18, 14))
    return parts


def _bars(sizes: Sequence[int], layout: Layout) -> list[str]:
    """The clients' sizes as bars over their columns; words where all are the same."""
    if len(set(sizes)) == 1:
        return [_text(f"every client has {sizes[0]:,} samples", layout.left, 14)]
    largest = max(sizes)
    base = TOP + BARS
    # A gap between bars, unless they are too thin to have one.
    width = layout.column - min(1.0, layout.column / 5)
    bars = ""
    for client, size in enumerate(sizes):
        height = BARS * size / largest
        bars += f"M{layout.x(client):.2f} {base}v-{height:.2f}h{width:.2f}V{base}z"
    left = f"{layout.left:.1f}"
    right = f"{layout.right:.1f}"
    rules = f"M{left} {TOP}H{right}M{left} {base}H{right}"
    return [
        element("path", class_="grid", d=rules),
        element("path", class_="c5", fill="var(--c)", opacity="0.45", d=bars),
        _text(tick_text(largest), layout.left - 6, TOP + 4, anchor="end"),
        _text("samples of each client", layout.left, 14),
    ]


def _row_names(labels: Sequence[str], layout: Layout) -> list[str]:
    """As many names as fit without writing over each other."""
    every = divided_up(int(LINE_HEIGHT), max(1, int(layout.row)))
    names = []
    for k in range(0, len(labels), every):
        names.append(_text(labels[k], layout.left - 6, layout.y(k + 0.5) + 4, anchor="end"))
    middle = (layout.top + layout.bottom) / 2
    title = words_in(
        "text",
        "label",
        class_="axis",
        x=13,
        y=middle,
        text_anchor="middle",
        transform=f"rotate(-90 13 {middle:.1f})",
    )
    return [*names, title]


def _column_names(layout: Layout) -> list[str]:
    # The smallest step whose numbers do not touch.
    every = 50
    for step in (20, 10, 5, 2, 1):
        if step * layout.column >= 34:
            every = step
    names = []
    for k in range(0, layout.clients, every):
        names.append(_text(str(k), layout.x(k + 0.5), layout.bottom + 15, anchor="middle"))
    title = words_in(
        "text",
        "client",
        class_="axis",
        x=(layout.left + layout.right) / 2,
        y=layout.bottom + 34,
        text_anchor="middle",
    )
    return [*names, title]


def _text(words: str, x: float, y: float, anchor: str = "start") -> str:
    return words_in("text", words, x=x, y=y, text_anchor=anchor)


def _tooltip(client: int, row: Sequence[int], labels: Sequence[str], layout: Layout) -> str:
    """An invisible column that shows a client's numbers to the pointer."""
    return element(
        "rect",
        words_in("title", _client_words(client, row, labels)),
        x=f"{layout.x(client):.2f}",
        y=TOP,
        width=f"{layout.column:.2f}",
        height=layout.bottom - TOP,
        fill="transparent",
    )


def _client_words(client: int, row: Sequence[int], labels: Sequence[str]) -> str:
    # Five are as many as a tooltip shows at a glance.
    most_frequent = sorted(range(len(row)), key=lambda label: -row[label])[:5]
    most = ", ".join(f"{labels[k]}: {row[k]:,}" for k in most_frequent if row[k])
    held = sum(n > 0 for n in row)
    plural = "s" * (held != 1)
    return f"client {client}: {sum(row):,} samples, {held} label{plural}; most: {most}"
