"""`fedstep list` and `fedstep explain`."""

from __future__ import annotations

import argparse
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedstep.cli.catalog import catalog, methods_markdown
from fedstep.core.errors import InputError, unknown

if TYPE_CHECKING:
    from fedstep.algorithm import Algorithm


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    listing = commands.add_parser("list", help="the methods, a line each")
    listing.add_argument(
        "--slots",
        action="store_true",
        help="what each fills its slots with, where it is not plain averaging",
    )
    listing.add_argument("--markdown", action="store_true", help="the index of docs/methods")
    listing.set_defaults(run=list_methods)
    explain = commands.add_parser("explain", help="a method: formula, slots, paper")
    explain.add_argument(
        "name", metavar="NAME", help="a method, with settings if you like: 'fedsls(c=0.5)'"
    )
    explain.set_defaults(run=explain_method)


def list_methods(options: argparse.Namespace) -> None:
    """A table of the zoo."""
    if options.markdown:
        print(methods_markdown(catalog()), end="")
        return
    if options.slots:
        list_slots()
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("method", "what it does", "paper"):
        table.add_column(heading, no_wrap=heading == "method")
    for entry in catalog():
        paper = entry.line("Paper")
        table.add_row(
            entry.name,
            entry.summary,
            paper.split(",")[0] if paper else "as the published program runs it",
        )
    Console().print(table)


def list_slots() -> None:
    """Every method as plain averaging with other fillers: what stands behind a name can be written behind `fedavg`."""
    from fedstep.spec import build

    table = Table(box=None, pad_edge=False)
    table.add_column("method", no_wrap=True)
    table.add_column("fedavg(...) with")
    for entry in catalog():
        table.add_row(entry.name, Text("  ".join(differences(build(entry.name))) or "nothing else"))
    console = Console(highlight=False)
    console.print(table)
    note = "Any method takes these keywords: fedstep explain 'fedsls(server=Adaptive(moment=Average()))'."
    console.print(f"\n{note}", markup=False, soft_wrap=True)


def differences(algorithm: Algorithm) -> list[str]:
    """The slots that are not filled as in plain averaging, as keywords of a method."""
    from fedstep.spec import SLOTS, filled, shown

    both = ((name, SLOTS[name].plain, filled(algorithm, name)) for name in shown(algorithm))
    return [f"{name}={written(part)}" for name, plain, part in both if part != plain]


def written(part: object) -> str:
    """A part as it can be written in a method's text: only the settings that are not the default."""
    if isinstance(part, tuple):
        inner = [written(p) for p in part]
        return inner[0] if len(inner) == 1 and is_dataclass(part[0]) else f"({', '.join(inner)})"
    if not is_dataclass(part):
        return repr(part)
    given = ((f, getattr(part, f.name)) for f in fields(part))
    inner = [f"{f.name}={written(value)}" for f, value in given if value != f.default]
    return f"{type(part).__name__}({', '.join(inner)})"


def explain_method(options: argparse.Namespace) -> None:
    """The docstring, the call with its defaults, and what fills each slot."""
    name = options.name.split("(")[0].strip()
    entry = next((e for e in catalog() if e.name == name), None)
    if entry is None:
        raise InputError(unknown("method", name, [e.name for e in catalog()]))
    from fedstep.spec import build, filled, shown

    algorithm = build(options.name)
    console = Console(highlight=False)
    console.print(f"{entry.signature}\n\n{entry.doc}\n", markup=False, soft_wrap=True)
    table = Table("slot", "filled by", box=None, pad_edge=False)
    for slot in shown(algorithm):
        filler = filled(algorithm, slot)
        if slot == "terms":
            filler = ("data loss", *filler, *algorithm.correction.terms())
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
