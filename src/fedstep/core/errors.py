"""The one exception for input a user can mend."""

from difflib import get_close_matches


class InputError(ValueError):
    """A value that cannot be used; the message names it and the remedy."""


def unknown(
    kind: str,
    name: str,
    known: list[str],
) -> str:
    """The message for a name that is not there."""
    # a cutoff of 0.5 forgives two slips in a short name and still rejects what is unrelated
    close = get_close_matches(
        name,
        known,
        n=1,
        cutoff=0.5,
    )
    if close:
        hint = f"did you mean {close[0]}?"
    else:
        names = ", ".join(known)
        hint = f"known: {names}"
    return f"unknown {kind} {name!r}: {hint}"
