"""Where the cells of a map of labels by client lie, and the numbers in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedstep.core.errors import InputError

MOST_CLIENTS = 200  # more columns would be narrower than the eye can tell apart
WIDTH = 1120
RIGHT = 10
TOP = 30
BARS = 46
LINE_HEIGHT = 13.0  # of text

Counts = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Layout:
    """Where the columns (clients) and rows (labels) of the map lie, in pixels."""

    clients: int
    labels: int
    left: float
    top: float
    column: float  # width of one
    row: float  # height of one

    @staticmethod
    def of(counts: Counts, labels: Sequence[str]) -> Layout:
        """Room on the left for the longest name, above for the bars where sizes differ."""
        longest = max(len(label) for label in labels)
        left = max(48.0, 26 + 6.8 * longest)
        sizes = {sum(row) for row in counts}
        bars = 0
        if len(sizes) > 1:
            bars = BARS + 6
        return Layout(
            clients=len(counts),
            labels=len(labels),
            left=left,
            top=TOP + bars,
            column=(WIDTH - RIGHT - left) / len(counts),
            row=_row_height(len(labels)),
        )

    @property
    def right(self) -> float:
        return self.left + self.clients * self.column

    @property
    def bottom(self) -> float:
        return self.top + self.labels * self.row

    def x(self, client: float) -> float:
        """The left edge of a column."""
        return self.left + client * self.column

    def y(self, label: float) -> float:
        """The upper edge of a row."""
        return self.top + label * self.row


def check_counts(counts: Counts, labels: Sequence[str]) -> None:
    """Refuse tables that do not fit, in one line."""
    if not counts or not labels:
        raise InputError(f"{len(counts)} clients and {len(labels)} labels: a map needs one of each")
    for client, row in enumerate(counts):
        if len(row) != len(labels):
            raise InputError(
                f"client {client} has {len(row)} counts, there are {len(labels)} labels"
            )


def caption(title: str, counts: Counts) -> str:
    """The title; which clients are drawn where these are not all."""
    if len(counts) <= MOST_CLIENTS:
        return title
    return f"{title} (the first {MOST_CLIENTS} of {len(counts)} clients)"


def shares(counts: Counts) -> list[list[float]]:
    """Of each client's samples; a client without any has shares of 0."""
    table = []
    for row in counts:
        size = sum(row) or 1
        table.append([n / size for n in row])
    return table


def largest_share(table: Sequence[Sequence[float]]) -> float:
    """The share that gets the full colour; 1 where there is none."""
    return max(max(row) for row in table) or 1.0


def _row_height(labels: int) -> float:
    if labels > 80:
        return max(2.0, 960 / labels)
    return min(26.0, max(LINE_HEIGHT, 700 / labels))


def divided_up(whole: int, part: int) -> int:
    """whole / part, rounded up."""
    return -(-whole // part)
