"""A study as a TOML file: read, checked, and scaled."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from fedstep.core.errors import InputError, brief, unknown
from fedstep.study.plan import FULL_SCALE, Method, Seed, Setting, Study, Text, Tuning
from fedstep.study.typed import check_names, typed

Table = dict[str, Any]

LARGEST_FILE = 10**6  # bytes: a study is a few pages of text
SETTINGS = [field.name for field in fields(Setting)]
SCALED = ["seeds", "tuning", *SETTINGS]  # what a scale may override


@dataclass(frozen=True)
class Heading:
    """What a file holds besides the fields of a setting."""

    title: Text | None = None  # None: the name of the file
    text: Text = ""
    seeds: Annotated[
        list[Seed],
        Meta(min_length=1, max_length=10_000, description="different whole numbers"),
    ] = field(default_factory=lambda: [0])
    methods: Annotated[
        list[Table],
        Meta(min_length=1, max_length=10_000, description="[[methods]] with different labels"),
    ] = field(default_factory=list)
    tuning: Annotated[Table, Meta(description="a table such as { rounds = 100 }")] = field(
        default_factory=dict
    )
    scales: Annotated[dict[str, Table], Meta(description="tables such as [scales.small]")] = field(
        default_factory=dict
    )


HEADINGS = [field.name for field in fields(Heading)]


def read_study(
    path: Path,
    scale: str = FULL_SCALE,
    check: bool = True,
) -> Study:
    """Parse a study; `scale` names a table of the file that overrides settings, such as `small`.

    `check` builds every method; results that exist can be read without.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such study (fedstep paper lists those of the paper)"
        ) from None
    return parse_study(path, data, scale, check)


def parse_study(
    path: Path,
    data: bytes,
    scale: str = FULL_SCALE,
    check: bool = True,
) -> Study:
    """The same from the bytes of the file."""
    try:
        return _study(path.stem, parse_table(data), scale, check)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def parse_table(data: bytes) -> Table:
    """TOML from the bytes of a file."""
    if len(data) > LARGEST_FILE:
        raise InputError(f"{len(data):,} bytes; such a file has at most {LARGEST_FILE:,}")
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # neither UTF-8 nor TOML
        reason = str(error) or "nested too deep"
        raise InputError(f"{reason}; mend the file") from None


def _study(
    name: str,
    table: Table,
    scale: str,
    check: bool,
) -> Study:
    check_names(table, [*HEADINGS, *SETTINGS])
    heading = _heading(table)
    if check:
        # a mistake is one whatever scale is asked for
        for each in (FULL_SCALE, *heading.scales):
            setting_of(_scaled(heading, table, each), check=False)
    scaled = _scaled(heading, table, scale)
    heading = _heading(scaled)
    if len(set(heading.seeds)) < len(heading.seeds):
        raise InputError(f"seeds = {brief(heading.seeds)}: give different whole numbers")
    title = heading.title
    if title is None:
        title = name
    return Study(
        name=name,
        title=title,
        setting=setting_of(scaled, check),
        seeds=tuple(heading.seeds),
        methods=_methods(heading.methods, check),
        tuning=_within("tuning", Tuning, heading.tuning),
        text=heading.text,
        scale=scale,
    )


def _heading(table: Table) -> Heading:
    values = {name: table[name] for name in HEADINGS if name in table}
    # one seed need not be a list
    seeds = values.get("seeds", [])
    if not isinstance(seeds, list):
        values["seeds"] = [seeds]
    return typed(Heading, values)


def _scaled(heading: Heading, table: Table, scale: str) -> Table:
    """The table with what its scale overrides; tuning is overridden field by field."""
    if scale != FULL_SCALE and scale not in heading.scales:
        raise InputError(unknown("scale", scale, [FULL_SCALE, *heading.scales]))
    overrides = heading.scales.get(scale, {})
    check_names(overrides, SCALED)
    tuning = overrides.get("tuning", {})
    if not isinstance(tuning, Mapping):
        raise InputError(f"scales.{scale}.tuning = {brief(tuning)}: give a table")
    # field by field: a scale that shortens the rounds of tuning keeps its seed
    return {**table, **overrides, "tuning": {**heading.tuning, **tuning}}


def setting_of(table: Table, check: bool) -> Setting:
    """The fields of a setting among those of a file."""
    values = {name: table[name] for name in SETTINGS if name in table}
    # a file that counts epochs need not say that it does not count steps
    if values.get("epochs") is not None:
        values.setdefault("steps", None)
    setting = typed(Setting, values)
    if check and setting.metrics:
        from fedstep.run.metrics import metrics_of  # here, so that results are read without torch

        metrics_of(setting.metrics)
    return setting


def _methods(entries: list[Table], check: bool) -> tuple[Method, ...]:
    methods = []
    for number, entry in enumerate(entries, start=1):
        methods.append(_within(f"method {number}", Method, entry))
    # results are found by label: two of the same would be one line of the table
    labels = {method.label for method in methods}
    if not methods or len(labels) < len(methods):
        raise InputError("give [[methods]] with different labels")
    if check:
        for method in methods:
            check_method(method)
    return tuple(methods)


def _within(place: str, kind: type[Any], table: Table) -> Any:
    """A table inside the file; a message says which."""
    try:
        return typed(kind, table)
    except InputError as error:
        message = str(error)
        # what the table says of itself bears its name already
        if message.startswith(place.split(" ")[0]):
            raise
        raise InputError(f"{place}: {message}") from None


def check_method(method: Method) -> None:
    """Build every grid point: a misspelt argument is found before hours of runs."""
    from fedstep.spec import build  # here, so that results are read without torch

    for spec in method.candidates():
        try:
            build(spec)
        except InputError as error:
            raise InputError(f"method {method.label}: {error}") from None
