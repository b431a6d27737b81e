"""Whether a value is of the kind that an annotation asks for, so that a mistake in a text is found when it is read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


def hints(maker: Callable[..., Any]) -> Mapping[str, Any]:
    """What the arguments of a maker should be; empty where the annotations cannot be resolved."""
    try:
        return get_type_hints(maker)
    except (NameError, TypeError):
        return {}


def accepts(hint: Any, value: object) -> bool:
    """Whether the value is of the kind; a hint that is neither number, text, part nor made of them accepts everything."""
    if get_origin(hint) in (Union, UnionType):
        return any(accepts(h, value) for h in get_args(hint))
    if get_origin(hint) is tuple:
        inner, *rest = get_args(hint)
        return isinstance(value, tuple) and (rest != [...] or all(accepts(inner, v) for v in value))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (bool, str, type(None)):
        return isinstance(value, hint)
    if getattr(hint, "_is_protocol", False):
        return fills(hint, value)
    return isinstance(value, hint) if is_dataclass(hint) or _has_leaves(hint) else True


def bracketed(hint: Any, value: object) -> object:
    """A single part where a tuple of parts is asked for is a tuple of one."""
    single = get_origin(hint) is tuple and is_dataclass(value) and accepts(get_args(hint)[0], value)
    return (value,) if single else value


def fills(protocol: type, part: object) -> bool:
    """Whether a part has all that a protocol asks for, and is called with the same arguments."""
    wanted = [name for name in vars(protocol) if not name.startswith("_") or name == "__call__"]
    if (
        not is_dataclass(part)
        or isinstance(part, type)
        or not all(hasattr(part, name) for name in wanted)
    ):
        return False
    return "__call__" not in wanted or _arguments(type(part)) == _arguments(protocol)


def kind(hint: Any) -> str:
    """The kind in a word or two."""
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(kind(h) for h in get_args(hint))
    if get_origin(hint) is tuple:
        return f"a tuple, each {kind(get_args(hint)[0])}"
    words = {
        float: "a number",
        int: "a whole number",
        bool: "True or False",
        str: "a text",
        type(None): "None",
    }
    return words.get(hint, f"a {getattr(hint, '__name__', hint)}")


def _has_leaves(hint: Any) -> bool:
    """Whether it is one of the library's own base classes, such as StepRule."""
    return isinstance(hint, type) and hint.__module__.startswith("fedstep.")


def _arguments(call: type) -> list[str]:
    return list(inspect.signature(vars(call).get("__call__", call.__call__)).parameters)
