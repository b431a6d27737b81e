"""Entries by tracks: the tables that sum up the leaderboard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedstep.leaderboard.read import Board, ShownTrack
from fedstep.leaderboard.standing import Standing
from fedstep.leaderboard.track import SIZES, Size
from fedstep.leaderboard.words import cost_text


@dataclass(frozen=True)
class EntryStandings:
    """An entry on all tracks that it has a result of."""

    name: str
    by_track: Mapping[str, Standing]

    @property
    def mean_place(self) -> float:
        places = [standing.place for standing in self.by_track.values()]
        return sum(places) / len(places)

    @property
    def reached(self) -> int:
        """Tracks whose target it reached."""
        return sum(standing.reached for standing in self.by_track.values())


@dataclass(frozen=True)
class Roundup:
    """The tracks of one size that somebody has entered, and the entries by their mean place there."""

    size: Size
    tracks: tuple[ShownTrack, ...]
    rows: tuple[EntryStandings, ...]  # the best first


def roundups(board: Board) -> list[Roundup]:
    """The small tracks and the large ones, each where it has results.

    Anyone can enter all small tracks and few enter the large ones: a place among few says nothing
    beside one among many, so no mean is taken over both.
    """
    found = []
    for size in SIZES:
        of_size = [shown for shown in board.tracks if shown.track.size == size]
        tracks = tuple(shown for shown in of_size if shown.standings)
        if tracks:
            found.append(Roundup(size, tracks, _rows(tracks)))
    return found


def _rows(tracks: Iterable[ShownTrack]) -> tuple[EntryStandings, ...]:
    """Those of more tracks first, as places compare only there."""
    by_entry: dict[str, dict[str, Standing]] = {}
    for shown in tracks:
        for standing in shown.standings:
            name = standing.outcome.entry.name
            by_entry.setdefault(name, {})[shown.track.name] = standing
    rows = [EntryStandings(name, by_track) for name, by_track in by_entry.items()]
    return tuple(sorted(rows, key=_order))


def _order(row: EntryStandings) -> tuple[int, float, str]:
    # by name where the rest is equal, so that the same results make the same table
    return (-len(row.by_track), row.mean_place, row.name)


def roundup_markdown(roundup: Roundup) -> str:
    """All rounds to the target, tuning counted, and what of them was tuning."""
    shown = [each.track.name for each in roundup.tracks]
    lines = [
        "| entry | mean place | " + " | ".join(shown) + " |",
        "|---|---:|" + "---:|" * len(shown),
    ]
    for row in roundup.rows:
        cells = [_cell(row.by_track.get(name)) for name in shown]
        lines.append(f"| {row.name} | {row.mean_place:.1f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(standing: Standing | None) -> str:
    if standing is None:
        return ""
    total = cost_text(standing.total.rounds)
    tuning = standing.outcome.tuning.spent.rounds
    if not standing.reached or not tuning:
        return total
    return f"{total} ({cost_text(tuning)})"
