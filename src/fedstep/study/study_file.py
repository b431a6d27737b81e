"""A study as a TOML file: read, checked, and scaled."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from fedstep.core.errors import InputError, unknown
from fedstep.study.plan import Method, Setting, Study, Tuning

T = TypeVar("T")
Table = dict[str, Any]

FULL_SCALE = "paper"  # the file as it is
SETTINGS = tuple(field.name for field in fields(Setting))
TOP_LEVEL = ("title", "text", "seeds", "methods", "tuning", "scales", *SETTINGS)
SCALED = ("seeds", "tuning", *SETTINGS)  # what a scale may override


def read_study(
    path: Path,
    scale: str = FULL_SCALE,
    check: bool = True,
) -> Study:
    """Parse a study; `scale` names a table of the file that overrides settings, such as `small`.

    `check` builds every method; results that exist can be read without.
    """
    table = _read_table(path)
    try:
        return _study(path.stem, table, scale, check)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _read_table(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such study (fedstep paper lists those of the paper)"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from None


def _study(
    name: str,
    table: Table,
    scale: str,
    check: bool,
) -> Study:
    _check_names(table, TOP_LEVEL)
    scaled = _scaled(table, scale)
    return Study(
        name=name,
        title=table.get("title", name),
        setting=_setting(scaled, check),
        seeds=_seeds(scaled),
        methods=_methods(table, check),
        tuning=_made(Tuning, scaled.get("tuning", {})),
        text=table.get("text", ""),
        scale=scale,
    )


def _scaled(table: Table, scale: str) -> Table:
    """The table with what its scale overrides; tuning is overridden field by field."""
    scales = table.get("scales", {})
    if scale != FULL_SCALE and scale not in scales:
        raise InputError(unknown("scale", scale, [FULL_SCALE, *scales]))
    overrides = scales.get(scale, {})
    _check_names(overrides, SCALED)
    # field by field: a scale that shortens the rounds of tuning keeps its seed
    tuning = {**table.get("tuning", {}), **overrides.get("tuning", {})}
    return {**table, **overrides, "tuning": tuning}


def _setting(table: Table, check: bool) -> Setting:
    values = {name: table[name] for name in SETTINGS if name in table}
    # a file that counts epochs need not say that it does not count steps
    if values.get("epochs") is not None:
        values.setdefault("steps", None)
    if "metrics" in values:
        values["metrics"] = _metrics(values["metrics"], check)
    return _made(Setting, values)


def _metrics(given: Any, check: bool) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise InputError(f"metrics = {given!r}: give a list, such as ['accuracy']")
    if check:
        from fedstep.run.metrics import metrics_of  # here, so that results are read without torch

        metrics_of(given)
    return tuple(given)


def _seeds(table: Table) -> tuple[int, ...]:
    given = table.get("seeds", [0])
    if not isinstance(given, list):
        given = [given]
    # not isinstance: True is an int to Python
    whole = all(type(seed) is int for seed in given)
    different = whole and len(set(given)) == len(given)
    if not given or not different:
        raise InputError(f"seeds = {given}: give different whole numbers")
    return tuple(given)


def _methods(table: Table, check: bool) -> tuple[Method, ...]:
    entries = table.get("methods", [])
    methods = tuple(_made(Method, entry) for entry in entries)
    # results are found by label: two of the same would be one line of the table
    labels = {method.label for method in methods}
    if not methods or len(labels) < len(methods):
        raise InputError("give [[methods]] with different labels")
    if check:
        for method in methods:
            _check_method(method)
    return methods


def _check_method(method: Method) -> None:
    """Build every grid point: a misspelt argument is found before hours of runs."""
    from fedstep.spec import build  # here, so that results are read without torch

    try:
        candidates = method.candidates()
    except (KeyError, IndexError, ValueError):
        raise InputError(
            f"method {method.label}: {method.spec} does not fit its grid {method.grid}"
        ) from None
    for spec in candidates:
        build(spec)


def _check_names(table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in table:
        if name not in known:
            raise InputError(unknown("setting", name, list(known)))


def _made(kind: type[T], table: Mapping[str, Any]) -> T:
    """A dataclass from a table; what is missing or unknown is named."""
    names = tuple(field.name for field in fields(kind))  # type: ignore[arg-type]
    _check_names(table, names)
    try:
        return kind(**table)
    except TypeError as error:
        # a field without a default is missing; Python's text names it
        raise InputError(str(error).replace("__init__() ", "")) from None
