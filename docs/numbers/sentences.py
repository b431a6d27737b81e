"""Numbers inside sentences: a sentence is known by its words, and its numbers are made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# what may stand in the place of a number: 72.7, -0.5, 1,625, never
NUMBER = r"([-+]?\d[\d,]*(?:\.\d+)?|never)"
PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Sentence:
    """Words of a page with `{name}` in the place of every number that results give."""

    page: str  # its path from the root
    words: str
    numbers: Callable[[], Mapping[str, str]]


def corrected(text: str, sentence: Sentence) -> str:
    """The text of a page with the numbers of a sentence as they are; line breaks stay."""
    found = list(pattern(sentence.words).finditer(text))
    if len(found) != 1:
        raise ValueError(f"{sentence.page}: {len(found)} times, not once: {sentence.words}")
    numbers = sentence.numbers()
    names = PLACE.findall(sentence.words)
    match = found[0]
    # from the last to the first: the places of those before do not move
    for group in range(len(names), 0, -1):
        begin, end = match.span(group)
        text = text[:begin] + numbers[names[group - 1]] + text[end:]
    return text


def pattern(words: str) -> re.Pattern[str]:
    """The words with any numbers in their places, wherever lines are broken."""
    parts = []
    for word in words.split():
        # every second piece is the name of a number
        pieces = PLACE.split(word)
        pieces[::2] = [re.escape(piece) for piece in pieces[::2]]
        pieces[1::2] = [NUMBER for _ in pieces[1::2]]
        parts.append("".join(pieces))
    return re.compile(r"\s+".join(parts))
