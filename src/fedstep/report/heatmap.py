"""Which labels each client holds, as inline SVG coloured by the page's style sheet, or as a PNG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from fedstep.core.errors import InputError
from fedstep.report.figures import pyplot
from fedstep.report.svg import number

MOST = 200  # clients drawn: more would be narrower than the eye can tell apart
WIDTH, RIGHT, TOP, BARS, BOTTOM = 1120, 10, 30, 46, 42
TEXT = 13.0  # height of a line of text
LEVELS = 50  # shades; cells of one shade share a path

Counts = Sequence[Sequence[int]]


def heatmap(counts: Counts, labels: Sequence[str], title: str) -> str:
    """A figure element: a column for each client, a row for each label, above it the clients' sizes.

    counts: samples by client, then by label. A cell's colour is the label's share of the client's samples; it grows with the
    square root of the share, so that rare labels show. Of more than 200 clients the first 200 are drawn, and the caption says so.
    """
    _check(counts, labels)
    shown = counts[:MOST]
    sizes = [sum(row) for row in shown]
    left = max(48.0, 26 + 6.8 * max(map(len, labels)))
    wide, high = (WIDTH - RIGHT - left) / len(shown), _row_height(len(labels))
    first = TOP + (BARS + 6 if len(set(sizes)) > 1 else 0)
    bottom = first + high * len(labels)
    top = max(map(max, _shares(shown))) or 1.0
    parts = [
        _ramp(top),
        *_bars(sizes, left, wide),
        _cells(shown, top, left, first, wide, high),
        _rows(labels, left, first, high),
        _columns(len(shown), left, bottom, wide),
        *(_told(i, row, labels, left + i * wide, wide, bottom) for i, row in enumerate(shown)),
    ]
    told = (
        title
        if len(shown) == len(counts)
        else f"{title} (the first {MOST} of {len(counts)} clients)"
    )
    svg = (
        f'<svg viewBox="0 0 {WIDTH} {bottom + BOTTOM:.0f}" style="min-width: 720px" role="img" '
        f'aria-label="{escape(told)}">{"".join(parts)}</svg>'
    )
    caption = f"<figcaption>{escape(told)}</figcaption>"
    return f'<figure style="grid-column: 1 / -1">{caption}<div class="scroll">{svg}</div></figure>'


def save_png(counts: Counts, labels: Sequence[str], title: str, path: Path) -> Path | None:
    """The map as a PNG; None where matplotlib is not installed."""
    _check(counts, labels)
    try:
        plt = pyplot()
    except InputError:
        return None
    shown = counts[:MOST]
    fig, axes = plt.subplots(figsize=(11, 2 + 0.13 * max(len(labels), 20)), layout="constrained")
    shares = list(zip(*_shares(shown), strict=True))
    norm = plt.matplotlib.colors.PowerNorm(0.5, 0, max(map(max, shares)) or 1.0)
    image = axes.imshow(shares, aspect="auto", interpolation="nearest", cmap="Blues", norm=norm)
    every = 1 if len(labels) <= 80 else -(-len(labels) // 40)
    axes.set_yticks(
        range(0, len(labels), every), labels[::every], fontsize=8 if len(labels) <= 30 else 6
    )
    told = (
        title
        if len(shown) == len(counts)
        else f"{title} (the first {MOST} of {len(counts)} clients)"
    )
    axes.set(title=told, xlabel="client", ylabel="label")
    fig.colorbar(image, label="share of the client's samples", pad=0.01)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=150)
    plt.close(fig)
    return path


def _check(counts: Counts, labels: Sequence[str]) -> None:
    if not counts or not labels:
        raise InputError(f"{len(counts)} clients and {len(labels)} labels: a map needs one of each")
    wrong = next((i for i, row in enumerate(counts) if len(row) != len(labels)), None)
    if wrong is not None:
        raise InputError(
            f"client {wrong} has {len(counts[wrong])} counts, there are {len(labels)} labels"
        )


def _shares(counts: Counts) -> list[list[float]]:
    return [[n / (sum(row) or 1) for n in row] for row in counts]


def _row_height(labels: int) -> float:
    return min(26.0, max(TEXT, 700 / labels)) if labels <= 80 else max(2.0, 960 / labels)


def _cells(counts: Counts, top: float, left: float, first: float, wide: float, high: float) -> str:
    """One path a shade: a rectangle for every run of neighbouring clients with the same shade."""
    shades: dict[int, list[str]] = {}
    table = [[_shade(s, top) for s in row] for row in _shares(counts)]
    for label in range(len(table[0])):
        begin = 0
        for client in range(1, len(table) + 1):
            shade = table[begin][label]
            if client < len(table) and table[client][label] == shade:
                continue
            if shade:
                # ends, not lengths: neighbours share an edge to the last digit, so that no seam shows
                a, b = f"{left + begin * wide:.2f}", f"{left + client * wide:.2f}"
                c, d = f"{first + label * high:.2f}", f"{first + (label + 1) * high:.2f}"
                shades.setdefault(shade, []).append(f"M{a} {c}H{b}V{d}H{a}z")
            begin = client
    paths = (
        f'<path opacity="{k / LEVELS:g}" d="{"".join(d)}"/>' for k, d in sorted(shades.items())
    )
    right, end = left + len(counts) * wide, first + len(table[0]) * high
    frame = f'<path class="grid" d="M{left:.1f} {first:.1f}H{right:.1f}V{end:.1f}H{left:.1f}z"/>'
    return f'{frame}<g class="c0" fill="var(--c)" shape-rendering="crispEdges">{"".join(paths)}</g>'


def _shade(share: float, top: float) -> int:
    """0 for nothing, else 1 to LEVELS."""
    return max(1, round(LEVELS * (share / top) ** 0.5)) if share else 0


def _ramp(top: float) -> str:
    """The key: five shades and the shares they stand for."""
    steps = [i / 5 for i in range(1, 6)]
    x = WIDTH - RIGHT - 66 * len(steps)
    words = f'<text x="{x - 10}" y="14" text-anchor="end">share of the client\'s samples</text>'
    boxes = (
        f'<rect class="c0" x="{x + 66 * i}" y="4" width="14" height="12" fill="var(--c)" opacity="{s:g}"/>'
        f'<text x="{x + 66 * i + 18}" y="14">{number(float(f"{100 * top * s * s:.2g}"))} %</text>'
        for i, s in enumerate(steps)
    )
    return words + "".join(boxes)


def _bars(sizes: Sequence[int], left: float, wide: float) -> list[str]:
    """The clients' sizes as bars over their columns; words where all are the same."""
    most, base, right = max(sizes) or 1, TOP + BARS, left + len(sizes) * wide
    if len(set(sizes)) == 1:
        return [f'<text x="{left:.1f}" y="14">every client has {sizes[0]:,} samples</text>']
    gap = min(1.0, wide / 5)
    bars = "".join(
        f"M{left + i * wide:.2f} {base}v-{BARS * n / most:.2f}h{wide - gap:.2f}V{base}z"
        for i, n in enumerate(sizes)
    )
    return [
        f'<path class="grid" d="M{left:.1f} {TOP}H{right:.1f}M{left:.1f} {base}H{right:.1f}"/>',
        f'<path class="c5" fill="var(--c)" opacity="0.45" d="{bars}"/>',
        f'<text x="{left - 6:.1f}" y="{TOP + 4}" text-anchor="end">{number(most)}</text>',
        f'<text x="{left:.1f}" y="14">samples of each client</text>',
    ]


def _rows(labels: Sequence[str], left: float, first: float, high: float) -> str:
    every = max(1, -(-int(TEXT) // max(1, int(high))))
    middle = first + len(labels) * high / 2
    names = (
        f'<text x="{left - 6:.1f}" y="{first + (i + 0.5) * high + 4:.1f}" text-anchor="end">{escape(labels[i])}</text>'
        for i in range(0, len(labels), every)
    )
    turn = f"rotate(-90 13 {middle:.1f})"
    axis = f'<text class="axis" x="13" y="{middle:.1f}" transform="{turn}" text-anchor="middle">label</text>'
    return "".join(names) + axis


def _columns(clients: int, left: float, bottom: float, wide: float) -> str:
    every = next(step for step in (1, 2, 5, 10, 20, 50) if step * wide >= 34 or step == 50)
    marks = (
        f'<text x="{left + (i + 0.5) * wide:.1f}" y="{bottom + 15:.1f}" text-anchor="middle">{i}</text>'
        for i in range(0, clients, every)
    )
    middle = left + clients * wide / 2
    axis = f'<text class="axis" x="{middle:.1f}" y="{bottom + 34:.1f}" text-anchor="middle">client</text>'
    return "".join(marks) + axis


def _told(
    i: int, row: Sequence[int], labels: Sequence[str], x: float, wide: float, bottom: float
) -> str:
    """An invisible column that tells a client's numbers to the pointer."""
    most = sorted(range(len(row)), key=lambda k: -row[k])[:5]
    each = ", ".join(f"{labels[k]}: {row[k]:,}" for k in most if row[k])
    held = sum(n > 0 for n in row)
    words = (
        f"client {i}: {sum(row):,} samples, {held} label{'' if held == 1 else 's'}; most: {each}"
    )
    return (
        f'<rect x="{x:.2f}" y="{TOP}" width="{wide:.2f}" height="{bottom - TOP:.1f}" fill="transparent">'
        f"<title>{escape(words)}</title></rect>"
    )
