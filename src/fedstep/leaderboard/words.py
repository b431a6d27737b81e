"""Numbers of the leaderboard in words, for the terminal and for the page."""

from __future__ import annotations

from math import inf

from fedstep.leaderboard.standing import Standing
from fedstep.leaderboard.track import Track
from fedstep.report.method_text import count_text
from fedstep.report.metric_text import metric_spread, with_unit
from fedstep.run.columns import ACCURACY

NO_RESULT = "There is no result yet: fedstep leaderboard run TRACK ENTRY makes one."


def cost_text(value: float) -> str:
    """Rounds, gradients or megabytes."""
    return count_text(value)


def target_text(track: Track) -> str:
    """The target with its unit, where the track's metric is the usual one."""
    metrics = track.setting.metrics
    if not metrics or metrics[0] == ACCURACY.name:
        return f"{100 * track.target:g} %"
    return f"{track.target:g}"


def standing_text(standing: Standing) -> str:
    """How an entry stands, in a sentence without a verb."""
    outcome = standing.outcome
    metric = outcome.metric
    score = with_unit(metric_spread(standing.score, metric), metric)
    tuning = cost_text(outcome.tuning.spent.rounds)
    target = target_text(outcome.track)
    if standing.reach.rounds == inf:
        return f"{target} never reached, {tuning} rounds of tuning, in the end {score}"
    total = cost_text(standing.total.rounds)
    return f"{target} after {total} rounds, {tuning} of them tuning, in the end {score}"


def track_facts(track: Track) -> str:
    """The rules of a track in a line."""
    setting = track.setting
    local = f"{setting.epochs} epochs"
    if setting.epochs is None:
        local = f"{setting.steps} steps"
    window = f"{track.window} evaluations in a row"
    return (
        f"{setting.data}, {setting.model}, {setting.partition or 'natural clients'}; "
        f"{setting.per_round} clients a round, {local} of batch {setting.batch}. "
        f"Target {target_text(track)}, mean of {window} and of {track.seeds} seeds; "
        f"at most {setting.rounds} rounds a run; "
        f"{track.tuning.rounds} rounds a grid point, judged by {track.tuning.clients} clients."
    )
