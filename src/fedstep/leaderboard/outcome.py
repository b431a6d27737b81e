"""What an entry did on a track: one JSON file, small enough for version control."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from fedstep.analysis.statistics import Spread
from fedstep.core.errors import InputError
from fedstep.leaderboard.entry import BoardEntry
from fedstep.leaderboard.match import Match
from fedstep.leaderboard.track import Track
from fedstep.run.columns import MetricInfo
from fedstep.run.files import read_sealed, write_sealed
from fedstep.study.typed import typed


@dataclass(frozen=True)
class Spending:
    """What was spent: rounds, gradients (a forward pass alone is a third), megabytes both ways."""

    rounds: float
    gradients: float
    megabytes: float

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            self.rounds + other.rounds,
            self.gradients + other.gradients,
            self.megabytes + other.megabytes,
        )


@dataclass(frozen=True)
class TuningOutcome:
    """What tuning chose and spent, all grid points together."""

    seed: int
    spec: str  # with the chosen values filled in
    spent: Spending
    scores: dict[str, float | None]  # on the clients set aside, by grid point; None: diverged


@dataclass(frozen=True)
class SeedOutcome:
    """One run: what identifies it, and its evaluated rounds."""

    seed: int
    run: str  # hash of the setting, the method and the seed
    model: str  # SHA-256 of the trained model's file: the bits to compare
    partition: str
    cpu: str
    versions: dict[str, str]
    rounds: list[int]
    scores: list[float | None]  # None: not finite
    gradients: list[float]  # so far
    megabytes: list[float]  # so far

    def final(self, window: int) -> float:
        """The mean of the last evaluations; NaN where one of them is not finite."""
        values = [_number(score) for score in self.scores[-window:]]
        return Spread.of(values).mean


@dataclass(frozen=True)
class MatchOutcome:
    """A finished match; it holds its rules, so that it can be judged without other files."""

    track: Track
    entry: BoardEntry
    digest: str  # of the rules: the seeds are drawn from it
    metric: MetricInfo
    tuning: TuningOutcome
    runs: list[SeedOutcome]

    @property
    def match(self) -> Match:
        return Match(self.track, self.entry)


def outcome_path(home: Path, match: Match) -> Path:
    """Where the outcome of a match lies."""
    return home / match.track.name / f"{match.entry.name}.json"


def write_outcome(path: Path, outcome: MatchOutcome) -> None:
    """Write the file, with a checksum."""
    write_sealed(path, asdict(outcome))


def read_outcome(path: Path) -> MatchOutcome:
    """Read it back; one that does not agree with its own rules is refused."""
    if not path.exists():
        raise InputError(f"{path}: there is no such result; fedstep leaderboard run makes it")
    try:
        outcome = typed(MatchOutcome, read_sealed(path))
        _check(outcome)
    except InputError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise InputError(f"{path}: {reason}") from None
    return outcome


def _check(outcome: MatchOutcome) -> None:
    """Refuse what nobody can have computed by the rules that stand in the file."""
    match = outcome.match
    if outcome.digest != match.digest:
        raise InputError("its hash is not that of its rules; make it anew with leaderboard run")
    seeds = [run.seed for run in outcome.runs]
    if seeds != list(match.seeds):
        raise InputError(f"its seeds {seeds} are not those that its hash draws")
    if outcome.tuning.seed != match.tuning_seed:
        raise InputError(f"its tuning seed {outcome.tuning.seed} is not the one its hash draws")
    _check_runs(outcome)
    _check_spending(outcome)
    _check_choice(outcome)


def _check_runs(outcome: MatchOutcome) -> None:
    """Refuse curves that leave out a round, or go on where the budget ends."""
    setting = outcome.track.setting
    due = []
    for number in range(1, setting.rounds + 1):
        # the last round is always evaluated
        if number % setting.every == 0 or number == setting.rounds:
            due.append(number)
    for run in outcome.runs:
        columns = (run.scores, run.gradients, run.megabytes)
        whole = all(len(column) == len(due) for column in columns)
        if run.rounds != due or not whole:
            raise InputError(f"the rounds of its seed {run.seed} are not those of its track")


def _check_spending(outcome: MatchOutcome) -> None:
    """Refuse a tuning that has left out a grid point, or what it cost."""
    points: list[str] = []
    # a method without a grid has one candidate and no tuning
    if outcome.entry.grid:
        points = outcome.entry.method.candidates()
    if set(outcome.tuning.scores) != set(points):
        raise InputError("its tuning has not every point of its grid")
    rounds = outcome.track.tuning.rounds * len(set(points))
    if outcome.tuning.spent.rounds != rounds:
        raise InputError(f"its tuning must have spent {rounds} rounds")


def _check_choice(outcome: MatchOutcome) -> None:
    """Refuse a grid point that tuning cannot have chosen."""
    tuning = outcome.tuning
    if tuning.spec not in outcome.entry.method.candidates():
        raise InputError(f"{tuning.spec} is no point of its grid")

    def rank(spec: str) -> float:
        return outcome.metric.rank(_number(tuning.scores[spec]))

    # without a grid there is nothing to compare
    if tuning.scores and rank(tuning.spec) < max(map(rank, tuning.scores)):
        raise InputError(f"{tuning.spec} is not the best of its grid")


def _number(score: float | None) -> float:
    if score is None:
        return float("nan")
    return score
