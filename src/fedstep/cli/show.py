"""`fedstep list` and `fedstep explain`."""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fedstep.cli.catalog import LABEL, Entry, catalog, methods_markdown
from fedstep.cli.options import add_json, print_json
from fedstep.core.errors import InputError, unknown
from fedstep.run.terminal import console

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
        "name",
        metavar="NAME",
        help="a method, with settings if you like: 'fedsls(c=0.5)'",
    )
    explain.set_defaults(run=explain_method)
    for command in (listing, explain):
        add_json(command)


def list_methods(options: argparse.Namespace) -> None:
    """A table of the zoo."""
    # for the documentation: a test compares the page with it
    if options.markdown:
        print(methods_markdown(catalog()), end="")
        return
    if options.slots:
        list_slots(options)
        return
    if options.json:
        print_json([_record(entry) for entry in catalog()])
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("method", "what it does", "paper"):
        table.add_column(heading, no_wrap=heading == "method")
    for entry in catalog():
        table.add_row(entry.name, entry.summary, entry.citation)
    console(highlight=True).print(table)


def _record(entry: Entry) -> dict[str, str]:
    return {
        "name": entry.name,
        "call": entry.signature,
        "summary": entry.summary,
        "paper": entry.paragraph("Paper"),
        "special_case": entry.paragraph("Special case"),
        "family": entry.family,
    }


def list_slots(options: argparse.Namespace) -> None:
    """Every method as plain averaging with other fillers: what stands behind a name can be written
    behind `fedavg`.
    """
    from fedstep.spec import build

    # built, not read: what a method fills is what its constructor makes
    slots = {entry.name: differences(build(entry.name)) for entry in catalog()}
    if options.json:
        print_json(slots)
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("method", no_wrap=True)
    # folded: a filler without spaces would be cut
    table.add_column("fedavg(...) with", overflow="fold")
    for name, keywords in slots.items():
        fillers = "  ".join(f"{slot}={filler}" for slot, filler in keywords.items())
        table.add_row(name, fillers or "nothing else")
    terminal = console()
    terminal.print(table)
    terminal.print(
        "\nAny method takes these keywords:\n"
        "  fedstep explain 'fedsls(server=Adaptive(moment=Average()))'",
        soft_wrap=True,
    )


def differences(algorithm: Algorithm) -> dict[str, str]:
    """The slots that are not filled as in plain averaging, as keywords of a method."""
    from fedstep.spec import SLOTS, filled, shown

    keywords = {}
    for name in shown(algorithm):
        part = filled(algorithm, name)
        # plain averaging is what all others are told by
        if part != SLOTS[name].plain:
            keywords[name] = written(part)
    return keywords


def written(part: object) -> str:
    """A part as a method's text has it: only the settings that are not the default."""
    if isinstance(part, tuple):
        return _written_tuple(part)
    if not is_dataclass(part):
        return repr(part)
    settings = []
    for field in fields(part):
        value = getattr(part, field.name)
        # defaults are left out, so that the text is one that a person would write
        if value != field.default:
            settings.append(f"{field.name}={written(value)}")
    return f"{type(part).__name__}({', '.join(settings)})"


def _written_tuple(parts: tuple[object, ...]) -> str:
    if len(parts) == 1 and is_dataclass(parts[0]):
        return written(parts[0])  # a slot for several parts takes one as it is
    return f"({', '.join(map(written, parts))})"


def explain_method(options: argparse.Namespace) -> None:
    """The docstring, the call with its defaults, and what fills each slot."""
    # a misspelt name is answered at once: torch is imported only for a method that exists
    entry = _entry(options.name.split("(")[0].strip())
    from fedstep.spec import build, filled, shown

    algorithm = build(options.name)
    fillers = {}
    for slot in shown(algorithm):
        filler = filled(algorithm, slot)
        if slot == "terms":
            filler = ("data loss", *filler, *algorithm.correction.terms())
        fillers[slot] = describe(filler)
    if options.json:
        print_json({**_record(entry), "text": entry.doc, "slots": fillers})
        return
    table = Table("slot", box=None, pad_edge=False)
    table.add_column("filled by", overflow="fold")
    for slot, words in fillers.items():
        table.add_row(slot, words)
    terminal = console()
    call = textwrap.fill(entry.signature, terminal.width, subsequent_indent="  ")
    text = refilled(entry.doc, terminal.width)
    terminal.print(f"{call}\n\n{text}\n", soft_wrap=True)
    terminal.print(table)


def refilled(doc: str, width: int) -> str:
    """A docstring whose prose has lines of the terminal's width; formulas, indented, stay."""
    lines: list[str] = []
    prose: list[str] = []
    # one more, empty: it ends the last paragraph
    for line in [*doc.splitlines(), ""]:
        formula = not line or line.startswith(" ")
        if prose and (formula or LABEL.match(line)):
            lines.append(textwrap.fill(" ".join(prose), width, break_on_hyphens=False))
            prose = []
        if formula:
            lines.append(line)
        else:
            prose.append(line.strip())
    return "\n".join(lines).rstrip()


def _entry(name: str) -> Entry:
    entries = {entry.name: entry for entry in catalog()}
    if name not in entries:
        raise InputError(unknown("method", name, list(entries)))
    return entries[name]


def describe(part: object) -> str:
    """A part with its settings, short."""
    if isinstance(part, tuple):
        return " + ".join(map(describe, part))
    if isinstance(part, float):
        return f"{part:g}"
    if not is_dataclass(part):
        return str(part)
    settings = [f"{field.name}={describe(getattr(part, field.name))}" for field in fields(part)]
    if not settings:
        return type(part).__name__
    return f"{type(part).__name__}({', '.join(settings)})"
