"""The tables of docs/femnist.md, docs/results.md and the README that a study's results give."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from evidence_curves import in_percent, spread_text
from fedstep.analysis.compare import Comparison, compare
from fedstep.analysis.results import load_results
from fedstep.analysis.statistics import Difference, Spread
from fedstep.analysis.summary import MethodSummary
from fedstep.report.tables import markdown
from pages import RESULTS, Block


def blocks() -> Iterator[Block]:
    """The paper's methods on FEMNIST, mixtures, and every method on one task."""
    yield Block("README.md", "femnist-logreg", femnist_table)
    yield Block("docs/femnist.md", "femnist-logreg", femnist_tables)
    yield Block("docs/results.md", "mixtures", mixtures_table)
    yield Block("docs/results.md", "methods", methods_table)


@cache
def compared(study: str, reference: str | None = None) -> Comparison:
    """What `fedstep compare` has of a committed study."""
    return compare(load_results(RESULTS / study), reference=reference)


def femnist_tables() -> str:
    """`fedstep compare results/femnist-logreg --markdown`, with its titles as headings."""
    lines = []
    for line in markdown(compared("femnist-logreg")).splitlines():
        if line.startswith("**"):
            line = "## " + line.strip("*")
        lines.append(line)
    return "\n".join(lines) + "\n"


def femnist_table() -> str:
    """The paper's methods beside tuned baselines, in short."""
    found = compared("femnist-logreg")
    reference = found.reference
    target = f"{100 * found.target:.0f} %"
    lines = [
        f"| method | tuned | accuracy % | difference to {reference} [95 %] | "
        f"spread by round | trials a step | rounds to {target}, with tuning |",
        "|---" * 7 + "|",
    ]
    grids = load_results(RESULTS / "femnist-logreg").choices
    for method in found.methods:
        points = len(grids[method.label].scores)
        lines.append(femnist_line(method, points))
    return "\n".join(lines) + "\n"


def femnist_line(method: MethodSummary, points: int) -> str:
    """A method; `points` of its grid were tried."""
    tuned = f"{points} points" if points else "no"
    trials = f"{method.trials:.2f}" if method.trials else "-"
    rounds = "never"
    if not math.isinf(method.reach.rounds):
        rounds = f"{method.reach.rounds + method.tuning_rounds:.0f}"
    cells = [
        method.label,
        tuned,
        spread_text(in_percent(method.score), 2),
        difference_text(method.difference),
        f"{100 * method.swing:.2f}",
        trials,
        rounds,
    ]
    return "| " + " | ".join(cells) + " |"


def difference_text(gap: Difference | None) -> str:
    """In points, with its interval."""
    if gap is None:
        return "reference"
    return f"{100 * gap.mean:+.2f} [{100 * gap.low:+.2f}, {100 * gap.high:+.2f}]"


def mixtures_table() -> str:
    """Parts of different papers in one method."""
    lines = [
        "| method | accuracy % | training loss | difference to tuned FedAvg [95 %] |",
        "|---|---|---|---|",
    ]
    for method in compared("mixtures", "FedAvg").methods:
        cells = [
            method.label,
            spread_text(in_percent(method.score), 2),
            spread_text(Spread(method.train_loss.mean, math.nan), 3),
            difference_text(method.difference),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def methods_table() -> str:
    """Every method on digits, and on FEMNIST where it was run there."""
    writers = {method.label: method for method in compared("methods-femnist").methods}
    lines = [
        "| method | digits, accuracy % | training loss | FEMNIST, accuracy % |",
        "|---|---|---|---|",
    ]
    for method in compared("methods").methods:
        on_femnist = "not run"
        if method.label in writers:
            on_femnist = spread_text(in_percent(writers[method.label].score), 1)
        cells = [
            f"`{method.label}`",
            spread_text(in_percent(method.score), 2),
            spread_text(method.train_loss, 3),
            on_femnist,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
