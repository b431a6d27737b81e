"""Line charts as inline SVG, coloured by the page's style sheet (light and dark)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 330
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 44


@dataclass(frozen=True)
class Series:
    """One line: points, an optional band (low, high), and the number of its colour; or the points alone, as dots."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int
    band: tuple[Sequence[float], Sequence[float]] | None = None
    dashed: bool = False
    dots: bool = False


@dataclass(frozen=True)
class Axis:
    """A scale from values to pixels, with its ticks."""

    low: float
    high: float
    first: float
    last: float
    log: bool

    @staticmethod
    def over(values: Sequence[float], first: float, last: float, log: bool) -> Axis:
        """A scale that holds all finite (for a logarithm: positive) values."""
        good = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
        low, high = (min(good), max(good)) if good else (0.1 if log else 0.0, 1.0)
        if log:
            low, high = (low, high) if high > 1.5 * low else (low / 1.5, high * 1.5)
        elif high - low < 1e-12 * max(1.0, abs(high)):
            low, high = low - 0.5, high + 0.5
        return Axis(low, high, first, last, log)

    def at(self, value: float) -> float:
        """The pixel of a value; NaN where it has none."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return math.nan
        f: Callable[[float], float] = math.log10 if self.log else float
        part = (f(value) - f(self.low)) / (f(self.high) - f(self.low))
        return self.first + part * (self.last - self.first)

    def ticks(self) -> list[float]:
        """About five round values."""
        if self.log:
            low, high = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            steps = [1.0, 2.0, 5.0] if high - low <= 2 else [1.0]
            every = max(1, round((high - low) / 6))
            marks = [s * 10.0**k for k in range(low, high + 1, every) for s in steps]
        else:
            raw = (self.high - self.low) / 5
            unit = 10.0 ** math.floor(math.log10(raw))
            step = next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= raw * 0.999)
            marks = [
                k * step
                for k in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)
            ]
        return [
            m for m in marks if self.low * (1 - 1e-9) - 1e-12 <= m <= self.high * (1 + 1e-9) + 1e-12
        ]


def chart(
    series: Sequence[Series],
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    note: str = "",
    keys: bool = False,
    settled: float = 0.0,
) -> str:
    """A figure element with its caption and, below, a note; `keys` names the lines that the page's legend does not.

    The y axis holds what each line does after the part `settled` of its points; what lies outside is cut off.
    """
    xs = Axis.over([v for s in series for v in s.x], LEFT, WIDTH - RIGHT, log_x)
    values = [
        v
        for s in series
        for line in (s.y, *(s.band or ()))
        for v in line[int(settled * len(line)) :]
    ]
    ys = Axis.over(values, HEIGHT - BOTTOM, TOP, log_y)
    area = f'<rect x="{LEFT}" y="{TOP - 2}" width="{WIDTH - RIGHT - LEFT}" height="{HEIGHT - BOTTOM - TOP + 4}"/>'
    lines = "".join(_drawn(s, xs, ys) for s in series)
    clipped = f'<clipPath id="area">{area}</clipPath><g clip-path="url(#area)">{lines}</g>'
    parts = [*_frame(xs, ys, x_label, y_label), clipped]
    many = ' class="many"' if len(series) > 6 else ""  # bands one upon another would hide the lines
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    svg = f'<svg{many} {size} role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
    named = "".join(
        f"<span class='key c{colour}'></span>{escape(name)} "
        for name, colour in dict.fromkeys((s.name, s.colour) for s in series if keys and s.name)
    )
    below = f"<p class='note'>{named}{escape(note)}</p>" if named or note else ""
    return f"<figure><figcaption>{escape(title)}</figcaption>{svg}{below}</figure>"


def number(value: float) -> str:
    """A short form for ticks."""
    if value == 0:
        return "0"
    if 1e4 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    if abs(value) >= 1e7 or abs(value) < 1e-3:
        mantissa, exponent = f"{value:.1e}".split("e")
        head = mantissa.removesuffix(".0")
        return f"{head}e{int(exponent)}"
    return f"{value:.4g}"


def _frame(xs: Axis, ys: Axis, x_label: str, y_label: str) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for tick in ys.ticks():
        y = ys.at(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{number(tick)}</text>'
        )
    for tick in xs.ticks():
        x = xs.at(tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{bottom}"/>')
        anchor = "middle" if x < right - 14 else "end"  # inside the picture
        shift = 0 if anchor == "middle" else RIGHT
        parts.append(
            f'<text x="{x + shift:.1f}" y="{bottom + 16}" text-anchor="{anchor}">{number(tick)}</text>'
        )
    middle_x, middle_y = (LEFT + right) / 2, (TOP + bottom) / 2
    parts.append(
        f'<text class="axis" x="{middle_x}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>'
    )
    turn = f"rotate(-90 13 {middle_y})"
    parts.append(
        f'<text class="axis" x="13" y="{middle_y}" transform="{turn}" text-anchor="middle">{escape(y_label)}</text>'
    )
    return parts


def _drawn(s: Series, xs: Axis, ys: Axis) -> str:
    inner = ""
    if s.band:
        low, high = s.band
        ends = [(xs.at(x), ys.at(a), ys.at(b)) for x, a, b in zip(s.x, low, high, strict=True)]
        solid = [e for e in ends if not any(map(math.isnan, e))]
        if len(solid) > 1:
            outline = [f"{x:.1f} {b:.1f}" for x, _, b in solid] + [
                f"{x:.1f} {a:.1f}" for x, a, _ in reversed(solid)
            ]
            inner += f'<path class="band" d="M{"L".join(outline)}Z"/>'
    points = [(xs.at(x), ys.at(y)) for x, y in zip(s.x, s.y, strict=True)]
    inner += _dots(points) if s.dots else _line(points, s.dashed)
    return f'<g class="series c{s.colour}" data-name="{escape(s.name)}"><title>{escape(s.name)}</title>{inner}</g>'


def _line(points: Sequence[tuple[float, float]], dashed: bool) -> str:
    path, pen = [], False
    for x, y in points:
        if math.isnan(x) or math.isnan(y):
            pen = False
            continue
        path.append(f"{'L' if pen else 'M'}{x:.1f} {y:.1f}")
        pen = True
    drawn = f'<path class="line{" dashed" * dashed}" d="{"".join(path)}"/>'
    if len(path) == 1:
        x, y = next(p for p in points if not math.isnan(p[0] + p[1]))
        drawn += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
    return drawn


def _dots(points: Sequence[tuple[float, float]]) -> str:
    """One path of strokes without length: their round ends are the dots, in a fraction of the bytes of circles."""
    drawn = (f"M{x:.1f} {y:.1f}h0" for x, y in points if not math.isnan(x + y))
    return f'<path class="dots" d="{"".join(drawn)}"/>'
