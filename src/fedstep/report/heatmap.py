"""Which labels each client holds, as inline SVG coloured by the page's style sheet.

The drawing goes into pages as it stands; `markup` escapes what it is given.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedstep.analysis.csv_text import csv_text
from fedstep.report.axis import tick_text
from fedstep.report.heatmap_cells import map_cells
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

BOTTOM = 42  # room for the clients' numbers and the name of the axis
FIRST_LINE = 14  # where the words above the map stand
KEY_WIDTH = 66  # of a shade in the key of the colours, and its number


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
    sizes = [sum(row) for row in shown]
    tooltips = []
    numbers = []
    for client, row in enumerate(shown):
        words = _client_words(client, row, labels)
        tooltips.append(_tooltip(client, words, layout))
    # All clients, also those that are not drawn.
    for client, row in enumerate(counts):
        numbers.append([client, *row])
    words_above = caption(title, counts)
    height = layout.bottom + BOTTOM
    drawing = element(
        "svg",
        *_colour_key(largest),
        *_bars(sizes, layout),
        *map_cells(shown, largest, layout),
        *_row_names(labels, layout),
        *_column_names(layout),
        # Last, so that they lie above what they tell of.
        *tooltips,
        viewBox=f"0 0 {WIDTH} {height:.0f}",
        # On a phone the map is scrolled: shrunk, its columns would be hairlines.
        style="min-width: 720px",
        role="img",
        aria_label=words_above,
    )
    return Figure(
        title=words_above,
        svg=drawing,
        csv=csv_text(["client", *labels], numbers),
        full_width=True,
    )


def _colour_key(largest: float) -> list[str]:
    """Five shades and the shares they stand for."""
    shades = [step / 5 for step in range(1, 6)]
    begin = WIDTH - RIGHT - KEY_WIDTH * len(shades)
    meaning = _text(
        "share of the client's samples",
        begin - 10,
        FIRST_LINE,
        anchor="end",
    )
    parts = [meaning]
    for place, shade in enumerate(shades):
        x = begin + KEY_WIDTH * place
        # The shade is the root of the share, see heatmap.
        per_cent = 100 * largest * shade * shade
        rounded = float(f"{per_cent:.2g}")
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
        parts.append(_text(f"{tick_text(rounded)} %", x + 18, FIRST_LINE))
    return parts


def _bars(sizes: Sequence[int], layout: Layout) -> list[str]:
    """The clients' sizes as bars over their columns; words where all are the same."""
    if len(set(sizes)) == 1:
        words = f"every client has {sizes[0]:,} samples"
        return [_text(words, layout.left, FIRST_LINE)]
    largest = max(sizes)
    base = TOP + BARS
    # A gap between bars, unless they are too thin to have one.
    width = layout.column - min(1.0, layout.column / 5)
    # One path for all of them: an element for each would swell the page.
    bars = ""
    for client, size in enumerate(sizes):
        corner = f"M{layout.x(client):.2f} {base}"
        height = f"{BARS * size / largest:.2f}"
        bars += f"{corner}v-{height}h{width:.2f}V{base}z"
    left = f"{layout.left:.1f}"
    right = f"{layout.right:.1f}"
    rules = f"M{left} {TOP}H{right}M{left} {base}H{right}"
    return [
        element("path", class_="grid", d=rules),
        element(
            "path",
            # Grey: the blue of the cells means shares, and these are numbers.
            class_="c5",
            fill="var(--c)",
            opacity="0.45",
            d=bars,
        ),
        _text(
            tick_text(largest),
            layout.left - 6,
            TOP + 4,
            anchor="end",
        ),
        _text("samples of each client", layout.left, FIRST_LINE),
    ]


def _row_names(labels: Sequence[str], layout: Layout) -> list[str]:
    """As many names as fit without writing over each other."""
    row_pixels = max(1, int(layout.row))
    every = divided_up(int(LINE_HEIGHT), row_pixels)
    names = []
    for k in range(0, len(labels), every):
        name = _text(
            labels[k],
            layout.left - 6,
            layout.y(k + 0.5) + 4,
            anchor="end",
        )
        names.append(name)
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
        name = _text(
            str(k),
            layout.x(k + 0.5),
            layout.bottom + 15,
            anchor="middle",
        )
        names.append(name)
    title = words_in(
        "text",
        "client",
        class_="axis",
        x=(layout.left + layout.right) / 2,
        y=layout.bottom + 34,
        text_anchor="middle",
    )
    return [*names, title]


def _text(
    words: str,
    x: float,
    y: float,
    anchor: str = "start",
) -> str:
    return words_in(
        "text",
        words,
        x=x,
        y=y,
        text_anchor=anchor,
    )


def _tooltip(client: int, words: str, layout: Layout) -> str:
    """An invisible column that shows a client's numbers to the pointer."""
    return element(
        "rect",
        words_in("title", words),
        x=f"{layout.x(client):.2f}",
        y=TOP,
        width=f"{layout.column:.2f}",
        height=layout.bottom - TOP,
        # Not "none", which the pointer would fall through.
        fill="transparent",
    )


def _client_words(
    client: int,
    row: Sequence[int],
    labels: Sequence[str],
) -> str:
    held = [label for label in range(len(row)) if row[label] > 0]
    by_frequency = sorted(held, key=lambda label: -row[label])
    # Five are as many as a tooltip shows at a glance.
    most_frequent = by_frequency[:5]
    most = ", ".join(f"{labels[label]}: {row[label]:,}" for label in most_frequent)
    noun = "labels"
    if len(held) == 1:
        noun = "label"
    samples = f"{sum(row):,} samples"
    return f"client {client}: {samples}, {len(held)} {noun}; most: {most}"
