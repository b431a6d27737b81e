"""Tables of a file as dataclasses: every value of the right type and in range, or one line.

The types are the annotations of the dataclass. What is wrong is told by the key, the value and the
`description` of the annotation, which says what to give instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from fedstep.core.errors import InputError, brief, unknown

T = TypeVar("T")

# Where the library says that the mistake lies: " - at `$.grid[...][0]`".
PLACE = re.compile(r"(?P<reason>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)


def typed(kind: type[T], table: object) -> T:
    """A dataclass from a table of the file; what is unknown, missing or wrong is named."""
    if not isinstance(table, Mapping):
        raise InputError(f"{brief(table)}: give a table, such as {{ rounds = 100 }}")
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    check_names(table, names)
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        # what a class itself refuses comes wrapped: its own words are the better ones
        if isinstance(error.__cause__, InputError):
            raise error.__cause__ from None
        raise InputError(_explained(kind, table, str(error))) from None


def check_names(table: Mapping[str, Any], known: list[str]) -> None:
    """Refuse a key that nobody reads: it is misspelt, or it would be silently without effect."""
    for name in table:
        if name not in known:
            raise InputError(unknown("setting", name, known))


def _explained(kind: type, table: Mapping[str, Any], message: str) -> str:
    match = PLACE.fullmatch(message)
    assert match is not None  # it matches every text
    path = match["path"]
    if not path:
        # a key is missing; the library names it
        return match["reason"].replace("Object missing required field", "missing:").replace("`", "")
    key = re.split(r"[.\[]", path.removeprefix("."))[0]
    hints = get_type_hints(kind, include_extras=True)
    return f"{key} = {brief(table.get(key))}: give {_remedy(hints.get(key))}"


def _remedy(hint: Any) -> str:
    """What the annotation of a key says to give."""
    for part in (hint, *get_args(hint)):
        for meta in getattr(part, "__metadata__", ()):
            if isinstance(meta, msgspec.Meta) and meta.description:
                return meta.description
    return "a value of another type"
