"""All results of a folder, track by track."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedstep.core.errors import InputError
from fedstep.leaderboard.outcome import MatchOutcome, read_outcome
from fedstep.leaderboard.standing import Standing, ranked
from fedstep.leaderboard.track import Track, shipped_tracks


@dataclass(frozen=True)
class ShownTrack:
    """A track and who stands where."""

    track: Track
    standings: tuple[Standing, ...]  # the first place first


@dataclass(frozen=True)
class Board:
    """Tracks, and files that were left out with the reason."""

    tracks: tuple[ShownTrack, ...]
    warnings: tuple[str, ...]


def read_board(home: Path) -> Board:
    """The tracks of the package and those that only the results know.

    A result that is damaged, or made by other rules than its track has now, is named and left out.
    """
    tracks = {track.name: track for track in shipped_tracks()}
    outcomes: dict[str, list[MatchOutcome]] = {name: [] for name in tracks}
    warnings = []
    for path in sorted(home.glob("*/*.json")):
        try:
            outcome = read_outcome(path)
            _check_place(path, outcome, tracks)
        except InputError as error:
            warnings.append(f"left out: {error}")
            continue
        track = tracks.setdefault(outcome.track.name, outcome.track)
        outcomes.setdefault(track.name, []).append(outcome)
    shown = []
    for name, track in tracks.items():
        standings: Sequence[Standing] = ranked(outcomes[name])
        shown.append(ShownTrack(track, tuple(standings)))
    return Board(tuple(shown), tuple(warnings))


def _check_place(path: Path, outcome: MatchOutcome, tracks: Mapping[str, Track]) -> None:
    """Refuse a file that would stand in the place of another, or for rules that are gone."""
    track = outcome.track
    names = (path.parent.name, path.stem)
    if names != (track.name, outcome.entry.name):
        raise InputError(f"{path}: it is the result of {outcome.entry.name} on {track.name}")
    known = tracks.get(track.name, track)
    if known.rules() != track.rules():
        raise InputError(f"{path}: its track has other rules now; make it anew")
