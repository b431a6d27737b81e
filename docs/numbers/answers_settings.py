"""What the arguments of fedpace matter: a table and a figure, a setting at a time."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from answers_rows import spread_at
from answers_studies import Row, save
from evidence_curves import spread_text
from fedstep import zoo
from fedstep.analysis.statistics import Spread
from fedstep.report.figures import pyplot
from fedstep.report.style import colour_pair

OURS = "fedpace"
PLACE = 0.0  # the settings vary and not the task
# networks by the question that was asked on them
NETWORKS = {"settings": "one hidden layer", "settings, deep": "four hidden layers"}
CHANGED = re.compile(rf"{OURS}\((\w+)=([^)]+)\)")


@dataclass(frozen=True)
class Varied:
    """A setting on one network: what every value of it gives."""

    name: str
    network: str
    default: float
    spreads: dict[float, Spread]  # by value, in order


def varied(rows: Sequence[Row]) -> list[Varied]:
    """Setting by setting, in the order of the method's own arguments."""
    found = []
    for name, argument in inspect.signature(zoo.fedpace).parameters.items():
        for question, network in NETWORKS.items():
            spreads = {argument.default: spread_at(rows, question, PLACE, OURS)}
            for method, value in _changed(rows, question, name).items():
                spreads[value] = spread_at(rows, question, PLACE, method)
            in_order = dict(sorted(spreads.items()))
            found.append(Varied(name, network, argument.default, in_order))
    return found


def _changed(rows: Sequence[Row], question: str, name: str) -> dict[str, float]:
    """The methods with another value of the setting, and that value."""
    methods = {row["method"] for row in rows if row["question"] == question}
    values = {}
    for method in sorted(methods):
        match = CHANGED.fullmatch(method)
        if match and match.group(1) == name:
            values[method] = float(match.group(2))
    return values


def settings_table(rows: Sequence[Row]) -> str:
    """A row for every setting and network; the default is in the middle, in bold type."""
    lines = [
        "| setting | network | far below | below | default | above | far above |",
        "|---" * 7 + "|",
    ]
    for one in varied(rows):
        cells = [_cell(one, value) for value in one.spreads]
        lines.append(f"| `{one.name}` | {one.network} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(one: Varied, value: float) -> str:
    text = f"{value:g}: {spread_text(one.spreads[value])}"
    if value == one.default:
        return f"**{text}**"
    return text


def draw_settings(rows: Sequence[Row]) -> None:
    """A panel for every setting, a line for every network."""
    found = varied(rows)
    names = list(dict.fromkeys(one.name for one in found))
    fig, grid = pyplot().subplots(2, 4, figsize=(11.6, 5.2), sharey=True, layout="constrained")
    for axes, name in zip(grid.flat, names, strict=False):
        of_name = [one for one in found if one.name == name]
        for place, one in enumerate(of_name):
            _draw(axes, one, colour_pair(place)[0])
        axes.set(title=name)
        axes.grid(alpha=0.25)
    for axes in grid[:, 0]:
        axes.set_ylabel("test accuracy, %")
    grid.flat[0].legend(frameon=False, fontsize=8.5)
    for axes in grid.flat[len(names) :]:
        axes.set_axis_off()
    save(fig, "settings")


def _draw(axes: Any, one: Varied, colour: str) -> None:
    """Values beside each other, however far apart they lie: the marked one is the default."""
    values = list(one.spreads)
    means = [spread.mean for spread in one.spreads.values()]
    bars = [spread.std for spread in one.spreads.values()]
    places = range(len(values))
    axes.errorbar(places, means, bars, color=colour, capsize=2, label=one.network)
    middle = values.index(one.default)
    axes.plot([middle], [means[middle]], "o", color=colour, markersize=7)
    axes.set_xticks(places, [f"{value:g}" for value in values])
