"""The one exception for input a user can mend."""

from difflib import get_close_matches


class InputError(ValueError):
    """A value that cannot be used; the message names it and the remedy."""


def unknown(kind: str, name: str, known: list[str]) -> str:
    """What to say of a name that is not there."""
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
    return f"unknown {kind} {name!r}: {hint}"
