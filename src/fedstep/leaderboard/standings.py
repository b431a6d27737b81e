"""Entries by tracks: the table that sums up the leaderboard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedstep.leaderboard.read import Board, ShownTrack
from fedstep.leaderboard.standing import Standing
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


def tracks_with_results(board: Board) -> list[ShownTrack]:
    """The tracks that somebody has entered."""
    return [shown for shown in board.tracks if shown.standings]


def entry_standings(board: Board) -> list[EntryStandings]:
    """Every entry by its mean place; those of more tracks first, as places compare only there."""
    by_entry: dict[str, dict[str, Standing]] = {}
    for shown in board.tracks:
        for standing in shown.standings:
            name = standing.outcome.entry.name
            by_entry.setdefault(name, {})[shown.track.name] = standing
    rows = [EntryStandings(name, by_track) for name, by_track in by_entry.items()]
    return sorted(rows, key=_order)


def _order(row: EntryStandings) -> tuple[int, float, str]:
    # by name where the rest is equal, so that the same results make the same table
    return (-len(row.by_track), row.mean_place, row.name)


def standings_markdown(board: Board) -> str:
    """All rounds to the target, tuning counted, and what of them was tuning."""
    shown = [each.track.name for each in tracks_with_results(board)]
    lines = [
        "| entry | mean place | " + " | ".join(shown) + " |",
        "|---|---:|" + "---:|" * len(shown),
    ]
    for row in entry_standings(board):
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
