"""Recorded runs of a study held against the same runs made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedstep.analysis.results import LabelledRun, labelled_runs
from fedstep.analysis.statistics import Spread
from fedstep.analysis.verdict import Machine, Verdict, score_verdict
from fedstep.core.errors import InputError, unknown
from fedstep.run.columns import metric_infos
from fedstep.run.packed import short
from fedstep.run.record import RoundReport
from fedstep.study.again import RunAgain, run_again

TIMES = ("seconds",)  # what no machine has twice

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Recorded:
    """A finished run, and those of the same method with other seeds."""

    run: LabelledRun
    siblings: tuple[LabelledRun, ...]  # itself among them

    @property
    def name(self) -> str:
        return f"{self.run.label}, seed {self.run.job.seed}"


def recorded_runs(
    home: Path,
    labels: Sequence[str] = (),
    seed: int | None = None,
) -> list[Recorded]:
    """One finished run of every method, or of these: with this seed, or the first that there is."""
    finished = [run for run in labelled_runs(home) if run.stored.done]
    known = list(dict.fromkeys(run.label for run in finished))
    for label in labels:
        if label not in known:
            raise InputError(unknown("method with a finished run", label, known))
    chosen = []
    for label in labels or known:
        siblings = tuple(run for run in finished if run.label == label)
        wanted = [run for run in siblings if seed in (None, run.job.seed)]
        if not wanted:
            seeds = ", ".join(str(run.job.seed) for run in siblings)
            raise InputError(f"{label}: no finished run with seed {seed}; there are {seeds}")
        chosen.append(Recorded(wanted[0], siblings))
    if not chosen:
        raise InputError(f"{home}: no finished run; finish one with fedstep run STUDY --out {home}")
    return chosen


def verify_run(
    recorded: Recorded,
    data: Path | None,
    rounds: int | None = None,
    workers: int = 1,
    watch: Callable[[RoundReport], None] = lambda row: None,
) -> Verdict:
    """Make a run again, from its first round, and compare; rounds: only so many of them."""
    job = recorded.run.job
    whole = job.setting.rounds
    if rounds is None:
        rounds = whole
    if not 1 <= rounds <= whole:
        raise InputError(f"--rounds {rounds}: the runs have {whole}; give 1 to {whole}")
    again = run_again(job, data, rounds, workers, watch)
    return run_verdict(recorded, again)


def run_verdict(recorded: Recorded, again: RunAgain) -> Verdict:
    """The same rows where they can be the same, else a score within the spread of the seeds."""
    stored = recorded.run.stored
    last = len(again.rows)
    different = first_difference(stored.rows, again.rows)
    if different is None:
        return Verdict(True, f"{recorded.name}: the same numbers in rounds 1 to {last}")
    # after the numbers: another version may describe the same algorithm in other words
    changed = changed_fields(stored.spec, again.identity)
    if changed:
        names = ", ".join(changed)
        return Verdict(
            False,
            f"{recorded.name}: {different} and it is no longer the same run: {names} differ",
        )
    machine = machine_of(stored.spec)
    if machine.is_like_this_one():
        return Verdict(
            False,
            f"{recorded.name}: {different} on the same kind of CPU ({machine.cpu})",
        )
    return score_of_last_evaluation(recorded, again, machine)


def machine_of(spec: Mapping[str, Any]) -> Machine:
    """Where a run was recorded; older versions do not say on which CPU."""
    return Machine(spec.get("cpu", "an unknown CPU"), spec["versions"])


def score_of_last_evaluation(recorded: Recorded, again: RunAgain, machine: Machine) -> Verdict:
    """By the last round that was evaluated both times."""
    metric = metric_infos(recorded.run.stored.spec)[0]
    pairs = zip(recorded.run.stored.rows, again.rows, strict=False)
    both = [
        (before, now)
        for before, now in pairs
        if before[metric.name] is not None and now[metric.name] is not None
    ]
    if not both:
        return Verdict(
            False,
            f"{recorded.name}: other bits on another machine, and nothing was evaluated in "
            f"{len(again.rows)} rounds; give --rounds {recorded.run.job.setting.every} or more",
        )
    before, now = both[-1]
    number = before["round"]
    at_round = [run.stored.rows[number - 1][metric.name] for run in recorded.siblings]
    spread = Spread.of([value for value in at_round if value is not None])
    return score_verdict(
        f"{recorded.name}, round {number}: {metric.title}",
        before[metric.name],
        now[metric.name],
        spread.std,
        machine,
    )


def changed_fields(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What decides the numbers and is another today; an older version wrote fewer fields."""
    return [name for name in now if name in before and before[name] != now[name]]


def first_difference(recorded: Sequence[Row], again: Sequence[Row]) -> str | None:
    """The first number that is another, in digits that the compact file keeps."""
    for before, now in zip(recorded, again, strict=False):
        for column, value in before.items():
            # the last round is always evaluated, also where the recorded run went on
            only_now = value is None and now["round"] == len(again)
            if column in TIMES or only_now:
                continue
            if short(value) != short(now.get(column)):
                return (
                    f"round {before['round']} has {column} {short(now.get(column))}, "
                    f"recorded {short(value)},"
                )
    return None
