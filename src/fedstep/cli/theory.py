"""`fedstep theory`: the paper's definitions, lemmas and theorems, each tried out; and what they ask
for, measured on a study.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fedstep.cli.options import add_data, add_json, print_json
from fedstep.run.terminal import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedstep.analysis.theory.items import Item
    from fedstep.study.plan import Study

LEGEND = "* numbered by the order of appearance   † statement rebuilt from its proof"


def register(commands: Any) -> None:
    """Add the command to the parser."""
    theory = commands.add_parser(
        "theory",
        help="check every theorem of the paper; measure kappa_f and its step limits on a study",
    )
    theory.add_argument(
        "what",
        nargs="?",
        metavar="ITEM or STUDY",
        help="an item, such as T4 or 'theorem 4', in full; or a study to measure (default: all items)",
    )
    theory.add_argument("--scale", default="default", help="of the study, such as small")
    theory.add_argument(
        "--method",
        action="append",
        default=[],
        metavar="LABEL",
        help="a label of the study, or a call (default: FedSLS and FedExpSLS)",
    )
    theory.add_argument("--rounds", type=int, default=30, help="rounds to run (default: 30)")
    theory.add_argument("--seed", type=int, help="seed (default: the study's first)")
    theory.add_argument("--points", type=int, default=5, help="rounds to look into (default: 5)")
    theory.add_argument("--clients", type=int, default=16, help="clients to look at (default: 16)")
    add_data(theory)
    add_json(theory)
    theory.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the table of all items, one item in full, or the measurements of a study."""
    from fedstep.analysis.theory.items import items_named, paper_items

    found = paper_items() if options.what is None else items_named(options.what)
    if not found:
        _measure(options)
    elif options.json:
        print_json([_record(item) for item in found])
    elif options.what is None:
        _print_all(found)
    else:
        for item in found:
            _print_item(item)


def _record(item: Item) -> dict[str, Any]:
    evidence = item.check()
    return asdict(item) | asdict(evidence) | {"verdict": evidence.verdict}


def _print_all(items: Sequence[Item]) -> None:
    table = Table("", "item", "about", "verdict", "measured", box=None, pad_edge=False)
    for item in items:
        evidence = item.check()
        table.add_row(
            item.key, item.title, item.about, evidence.verdict, evidence.comparisons[-1].text
        )
    terminal = console()
    terminal.print(table)
    terminal.print(f"{LEGEND}   fedstep theory T4: one in full", style="dim", soft_wrap=True)


def _print_item(item: Item) -> None:
    evidence = item.check()
    terminal = console()
    terminal.print(f"{item.title}: {item.about}", style="bold")
    rows = [
        ("statement", item.statement),
        ("hypotheses", item.hypotheses),
        ("tested", item.tested),
        ("instance", evidence.instance),
        *(("", f"{'met' if one.met else 'NOT met'}: {one.what}") for one in evidence.conditions),
        *(("", pair.text) for pair in evidence.comparisons),
        ("verdict", evidence.verdict),
        ("why", item.why),
        ("instead", item.instead or "-"),
    ]
    table = Table(box=None, pad_edge=False, show_header=False)
    for row in rows:
        table.add_row(*row)
    terminal.print(table)
    terminal.print(LEGEND, style="dim")


def _measure(options: argparse.Namespace) -> None:
    from fedstep.analysis.theory.measure import measure
    from fedstep.cli.study import find_study
    from fedstep.run import progress
    from fedstep.study.plan import Job
    from fedstep.study.study_file import read_study
    from fedstep.study.work import prepare, simulation

    study = read_study(find_study(options.what), options.scale)
    prepare(study)
    seed = study.seeds[0] if options.seed is None else options.seed
    records = []
    for spec in _specs(study, options.method):
        sim, _ = simulation(Job(study.setting, spec, seed), options.data)
        measured = measure(
            sim,
            options.rounds,
            options.points,
            options.clients,
            lambda rows, spec=spec: progress.show(rows, options.rounds, spec),
        )
        records.append({"spec": spec, "seed": seed, "kappa": measured.kappa, "L": measured.L})
        records[-1] |= asdict(measured) | {"hypotheses": measured.hypotheses}
        if options.json:
            continue
        table = Table("theorem", "asked for", "left", "right", "", box=None, pad_edge=False)
        for one in measured.hypotheses:
            numbers = (f"{one.found:.3g}", f"{one.limit:.3g}")
            table.add_row(one.theorems, one.what, *numbers, one.holds)
        terminal = console()
        terminal.print(
            f"{spec}, seed {seed}: kappa_f {measured.kappa:.3g}, L at least {measured.L:.3g}"
        )
        terminal.print(table)
    if options.json:
        print_json(records)


def _specs(study: Study, wanted: Sequence[str]) -> list[str]:
    """The calls asked for, by label or as they are; else the paper's own that need no tuning."""
    specs = {method.label: method.spec for method in study.methods if not method.grid}
    if wanted:
        return [specs.get(name, name) for name in wanted]
    ours = [spec for spec in specs.values() if spec.partition("(")[0] in ("fedsls", "fedexpsls")]
    return ours or ["fedsls"]
