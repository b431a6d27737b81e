"""Whether the parts put into the slots of a part are of the kinds that the slots take."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from fedstep.core.errors import InputError


def check_slots(owner: Any, **bases: type) -> None:
    """Refuse a part that is not an instance of its slot's base class, in one line with the remedy.

        check_slots(self, condition=Condition, failure=Failure)

    Called in `__post_init__`: without it `LineSearch(failure=3)` would break in the middle of a
    run. A slot that may be empty (its default is None) takes None.
    """
    defaults = {}
    for field in fields(owner):
        defaults[field.name] = field.default
    for name, base in bases.items():
        value = getattr(owner, name)
        default = defaults[name]
        if isinstance(value, base):
            continue
        # only where None is the default: elsewhere an empty slot is a forgotten part
        if value is None and default is None:
            continue
        part = type(owner).__name__
        written = f"{part}({name}={_shown(value)})"
        remedy = _remedy(value, base, default)
        raise InputError(f"{written}: {remedy}")


def _shown(value: object) -> str:
    if isinstance(value, type):
        return value.__name__
    return repr(value)


def _remedy(
    value: object,
    base: type,
    default: object,
) -> str:
    # The commonest slip: the brackets of a part without settings are left out.
    if isinstance(value, type) and issubclass(value, base):
        name = value.__name__
        return f"{name} is a class; write {name}()"
    if isinstance(default, base) and default is not MISSING:
        usual = type(default).__name__
        return f"give a part such as {usual}()"
    # A slot that is empty by default has no default to name: any part of its kind is an example.
    parts: list[type] = base.__subclasses__()
    if parts:
        example = parts[0].__name__
        return f"give a part such as {example}()"
    return f"give a {base.__name__}"
