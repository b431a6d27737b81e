"""The tables of docs/results.md."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from evidence_curves import in_percent, spread_text
from fedstep.analysis.compare import Comparison, compare
from fedstep.analysis.results import load_results
from fedstep.analysis.statistics import Difference, Spread
from pages import RESULTS, Block


def blocks() -> Iterator[Block]:
    """Mixtures, and every method on one task."""
    yield Block("docs/results.md", "mixtures", mixtures_table)
    yield Block("docs/results.md", "methods", methods_table)


@cache
def compared(study: str, reference: str | None = None) -> Comparison:
    """What `fedstep compare` has of a committed study."""
    return compare(load_results(RESULTS / study), reference=reference)


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
