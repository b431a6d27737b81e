"""`fedstep list` and `fedstep explain`."""

from __future__ import annotations

import argparse
from dataclasses import fields, is_dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from fedstep.cli.catalog import catalog
from fedstep.core.errors import InputError, unknown


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    listing = commands.add_parser("list", help="the methods, a line each")
    listing.set_defaults(run=list_methods)
    explain = commands.add_parser("explain", help="a method: formula, slots, paper")
    explain.add_argument("name", metavar="NAME", help="a method, with settings if you like: 'fedsls(c=0.5)'")
    explain.set_defaults(run=explain_method)


def list_methods(options: argparse.Namespace) -> None:
    """A table of the zoo."""
    table = Table(box=None, pad_edge=False)
    for heading in ("method", "what it does", "paper"):
        table.add_column(heading, no_wrap=heading == "method")
    for entry in catalog():
        paper = entry.line("Paper")
        table.add_row(entry.name, entry.summary, paper.split(",")[0] if paper else "as the published program runs it")
    Console().print(table)


def explain_method(options: argparse.Namespace) -> None:
    """The docstring, the call with its defaults, and what fills each slot."""
    name = options.name.split("(")[0].strip()
    entry = next((e for e in catalog() if e.name == name), None)
    if entry is None:
        raise InputError(unknown("method", name, [e.name for e in catalog()]))
    from fedstep.spec import build

    algorithm = build(options.name)
    console = Console(highlight=False)
    console.print(f"{entry.signature}\n\n{entry.doc}\n", markup=False, soft_wrap=True)
    table = Table("slot", "filled by", box=None, pad_edge=False)
    local = algorithm.local
    rows: list[tuple[str, object]] = [("terms", ("data loss", *local.terms, *algorithm.correction.terms()))]
    rows += [("oracle", local.oracle), ("direction", local.direction), ("step", local.step)]
    rows += [("correction", algorithm.correction), ("server", algorithm.server)]
    rows += [("weighting", algorithm.weighting), ("readout", algorithm.readout)]
    for slot, filler in rows:
        table.add_row(slot, describe(filler))
    console.print(table, markup=False)


def describe(part: object) -> str:
    """A part with its settings, short."""
    if isinstance(part, tuple):
        return " + ".join(map(describe, part))
    if not is_dataclass(part):
        return f"{part:g}" if isinstance(part, float) else str(part)
    inner = ", ".join(f"{f.name}={describe(getattr(part, f.name))}" for f in fields(part))
    return f"{type(part).__name__}({inner})" if inner else type(part).__name__
