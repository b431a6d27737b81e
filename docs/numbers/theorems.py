"""Tables of docs/theory.md: every item of the paper as it came out, and the misprints."""

from __future__ import annotations

from collections.abc import Iterator

from fedstep.analysis.theory.items import paper_items, paper_misprints
from pages import Block

PAGE = "docs/theory.md"


def blocks() -> Iterator[Block]:
    """The table, each item in full, and what is misprinted."""
    yield Block(PAGE, "items", item_table)
    yield Block(PAGE, "items in full", items_in_full)
    yield Block(PAGE, "misprints", misprint_table)


def item_table() -> str:
    """One line for each item."""
    lines = ["| | item | about | tested | verdict | measured, bound |", "|---" * 6 + "|"]
    for item in paper_items():
        cells = " | ".join(item.row(item.check()))
        lines.append(f"| {_stars(cells)} |")
    return "\n".join(lines) + "\n"


def items_in_full() -> str:
    """Statement, hypotheses, instance, numbers, and why."""
    parts = []
    for item in paper_items():
        evidence = item.check()
        numbers = [f"{pair.what}: {pair.numbers}" for pair in evidence.inequalities]
        lines = [
            f"**{_stars(item.title)} ({item.about}): {evidence.verdict}.** {item.why}",
            "",
            "```",
            item.statement,
            "```",
            "",
            f"- Hypotheses: `{item.hypotheses}`.",
            f"- Run: `{evidence.instance}`.",
            *(f"- `{number}`" for number in numbers),
        ]
        if item.instead:
            lines.append(f"- What can be proved: `{item.instead.rstrip('.')}`.")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def misprint_table() -> str:
    """Where, what stands there, what should."""
    lines = ["| where | printed | right |", "|---" * 3 + "|"]
    for slip in paper_misprints():
        cells = [cell.replace("|", "\\|") for cell in slip]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _stars(text: str) -> str:
    """With stars that are no markup."""
    return text.replace("*", "\\*")
