"""The runs of benchmarks/answers, as the figures and tables of docs/evidence.md ask for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

from answers_studies import Row
from evidence_curves import in_percent
from fedstep.analysis.statistics import Spread
from pages import MEASURED

STORE = MEASURED / "answers.jsonl"


@cache
def read_rows() -> list[Row]:
    """Every run of benchmarks/answers."""
    return [json.loads(line) for line in STORE.read_text().splitlines()]


def places(rows: Sequence[Row], question: str) -> list[float]:
    """Where a question was asked, in order."""
    return sorted({row["at"] for row in rows if row["question"] == question})


def spread_at(rows: Sequence[Row], question: str, at: float, method: str) -> Spread:
    """Over the seeds; a run that broke counts as 0."""
    found = [
        row["score"] or 0.0
        for row in rows
        if (row["question"], row["at"], row["method"]) == (question, at, method)
    ]
    return in_percent(Spread.of(found))


def seeds_at(rows: Sequence[Row], question: str, at: float, method: str) -> int:
    """How many runs there are."""
    wanted = (question, at, method)
    return sum((row["question"], row["at"], row["method"]) == wanted for row in rows)


def best_of(rows: Sequence[Row], name: str, question: str, at: float) -> str:
    """A method at the setting that is best on seed 0."""
    scores = {
        row["method"]: row["score"] or 0.0
        for row in rows
        if (row["question"], row["at"], row["seed"]) == (question, at, 0)
        and row["method"].startswith(f"{name}(")
    }
    return max(scores, key=lambda method: scores[method])
