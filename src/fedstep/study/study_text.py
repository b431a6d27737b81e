"""A study as the text of its file: what a program has put together is kept as a study."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from fedstep.study.plan import Method, Study

# What TOML wants escaped and JSON does not.
DELETE = "\x7f"
BARE = re.compile(r"[A-Za-z0-9_-]+")


def study_text(study: Study) -> str:
    """TOML from which `parse_study` makes the same study, at the scale of the paper."""
    lines = [
        _line("title", study.title),
        _line("text", study.text),
        _line("seeds", study.seeds),
    ]
    setting = asdict(study.setting)
    for name, value in setting.items():
        # there is no null in TOML: what is left out is None, also where the default is another
        if value is not None:
            lines.append(_line(name, value))
    lines.append(_line("tuning", _without_none(asdict(study.tuning))))
    for method in study.methods:
        lines += ["", "[[methods]]", *_method_lines(method)]
    return "\n".join(lines) + "\n"


def _method_lines(method: Method) -> list[str]:
    lines = []
    for field in fields(method):
        value = getattr(method, field.name)
        # empty is the default of all that may be empty
        if value:
            lines.append(_line(field.name, value))
    return lines


def _line(name: str, value: Any) -> str:
    return f"{name} = {_value(value)}"


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _value(value: Any) -> str:
    """A value of TOML: texts are written as in JSON, which shares their escapes."""
    if isinstance(value, str):
        # not ASCII alone: JSON would write what lies beyond 16 bits as two halves
        text = json.dumps(value, ensure_ascii=False)
        return text.replace(DELETE, "\\u007f")
    if isinstance(value, Mapping):
        pairs = [f"{_key(name)} = {_value(inner)}" for name, inner in value.items()]
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    # numbers as Python writes them, `inf` and `nan` too
    return repr(value)


def _key(name: str) -> str:
    if BARE.fullmatch(name):
        return name
    return _value(name)
