"""Comma-separated values that a spreadsheet reads as what they are."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # beginnings that spreadsheets take for one


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A header and its rows.

    Text that a spreadsheet would run as a formula gets a quote in front.
    """
    text = io.StringIO()
    # "\n" on every platform: the same results give the same bytes
    writer = csv.writer(text, lineterminator="\n")
    for cells in (heads, *rows):
        harmless = [_harmless(cell) for cell in cells]
        writer.writerow(harmless)
    return text.getvalue()


def _harmless(cell: Any) -> Any:
    """Numbers stay: -0.5 begins with a minus and is no formula."""
    if not isinstance(cell, str):
        return cell
    if not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
