"""The table of docs/leaderboard.md."""

from __future__ import annotations

from collections.abc import Iterator

from fedstep.leaderboard.read import read_board
from fedstep.leaderboard.standings import roundup_markdown, roundups
from fedstep.leaderboard.track import Size
from pages import RESULTS, Block


def blocks() -> Iterator[Block]:
    """That of the small tracks."""
    yield Block("docs/leaderboard.md", "standings", lambda: standings_table("small"))


def standings_table(size: Size) -> str:
    """The committed results of the tracks of a size, best entries first."""
    board = read_board(RESULTS / "leaderboard")
    (roundup,) = [each for each in roundups(board) if each.size == size]
    return roundup_markdown(roundup)
