"""A terminal that shows text as it is: labels, paths and specs are written by others."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from fedstep.core.printable import printable


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
