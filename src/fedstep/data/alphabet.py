"""The characters of LEAF's Shakespeare; beside its reader, because naming them needs no torch."""

from __future__ import annotations

ALPHABET = (
    "\n !\"&'(),-.0123456789:;>?"
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ[]"
    "abcdefghijklmnopqrstuvwxyz}"
)  # LEAF's 80
# One symbol of its own: LEAF's code lets -1 stand for what is not in the alphabet, the authors' a
# real character.
UNKNOWN = len(ALPHABET)
VOCABULARY = UNKNOWN + 1


def symbol_names() -> tuple[str, ...]:
    """A word for every symbol, where it cannot be seen: 81 of them."""
    words = {"\n": "newline", " ": "space"}
    return (*(words.get(symbol, symbol) for symbol in ALPHABET), "other")
