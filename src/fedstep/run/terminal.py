"""A terminal that shows text as it is: labels, paths and specs are written by others."""

from __future__ import annotations

import unicodedata
from typing import Any

from rich.console import Console
from rich.text import Text


class PlainConsole(Console):
    """A console to which text is text: an escape sequence is shown, not sent."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def console(stderr: bool = False, highlight: bool = False) -> Console:
    """The one way to a terminal; `highlight` colours numbers and paths."""
    # `Ours [/b]` is a label and no markup, `:fire:` is no picture
    return PlainConsole(
        stderr=stderr,
        highlight=highlight,
        markup=False,
        emoji=False,
    )


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
