"""Text of others, as a terminal may show it."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    """The text with control characters written out.

    They cannot move the cursor then, or recolour what follows.
    """
    return "".join(map(_printable_character, text))


def _printable_character(character: str) -> str:
    if character in "\n\t":
        return character
    # Cc: control characters, ESC among them; Cf: invisible ones that turn the direction of writing
    # around
    if unicodedata.category(character) in ("Cc", "Cf"):
        return character.encode("unicode_escape").decode("ascii")
    return character
