"""Which labels each client holds, as inline SVG coloured by the page's style sheet, or as a PNG.

As in svg.py, the text returned goes into pages as it stands: every label goes through `escape`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from fedstep.analysis.csv_text import csv_text
from fedstep.core.errors import InputError
from fedstep.report.axis import tick_text
from fedstep.report.figures import pyplot
from fedstep.report.page import Figure

MOST_CLIENTS = 200  # more columns would be narrower than the eye can tell apart
WIDTH = 1120
RIGHT = 10
TOP = 30
BARS = 46
BOTTOM = 42
LINE_HEIGHT = 13.0  # of text
LEVELS = 50  # shades; cells of one shade share a path

Counts = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Layout:
    """Where the columns (clients) and rows (labels) of the map lie, in pixels."""

    clients: int
    labels: int
    left: float
    top: float
    column: float  # width of one
    row: float  # height of one

    @staticmethod
    def of(counts: Counts, labels: Sequence[str]) -> Layout:
        """Room on the left for the longest name, above for the bars where sizes differ."""
        longest = max(len(label) for label in labels)
        left = max(48.0, 26 + 6.8 * longest)
        sizes = {sum(row) for row in counts}
        bars = 0
        if len(sizes) > 1:
            bars = BARS + 6
        return Layout(
            clients=len(counts),
            labels=len(labels),
            left=left,
            top=TOP + bars,
            column=(WIDTH - RIGHT - left) / len(counts),
            row=_row_height(len(labels)),
        )

    @property
    def right(self) -> float:
        return self.left + self.clients * self.column

    @property
    def bottom(self) -> float:
        return self.top + self.labels * self.row

    def x(self, client: float) -> float:
        """The left edge of a column."""
        return self.left + client * self.column

    def y(self, label: float) -> float:
        """The upper edge of a row."""
        return self.top + label * self.row


def heatmap(counts: Counts, labels: Sequence[str], title: str) -> Figure:
    """A column for each client, a row for each label, above it the clients' sizes.

    counts: samples by client, then by label. A cell's colour is the label's share of the client's
    samples; it grows with the square root of the share, so that rare labels show. Of more than 200
    clients the first 200 are drawn, and the caption says so; the numbers to download are all there.
    """
    _check(counts, labels)
    shown = counts[:MOST_CLIENTS]
    layout = Layout.of(shown, labels)
    largest = _largest(_shares(shown))
    parts = [
        _colour_key(largest),
        *_bars([sum(row) for row in shown], layout),
        _cells(shown, largest, layout),
        _row_names(labels, layout),
        _column_names(layout),
        *(_tooltip(client, row, labels, layout) for client, row in enumerate(shown)),
    ]
    caption = _caption(title, counts)
    size = f'viewBox="0 0 {WIDTH} {layout.bottom + BOTTOM:.0f}" style="min-width: 720px"'
    body = "".join(parts)
    return Figure(
        title=caption,
        svg=f'<svg {size} role="img" aria-label="{escape(caption)}">{body}</svg>',
        csv=csv_text(["client", *labels], [[k, *row] for k, row in enumerate(counts)]),
        full_width=True,
    )


def save_png(counts: Counts, labels: Sequence[str], title: str, path: Path) -> Path | None:
    """The map as a PNG; None where matplotlib is not installed."""
    _check(counts, labels)
    try:
        plt = pyplot()
    except InputError:
        return None
    shown = counts[:MOST_CLIENTS]
    height = 2 + 0.13 * max(len(labels), 20)
    fig, axes = plt.subplots(figsize=(11, height), layout="constrained")
    by_label = list(zip(*_shares(shown), strict=True))
    norm = plt.matplotlib.colors.PowerNorm(0.5, 0, _largest(by_label))
    image = axes.imshow(by_label, aspect="auto", interpolation="nearest", cmap="Blues", norm=norm)
    every = 1
    if len(labels) > 80:
        every = _divided_up(len(labels), 40)
    font_size = 8
    if len(labels) > 30:
        font_size = 6
    axes.set_yticks(range(0, len(labels), every), labels[::every], fontsize=font_size)
    axes.set(title=_caption(title, counts), xlabel="client", ylabel="label")
    fig.colorbar(image, label="share of the client's samples", pad=0.01)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=150)
    plt.close(fig)
    return path


def _check(counts: Counts, labels: Sequence[str]) -> None:
    if not counts or not labels:
        raise InputError(f"{len(counts)} clients and {len(labels)} labels: a map needs one of each")
    for client, row in enumerate(counts):
        if len(row) != len(labels):
            raise InputError(
                f"client {client} has {len(row)} counts, there are {len(labels)} labels"
            )


def _caption(title: str, counts: Counts) -> str:
    if len(counts) <= MOST_CLIENTS:
        return title
    return f"{title} (the first {MOST_CLIENTS} of {len(counts)} clients)"


def _shares(counts: Counts) -> list[list[float]]:
    """Of each client's samples; a client without any has shares of 0."""
    table = []
    for row in counts:
        size = sum(row) or 1
        table.append([n / size for n in row])
    return table


def _largest(shares: Sequence[Sequence[float]]) -> float:
    """The share that gets the full colour; 1 where there is none."""
    return max(max(row) for row in shares) or 1.0


def _row_height(labels: int) -> float:
    if labels > 80:
        return max(2.0, 960 / labels)
    return min(26.0, max(LINE_HEIGHT, 700 / labels))


def _divided_up(whole: int, part: int) -> int:
    """whole / part, rounded up."""
    return -(-whole // part)


def _cells(counts: Counts, largest: float, layout: Layout) -> str:
    """One path a shade: a rectangle for every run of neighbouring clients with the same shade."""
    shades: dict[int, list[str]] = {}
    table = [[_shade(share, largest) for share in row] for row in _shares(counts)]
    for label in range(layout.labels):
        shades_of_label = [row[label] for row in table]
        for begin, end, shade in _stretches(shades_of_label):
            if shade:
                box = _box(label, begin, end, layout)
                shades.setdefault(shade, []).append(box)
    paths = []
    for shade, boxes in sorted(shades.items()):
        paths.append(f'<path opacity="{shade / LEVELS:g}" d="{"".join(boxes)}"/>')
    left, right = f"{layout.left:.1f}", f"{layout.right:.1f}"
    top, bottom = f"{layout.top:.1f}", f"{layout.bottom:.1f}"
    outline = f'<path class="grid" d="M{left} {top}H{right}V{bottom}H{left}z"/>'
    crisp = 'fill="var(--c)" shape-rendering="crispEdges"'
    return f'{outline}<g class="c0" {crisp}>{"".join(paths)}</g>'


def _stretches(shades: Sequence[int]) -> list[tuple[int, int, int]]:
    """Neighbours of one shade: the first of them, the first after them, and the shade."""
    stretches = []
    begin = 0
    for place in range(1, len(shades) + 1):
        if place == len(shades) or shades[place] != shades[begin]:
            stretches.append((begin, place, shades[begin]))
            begin = place
    return stretches


def _box(label: int, begin: int, end: int, layout: Layout) -> str:
    # Ends, not lengths: neighbours share an edge to the last digit, so that no seam shows.
    left = f"{layout.x(begin):.2f}"
    right = f"{layout.x(end):.2f}"
    top = f"{layout.y(label):.2f}"
    bottom = f"{layout.y(label + 1):.2f}"
    return f"M{left} {top}H{right}V{bottom}H{left}z"


def _shade(share: float, largest: float) -> int:
    """0 for nothing, else 1 to LEVELS."""
    if not share:
        return 0
    return max(1, round(LEVELS * math.sqrt(share / largest)))


def _colour_key(largest: float) -> str:
    """Five shades and the shares they stand for."""
    shades = [step / 5 for step in range(1, 6)]
    begin = WIDTH - RIGHT - 66 * len(shades)
    parts = [_text("share of the client's samples", begin - 10, 14, "end")]
    for place, shade in enumerate(shades):
        x = begin + 66 * place
        per_cent = float(f"{100 * largest * shade * shade:.2g}")
        box = f'x="{x}" y="4" width="14" height="12" fill="var(--c)" opacity="{shade:g}"'
        parts.append(f'<rect class="c0" {box}/>')
        parts.append(_text(f"{tick_text(per_cent)} %", x + 18, 14, "start"))
    return "".join(parts)


def _bars(sizes: Sequence[int], layout: Layout) -> list[str]:
    """The clients' sizes as bars over their columns; words where all are the same."""
    if len(set(sizes)) == 1:
        return [_text(f"every client has {sizes[0]:,} samples", layout.left, 14, "start")]
    largest = max(sizes) or 1
    base = TOP + BARS
    width = layout.column - min(1.0, layout.column / 5)
    bars = []
    for client, size in enumerate(sizes):
        height = BARS * size / largest
        bars.append(f"M{layout.x(client):.2f} {base}v-{height:.2f}h{width:.2f}V{base}z")
    left, right = f"{layout.left:.1f}", f"{layout.right:.1f}"
    return [
        f'<path class="grid" d="M{left} {TOP}H{right}M{left} {base}H{right}"/>',
        f'<path class="c5" fill="var(--c)" opacity="0.45" d="{"".join(bars)}"/>',
        _text(tick_text(largest), layout.left - 6, TOP + 4, "end"),
        _text("samples of each client", layout.left, 14, "start"),
    ]


def _row_names(labels: Sequence[str], layout: Layout) -> str:
    """As many names as fit without writing over each other."""
    every = _divided_up(int(LINE_HEIGHT), max(1, int(layout.row)))
    names = [
        _text(labels[k], layout.left - 6, layout.y(k + 0.5) + 4, "end")
        for k in range(0, len(labels), every)
    ]
    middle = (layout.top + layout.bottom) / 2
    turn = f' class="axis" transform="rotate(-90 13 {middle:.1f})"'
    return "".join(names) + _text("label", 13, middle, "middle", turn)


def _column_names(layout: Layout) -> str:
    every = 50
    for step in (20, 10, 5, 2, 1):
        if step * layout.column >= 34:
            every = step
    names = [
        _text(str(k), layout.x(k + 0.5), layout.bottom + 15, "middle")
        for k in range(0, layout.clients, every)
    ]
    middle = (layout.left + layout.right) / 2
    return "".join(names) + _text("client", middle, layout.bottom + 34, "middle", ' class="axis"')


def _text(words: str, x: float, y: float, anchor: str, more: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text{more} {place}>{escape(words)}</text>"


def _tooltip(client: int, row: Sequence[int], labels: Sequence[str], layout: Layout) -> str:
    """An invisible column that shows a client's numbers to the pointer."""
    most_frequent = sorted(range(len(row)), key=lambda label: -row[label])[:5]
    most = ", ".join(f"{labels[k]}: {row[k]:,}" for k in most_frequent if row[k])
    held = sum(n > 0 for n in row)
    plural = "s" * (held != 1)
    words = f"client {client}: {sum(row):,} samples, {held} label{plural}; most: {most}"
    height = layout.bottom - TOP
    place = f'x="{layout.x(client):.2f}" y="{TOP}"'
    size = f'width="{layout.column:.2f}" height="{height:.1f}"'
    return f'<rect {place} {size} fill="transparent"><title>{escape(words)}</title></rect>'
