"""The table of docs/leaderboard.md."""

from __future__ import annotations

from collections.abc import Iterator

from fedstep.leaderboard.read import read_board
from fedstep.leaderboard.standings import standings_markdown
from pages import RESULTS, Block


def blocks() -> Iterator[Block]:
    """One."""
    yield Block("docs/leaderboard.md", "standings", standings_table)


def standings_table() -> str:
    """The committed results, best entries first."""
    return standings_markdown(read_board(RESULTS / "leaderboard"))
