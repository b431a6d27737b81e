"""The tables of docs/leaderboard.md."""

from __future__ import annotations

from collections.abc import Iterator

from fedstep.leaderboard.read import read_board
from fedstep.leaderboard.standings import roundup_markdown, roundups
from fedstep.leaderboard.track import Size
from pages import RESULTS, Block


def blocks() -> Iterator[Block]:
    """One of the small tracks and one of the large."""
    yield Block("docs/leaderboard.md", "standings", lambda: standings_table("small"))
    yield Block("docs/leaderboard.md", "standings, large", lambda: standings_table("large"))


def standings_table(size: Size) -> str:
    """The committed results of the tracks of a size, best entries first."""
    board = read_board(RESULTS / "leaderboard")
    (roundup,) = [each for each in roundups(board) if each.size == size]
    return roundup_markdown(roundup)
