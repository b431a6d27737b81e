"""All blocks and sentences, and the pages they make."""

from __future__ import annotations

from functools import cache

import evidence
import measured
import paper
import said
import speed
import standings
import studies
from pages import ROOT, Block, placed
from sentences import corrected


@cache
def blocks() -> tuple[Block, ...]:
    """Every table that is made."""
    return tuple(
        block
        for source in (evidence, paper, standings, studies, measured, speed)
        for block in source.blocks()
    )


def pages() -> list[str]:
    """The pages with something that is made, by their paths from the root."""
    named = [block.page for block in blocks()] + [line.page for line in said.SENTENCES]
    return list(dict.fromkeys(named))


def made(page: str) -> str:
    """The page with the numbers of the results as they are."""
    text = (ROOT / page).read_text()
    for block in blocks():
        if block.page == page:
            text = placed(text, block)
    for sentence in said.SENTENCES:
        if sentence.page == page:
            text = corrected(text, sentence)
    return text
