"""Whether a value is of the kind that an annotation asks for.

So that a mistake in a text is seen when the text is read, not when the part is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

WORDS = {
    float: "a number",
    int: "a whole number",
    bool: "True or False",
    str: "a text",
    type(None): "None",
}


def hints(
    maker: Callable[..., Any],
) -> Mapping[str, Any]:
    """What the arguments of a maker should be; empty where the annotations cannot be resolved."""
    try:
        return get_type_hints(maker)
    except (NameError, TypeError):
        # a name that only its own function knows: the part is built without being checked
        return {}


def accepts(hint: Any, value: object) -> bool:
    """Whether the value is of the kind.

    A hint that is neither number, text, part nor made of them accepts everything.
    """
    if _is_union(hint):
        options = get_args(hint)
        return any(accepts(option, value) for option in options)
    if get_origin(hint) is tuple:
        return _accepts_tuple(hint, value)
    if hint in (float, int):
        return _accepts_number(hint, value)
    if hint in (bool, str, type(None)):
        return isinstance(value, hint)
    # a protocol is asked before the base classes: `isinstance` with one raises
    is_protocol = getattr(hint, "_is_protocol", False)
    if is_protocol:
        return fills(hint, value)
    if is_dataclass(hint) or _is_base_class(hint):
        return isinstance(value, hint)
    return True


def bracketed(hint: Any, value: object) -> object:
    """A single part where a tuple of parts is asked for is a tuple of one."""
    wants_tuple = get_origin(hint) is tuple
    if not wants_tuple or not is_dataclass(value):
        return value
    kind_of_item = get_args(hint)[0]
    if accepts(kind_of_item, value):
        return (value,)
    return value


def fills(protocol: type, part: object) -> bool:
    """Whether a part has all that a protocol asks for, and is called with the same arguments."""
    # a class is no part: the brackets were left out
    if isinstance(part, type):
        return False
    if not is_dataclass(part):
        return False
    wanted = []
    for name in vars(protocol):
        is_public = not name.startswith("_")
        if is_public or name == "__call__":
            wanted.append(name)
    for name in wanted:
        if not hasattr(part, name):
            return False
    if "__call__" not in wanted:
        return True
    # by names, not by annotations: a user's part need not have any
    arguments = _arguments(type(part))
    return arguments == _arguments(protocol)


def kind(hint: Any) -> str:
    """The kind in a word or two."""
    if _is_union(hint):
        options = [kind(option) for option in get_args(hint)]
        return " or ".join(options)
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        return f"a tuple, each {kind(item)}"
    if hint in WORDS:
        return WORDS[hint]
    name = getattr(hint, "__name__", hint)
    return f"a {name}"


def _accepts_tuple(hint: Any, value: object) -> bool:
    if not isinstance(value, tuple):
        return False
    item, *rest = get_args(hint)
    # only tuple[X, ...] is looked into; the parts have no others
    if rest != [...]:
        return True
    return all(accepts(item, each) for each in value)


def _accepts_number(hint: type, value: object) -> bool:
    # True and False are integers to Python, and never what a user means by a number
    if isinstance(value, bool):
        return False
    if hint is int:
        return isinstance(value, int)
    return isinstance(value, int | float)


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _is_base_class(hint: Any) -> bool:
    """Whether it is one of the library's own base classes, such as StepRule."""
    if not isinstance(hint, type):
        return False
    return hint.__module__.startswith("fedstep.")


def _arguments(kind: type) -> list[str]:

    call = vars(kind).get("__call__", kind.__call__)
    signature = inspect.signature(call)
    return list(signature.parameters)
