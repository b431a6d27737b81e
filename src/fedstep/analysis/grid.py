"""A table of words, whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """Words in rows and columns; the first column names what the row is of."""

    title: str
    heads: tuple[str, ...]  # one for every column
    rows: tuple[tuple[str, ...], ...]  # each as long as heads
