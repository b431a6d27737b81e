"""The one exception for input a user can mend."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from reprlib import Repr

LONGEST = 200  # characters of a value in a message


class InputError(ValueError):
    """A value that cannot be used; the message names it and the remedy.

    One line, whatever it quotes: a label, a path or another error's text may have several.
    """

    def __init__(self, message: object) -> None:
        lines = str(message).splitlines()
        super().__init__(" ".join(lines))


class MissingExtra(InputError):
    """A package that only an extra brings is not installed; the message names the extra."""


def unknown(
    kind: str,
    name: str,
    known: list[str],
) -> str:
    """The message for a name that is not there."""
    # a cutoff of 0.5 forgives two slips in a short name and still rejects what is unrelated
    close = get_close_matches(
        name[:LONGEST],
        known,
        n=1,
        cutoff=0.5,
    )
    if close:
        hint = f"did you mean {close[0]}?"
    else:
        names = ", ".join(known)
        hint = f"known: {names}"
    return f"unknown {kind} {brief(name)}: {hint}"


@contextmanager
def named_errors(path: object) -> Iterator[None]:
    """The system's errors with the name of the file: a write that fails does not tell it."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = "give another path"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "free some space and run the same command again, it goes on from here"
        raise InputError(f"{path}: {reason}; {remedy}") from None


def brief(value: object) -> str:
    """A value in a message, however long it is."""
    short = Repr()
    short.maxstring = LONGEST
    short.maxother = LONGEST
    short.maxlong = LONGEST
    return short.repr(value)
