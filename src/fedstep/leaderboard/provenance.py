"""Where the numbers of an entry come from: commands, hashes, seeds, machines."""

from __future__ import annotations

from fedstep.leaderboard import FOLDER
from fedstep.leaderboard.outcome import MatchOutcome, SeedOutcome
from fedstep.leaderboard.standing import Standing
from fedstep.leaderboard.words import standing_text
from fedstep.report.metric_text import metric_value
from fedstep.report.page import Cell, PageTable, TableRow


def provenance_name(standing: Standing) -> str:
    """The anchor of a result on the page."""
    outcome = standing.outcome
    return f"{outcome.track.name}/{outcome.entry.name}"


def made_by(standing: Standing) -> PageTable:
    """All that is known of how a result was made, a line each."""
    outcome = standing.outcome
    entry = outcome.entry
    track = outcome.track.name
    rows = [
        _row("outcome", standing_text(standing)),
        _row("command", f"fedstep leaderboard run {track} {entry.name}", code=True),
        _row("check", f"fedstep leaderboard verify {FOLDER}/{track}/{entry.name}.json", code=True),
        _row("hash of track and entry", outcome.digest, code=True),
        _row("method", entry.spec, code=True),
        _row("who, licence", f"{entry.who}, {entry.licence}"),
    ]
    if entry.text:
        rows.append(_row("in words", entry.text))
    if entry.package:
        rows.append(_row("package", f"{entry.package} {entry.version}"))
    if outcome.tuning.scores:
        rows.append(_row("chosen", outcome.tuning.spec, code=True))
        rows.append(_row("tuning", _tuning_text(outcome)))
    # whole numbers and hashes: they are there to be compared, not to be read
    for run in outcome.runs:
        rows.append(_row(f"seed {run.seed}", _run_text(outcome, run), code=True))
    rows.append(_row("made with", _machines(outcome)))
    return PageTable(
        heads=(),
        rows=tuple(rows),
        title=f"{track}: {entry.title}",
        words=True,
        name=provenance_name(standing),
    )


def _row(head: str, text: str, code: bool = False) -> TableRow:
    return TableRow((Cell(head), Cell(text, code=code)))


def _tuning_text(outcome: MatchOutcome) -> str:
    """Every grid point with its score on the clients that were set aside."""
    points = []
    for spec, score in outcome.tuning.scores.items():
        words = "diverged"
        if score is not None:
            words = metric_value(score, outcome.metric)
        points.append(f"{spec}: {words}")
    spent = outcome.tuning.spent
    return f"seed {outcome.tuning.seed}, {spent.rounds:,.0f} rounds; " + "; ".join(points)


def _run_text(outcome: MatchOutcome, run: SeedOutcome) -> str:
    final = metric_value(run.final(outcome.track.window), outcome.metric)
    return f"{final}  run {run.run}  model {run.model[:16]}  partition {run.partition[:16]}"


def _machines(outcome: MatchOutcome) -> str:
    """Each kind of machine once: seeds may have been run on several."""
    kinds: list[str] = []
    for run in outcome.runs:
        programs = [f"{name} {version}" for name, version in run.versions.items()]
        text = ", ".join([*programs, run.cpu])
        if text not in kinds:
            kinds.append(text)
    return "; ".join(kinds)
