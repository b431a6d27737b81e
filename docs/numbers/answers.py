"""The figures of docs/evidence.md, and the tables below them, from committed results alone.

They are made of benchmarks/results/answers.jsonl (`python benchmarks/answers/run.py`) and of the
studies under results/.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from answers_rows import best_of, places, read_rows, seeds_at, spread_at
from answers_searches import armijo_table, draw_armijo
from answers_settings import draw_settings, settings_table
from answers_studies import Row, draw_cost, draw_kappa, kappa_table, save
from evidence_curves import in_percent, spread_text
from fedstep.analysis.statistics import Spread
from fedstep.report.figures import pyplot
from fedstep.report.style import colour_pair

SEEDS = 3
MARKS = "osD^v*PX<"


@dataclass(frozen=True)
class Line:
    """A method of a chart: mean and deviation over seeds at every place."""

    name: str
    at: Sequence[float]
    spreads: Sequence[Spread]


def sweep_lines(rows: Sequence[Row], question: str) -> list[Line]:
    """Nothing set, tuned once, tuned anew at every place."""
    at_base = best_of(rows, "fedavg", "base", 1.0)
    adam_at_base = best_of(rows, "fedadam", "base", 1.0)
    methods: dict[str, Callable[[float], str]] = {
        "FedPace, nothing set": lambda at: "fedpace",
        "FedAvg, tuned anew at every point": lambda at: best_of(rows, "fedavg", question, at),
        "FedAdam, tuned anew at every point": lambda at: best_of(rows, "fedadam", question, at),
        "FedAvg, tuned on the base task": lambda at: at_base,
        "FedAdam, tuned on the base task": lambda at: adam_at_base,
        "FedSLS, nothing set": lambda at: "fedsls",
    }
    # the last method of a place says that it is whole
    at = [p for p in places(rows, question) if seeds_at(rows, question, p, adam_at_base) == SEEDS]
    lines = []
    for name, method in methods.items():
        spreads = [spread_at(rows, question, place, method(place)) for place in at]
        lines.append(Line(name, at, spreads))
    return lines


def sensitivity_lines(rows: Sequence[Row]) -> list[Line]:
    """A line for every setting that was varied."""
    names = dict.fromkeys(row["question"] for row in rows if ": " in row["question"])
    # ours first: they have the same colours as in the other figures
    names = dict.fromkeys(sorted(names, key=lambda name: not name.startswith("FedPace")))
    lines = []
    for name in names:
        at = places(rows, name)
        spreads = []
        for place in at:
            found = [r["score"] or 0.0 for r in rows if (r["question"], r["at"]) == (name, place)]
            spreads.append(in_percent(Spread.of(found)))
        lines.append(Line(name, at, spreads))
    return lines


def line_table(head: str, lines: Sequence[Line]) -> str:
    """The numbers of a chart."""
    at = lines[0].at
    rows = [
        f"| {head} | " + " | ".join(f"{place:g}" for place in at) + " |",
        "|---" * (len(at) + 1) + "|",
    ]
    for line in lines:
        cells = [spread_text(spread) for spread in line.spreads]
        rows.append(f"| {line.name} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def draw_lines(axes: Any, lines: Sequence[Line], x_label: str) -> None:
    """Means with bars of one deviation, over a logarithmic axis."""
    for place, line in enumerate(lines):
        means = [spread.mean for spread in line.spreads]
        bars = [0.0 if math.isnan(spread.std) else spread.std for spread in line.spreads]
        axes.errorbar(
            line.at,
            means,
            bars,
            color=colour_pair(place)[0],
            marker=MARKS[place % len(MARKS)],
            markersize=5,
            linewidth=2.2 if line.name.startswith("FedPace") else 1.3,
            linestyle="-" if line.name.startswith("FedPace") else "--",
            zorder=3 if line.name.startswith("FedPace") else 2,
            capsize=2,
            label=line.name,
        )
    axes.set_xscale("log")
    axes.set_xlabel(x_label)
    axes.set_ylabel("test accuracy, %")
    axes.grid(alpha=0.25)


def save_lines(name: str, lines: Sequence[Line], x_label: str) -> None:
    """One chart with its names beside it."""
    plt = pyplot()
    fig, axes = plt.subplots(figsize=(8.6, 3.6), layout="constrained")
    draw_lines(axes, lines, x_label)
    # ticks where something was measured: between them nothing is known
    axes.set_xticks(lines[0].at, [f"{at:g}" for at in lines[0].at])
    axes.minorticks_off()
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8.5)
    save(fig, name)


def start_lines(rows: Sequence[Row], at: float) -> dict[str, list[float]]:
    """Mean accuracy by round, from scratch (0) or from a trained network (1)."""
    methods = {
        "FedPace, nothing set": "fedpace",
        "FedAvg, best step": best_of(rows, "fedavg", "start", at),
        "FedSLS, nothing set": "fedsls",
    }
    curves = {}
    for name, method in methods.items():
        found = [
            row["curve"]
            for row in rows
            if (row["question"], row["at"], row["method"]) == ("start", at, method)
        ]
        curves[name] = [100 * fmean(values) for values in zip(*found, strict=True)]
    return curves


def draw_start(rows: Sequence[Row]) -> None:
    """Two panels: where a run begins."""
    plt = pyplot()
    fig, panels = plt.subplots(1, 2, figsize=(8.6, 3.4), sharey=True, layout="constrained")
    for axes, at, title in zip(
        panels, (0.0, 1.0), ("from scratch", "from a trained network"), strict=True
    ):
        for place, (name, curve) in enumerate(start_lines(rows, at).items()):
            colour = colour_pair((0, 1, 4)[place])[0]
            axes.plot(range(1, len(curve) + 1), curve, color=colour, label=name)
        axes.set(title=title, xlabel="round")
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("test accuracy, %")
    panels[1].legend(frameon=False, fontsize=8.5)
    save(fig, "start")


def start_table(rows: Sequence[Row]) -> str:
    """Accuracy by round, from both starts."""
    rounds = (1, 3, 10, 40)
    lines = [
        "| start, method | " + " | ".join(f"round {number}" for number in rounds) + " |",
        "|---" * (len(rounds) + 1) + "|",
    ]
    for at, title in ((0.0, "scratch"), (1.0, "trained")):
        for name, curve in start_lines(rows, at).items():
            cells = [f"{curve[number - 1]:.1f}" for number in rounds]
            lines.append(f"| {title}, {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


SWEEPS = {
    "heterogeneity": "Dirichlet parameter of the deal (100: equal shares at random)",
    "participation": "clients in a round, of 100",
    "local steps": "local steps",
    "batch": "samples of a batch",
    "scale": "factor on all inputs",
}


def draw_all() -> None:
    """Every figure."""
    rows = read_rows()
    for question, label in SWEEPS.items():
        save_lines(question.replace(" ", "-"), sweep_lines(rows, question), label)
    save_lines(
        "sensitivity",
        sensitivity_lines(rows),
        "setting, as a multiple of its best or default value",
    )
    draw_settings(rows)
    draw_start(rows)
    draw_cost()
    draw_armijo(rows)
    draw_kappa()


def answer_blocks() -> Iterator[tuple[str, Callable[[], str]]]:
    """The tables by their names on the page."""
    for question in SWEEPS:
        yield question, partial(sweep_table, question)
    yield "sensitivity", lambda: line_table("setting, times", sensitivity_lines(read_rows()))
    yield "settings", lambda: settings_table(read_rows())
    yield "start", lambda: start_table(read_rows())
    yield "armijo", lambda: armijo_table(read_rows())
    yield "kappa", kappa_table


def sweep_table(question: str) -> str:
    """A question that was asked at several places."""
    return line_table(question, sweep_lines(read_rows(), question))
