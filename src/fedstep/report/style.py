"""How a method looks in every chart, table and legend: a colour, a dash pattern and a marker."""

from __future__ import annotations

from colorsys import hls_to_rgb
from dataclasses import dataclass

# After Okabe and Ito: they differ for colour-blind eyes. One shade for light pages, one for dark.
COLOURS = (
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff8c42"),
    ("#009e73", "#2fd0a0"),
    ("#a51281", "#e39bca"),
    ("#6b4700", "#e6c229"),
    ("#444444", "#c8c8c8"),
    ("#7b3fe4", "#b35cff"),
    ("#b00020", "#ff6b7d"),
)

GOLDEN_ANGLE = 137.508  # degrees; multiples of it never come near to each other for long
# Lightness of further colours on light pages and on dark ones, in turns.
FURTHER_LIGHTNESS = ((0.30, 0.78), (0.23, 0.68), (0.16, 0.88))

# Lengths of strokes and gaps; the first is a solid line.
DASHES = ("", "9 3", "2.5 2.5", "10 3 2 3", "5 3")

# Outlines of about seven pixels around the pen, filled with the line's colour. All moves are
# relative and the outlines closed, so that one path can hold many of them.
MARKERS = (
    "m-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z",  # disc
    "m-3.1 -3.1h6.2v6.2h-6.2z",  # square
    "m0 -4l3.9 6.9h-7.8z",  # triangle, tip up
    "m0 -4.4l4.4 4.4l-4.4 4.4l-4.4 -4.4z",  # diamond
    "m0 4l3.9 -6.9h-7.8z",  # triangle, tip down
    "m-1.3 -4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z",  # plus
    "m-1.5 -4.2h3v8.4h-3z",  # upright bar
)


@dataclass(frozen=True)
class LineStyle:
    """A colour of the style sheet, the dashes of the line and the outline of its marker."""

    colour: int  # the number that `colour_pair` takes: the style sheet has a class for each
    dash: str
    marker: str


def line_style(index: int) -> LineStyle:
    """The look of the method with this number.

    No two methods share a colour. Dashes and markers are 5 and 7, which share no divisor: what is
    left in grey repeats after 35 methods.
    """
    return LineStyle(
        colour=index,
        dash=DASHES[index % len(DASHES)],
        marker=MARKERS[index % len(MARKERS)],
    )


def colour_pair(index: int) -> tuple[str, str]:
    """The colour with this number on light pages and on dark ones; each exists once.

    The first are chosen for colour-blind eyes. Further ones go around the circle of hues by the
    golden angle: a page with so many lines is read by markers and by hiding lines.
    """
    if index < len(COLOURS):
        return COLOURS[index]
    further = index - len(COLOURS)
    hue = (further * GOLDEN_ANGLE % 360) / 360
    light, dark = FURTHER_LIGHTNESS[further % len(FURTHER_LIGHTNESS)]
    return _hex(hue, light), _hex(hue, dark)


def _hex(hue: float, lightness: float) -> str:
    channels = hls_to_rgb(hue, lightness, 0.75)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)
