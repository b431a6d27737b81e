"""Where the cells of a map of labels by client lie, and the numbers in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedstep.core.errors import InputError

MOST_CLIENTS = 200  # more columns would be narrower than the eye can tell apart
WIDTH = 1120
RIGHT = 10  # margin
TOP = 30  # the key of the colours stands above
BARS = 46  # height of the largest client's bar
LINE_HEIGHT = 13.0  # of text

# Samples by client, then by label.
Counts = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Layout:
    """Where the columns (clients) and rows (labels) of the map lie, in pixels."""

    clients: int
    labels: int
    left: float  # edge of the first column
    top: float  # edge of the first row
    column: float  # width of one
    row: float  # height of one

    @staticmethod
    def of(counts: Counts, labels: Sequence[str]) -> Layout:
        """Room on the left for the longest name, above for the bars where sizes differ."""
        longest = max(len(label) for label in labels)
        left = max(48.0, 26 + 6.8 * longest)
        sizes = {sum(row) for row in counts}
        # Bars of one height would say in pixels what a sentence says.
        bars = 0
        if len(sizes) > 1:
            bars = BARS + 6
        width = WIDTH - RIGHT - left
        return Layout(
            clients=len(counts),
            labels=len(labels),
            left=left,
            top=TOP + bars,
            column=width / len(counts),
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
    clients = len(counts)
    width = len(labels)
    if not clients or not width:
        raise InputError(f"{clients} clients and {width} labels: a map needs one of each")
    for client, row in enumerate(counts):
        if len(row) != width:
            raise InputError(f"client {client} has {len(row)} counts, there are {width} labels")


def caption(title: str, counts: Counts) -> str:
    """The title; which clients are drawn where these are not all."""
    if len(counts) <= MOST_CLIENTS:
        return title
    return f"{title} (the first {MOST_CLIENTS} of {len(counts)} clients)"


def shares(counts: Counts) -> list[list[float]]:
    """Of each client's samples; a client without any has shares of 0."""
    table = []
    for row in counts:
        # 0 of 1 is what a client without samples has of every label.
        size = sum(row) or 1
        table.append([count / size for count in row])
    return table


def largest_share(table: Sequence[Sequence[float]]) -> float:
    """The share that gets the full colour; 1 where there is none."""
    largest = max(max(row) for row in table)
    # Clients without a sample have no share; something is divided by it all the same.
    return largest or 1.0


def _row_height(labels: int) -> float:
    # So many names cannot all be written: the rows become as thin as the eye allows.
    if labels > 80:
        return max(2.0, 960 / labels)
    # A line of text at least, and no taller than a cell of a table.
    legible = max(LINE_HEIGHT, 700 / labels)
    return min(26.0, legible)


def divided_up(whole: int, part: int) -> int:
    """whole / part, rounded up."""
    # Python's // rounds down, also below 0.
    return -(-whole // part)
