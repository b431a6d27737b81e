"""The outcome of a comparison in a sentence or two, with its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence

from fedstep.analysis.compare import Comparison, Line
from fedstep.report.tables import gap, percent, spread


def verdict(comparison: Comparison) -> str:
    """Who came first, how far ahead of the next, and who never got to the target."""
    scored = [line for line in comparison.lines if line.accuracy.mean > 0]
    if not scored:
        return "No accuracy was measured."
    ranked = sorted(scored, key=lambda line: -line.accuracy.mean)
    if len(comparison.lines) == 1:
        return _single(ranked[0])
    sentences = [
        _winner(ranked[0]),
        *_runner_up(ranked, comparison),
        *_stragglers(comparison),
    ]
    return " ".join(sentences)


def _single(line: Line) -> str:
    """One method has nothing to be compared with."""
    reached = f"{line.label} reached {spread(line.accuracy, 100)} % accuracy"
    best = f"best {spread(line.best, 100)} % at round {line.best_round:.0f}"
    return f"{reached} ({best})."


def _winner(line: Line) -> str:
    seeds = f"{line.seeds} seed" + "s" * (line.seeds > 1)
    return f"Highest accuracy: {line.label}, {spread(line.accuracy, 100)} % ({seeds})."


def _runner_up(ranked: Sequence[Line], comparison: Comparison) -> list[str]:
    """Nothing where the differences are taken to another method than the best."""
    nearest = next((line for line in ranked[1:] if line.difference), None)
    if ranked[0].label != comparison.reference or nearest is None or nearest.difference is None:
        return []
    sentences = [f"Next: {nearest.label}, {gap(nearest.difference)} points."]
    if nearest.difference.low <= 0 <= nearest.difference.high:
        sentences.append("The interval contains 0: these seeds do not tell the two apart.")
    return sentences


def _stragglers(comparison: Comparison) -> list[str]:
    never = [line.label for line in comparison.lines if not line.reached]
    if not never:
        return []
    return [f"Never at {percent(comparison.target)} %: {', '.join(never)}."]
