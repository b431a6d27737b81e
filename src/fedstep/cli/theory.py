"""`fedstep theory`: the paper's theorems tried out, and what they ask for measured on a study."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fedstep.cli.options import add_data, add_json, print_json
from fedstep.run.terminal import console

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fedstep.study.plan import Study

LEGEND = "* numbered in the order of appearance; † wording not at hand: docs/theory.md"


def register(commands: Any) -> None:
    """Add the command to the parser."""
    theory = commands.add_parser(
        "theory", help="try every theorem of the paper; measure what they ask for on a study"
    )
    theory.add_argument(
        "what",
        nargs="?",
        metavar="ITEM or STUDY",
        help="an item in full, such as T4, or a study to measure (default: a table of all items)",
    )
    theory.add_argument("--scale", default="default", help="a scale of the study, such as small")
    theory.add_argument(
        "--method",
        action="append",
        default=[],
        metavar="LABEL",
        help="a label of the study, or a call (default: its FedSLS and FedExpSLS)",
    )
    theory.add_argument("--rounds", type=int, default=30, help="rounds to run (default: 30)")
    theory.add_argument("--points", type=int, default=5, help="rounds to look into (default: 5)")
    theory.add_argument("--clients", type=int, default=16, help="clients to look at (default: 16)")
    theory.add_argument("--seed", type=int, help="seed (default: the study's first)")
    add_data(theory)
    add_json(theory)
    theory.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the table of all items, one item in full, or the measurements of a study."""
    from fedstep.analysis.theory.items import items_named, paper_items

    items = paper_items() if options.what is None else items_named(options.what)
    if not items:
        _measure(options)
    elif options.json:
        print_json([item.record() for item in items])
    elif options.what is None:
        rows = [item.row(item.check()) for item in items]
        _print(rows, ("", "item", "about", "tested", "verdict", "measured, bound"))
        _print([(LEGEND,), ("`fedstep theory T4` shows an item in full",)])
    else:
        for item in items:
            _print(item.lines(item.check()))
        _print([(LEGEND,)])


def _print(rows: Iterable[Sequence[str]], heads: Sequence[str] = ()) -> None:
    table = Table(*heads, box=None, pad_edge=False, show_header=bool(heads))
    for row in rows:
        table.add_row(*row)
    console().print(table)


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
        show = lambda rows: progress.show(rows, options.rounds, spec)  # noqa: B023, E731
        found = measure(sim, options.rounds, options.points, options.clients, show)
        records.append(found.record() | {"spec": spec, "seed": seed})
        if not options.json:
            rows = [
                (one.theorems, one.what, f"{one.found:.3g}", f"{one.limit:.3g}", one.holds)
                for one in found.hypotheses
            ]
            _print(rows, ("theorem", f"{spec}, seed {seed}", "left", "right", ""))
    if options.json:
        print_json(records)


def _specs(study: Study, wanted: Sequence[str]) -> list[str]:
    """The calls asked for, by label or as they are; else the paper's two methods."""
    specs = {method.label: method.spec for method in study.methods if not method.grid}
    if wanted:
        return [specs.get(name, name) for name in wanted]
    return [spec for spec in specs.values() if spec.startswith(("fedsls", "fedexpsls"))]
