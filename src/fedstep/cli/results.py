"""`fedstep compare`, `fedstep report` and `fedstep export`: what a study found."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from fedstep.report.page import Figure


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    compare = commands.add_parser("compare", help="the methods of a study side by side, over seeds")
    compare.add_argument(
        "--target", type=float, help="accuracy that costs lead to (default: 95 %% of the best mean)"
    )
    compare.add_argument(
        "--reference",
        metavar="LABEL",
        help="method that differences are taken to (default: the best)",
    )
    compare.add_argument("--markdown", action="store_true", help="print Markdown")
    compare.set_defaults(run=run_compare)
    report = commands.add_parser("report", help="a page with the tables and charts of a study")
    report.add_argument(
        "--figures", action="store_true", help="PNG and PDF for a paper too, in HOME/figures"
    )
    report.add_argument(
        "--out", type=Path, metavar="FILE", help="the page (default: HOME/report.html)"
    )
    report.set_defaults(run=run_report)
    export = commands.add_parser("export", help="every round of a study in one file")
    form = export.add_mutually_exclusive_group(required=True)
    form.add_argument(
        "--csv", type=Path, metavar="FILE", help="a row for every method, seed and round"
    )
    form.add_argument(
        "--parquet", type=Path, metavar="FILE", help="the same as Parquet (extra: parquet)"
    )
    form.add_argument(
        "--pack",
        type=Path,
        metavar="FILE",
        help="finished runs, small enough to keep under version control",
    )
    export.set_defaults(run=run_export)
    for command in (compare, report, export):
        command.add_argument(
            "home", type=Path, metavar="HOME", help="results directory of fedstep run"
        )


def run_compare(options: argparse.Namespace) -> None:
    """Print the tables and what their columns mean."""
    from fedstep.analysis.compare import compare
    from fedstep.analysis.results import load_results
    from fedstep.report.tables import comparison_notes, markdown, rich_tables

    found = compare(load_results(options.home), options.target, options.reference)
    if options.markdown:
        print(markdown(found), end="")
        return
    console = Console(highlight=False)
    for table in rich_tables(found):
        console.print(table)
        console.print()
    for note in comparison_notes(found):
        console.print(note, style="dim", markup=False)


def run_report(options: argparse.Namespace) -> None:
    """Write the page, and the figures if asked."""
    from fedstep.analysis.results import load_results
    from fedstep.report.report import write_study_report

    results = load_results(options.home)
    target = options.out or options.home / "report.html"
    page = write_study_report(target, results, _labels(options.home))
    made = [("report", page)]
    if options.figures:
        from fedstep.report.figures import study_figures

        made += [("figure", path) for path in study_figures(results, options.home / "figures")]
    console = Console()
    for kind, path in made:
        console.print(f"{kind}: {path}", soft_wrap=True, highlight=False, markup=False)


def _labels(home: Path) -> list[Figure]:
    """The map of the clients' labels, where `fedstep run` has noted them."""
    from fedstep.report.heatmap import heatmap

    path = home / "labels.json"
    if not path.exists():
        return []
    known = json.loads(path.read_text())
    return [
        heatmap(known["counts"], known["labels"], f"Labels of the clients, seed {known['seed']}")
    ]


def run_export(options: argparse.Namespace) -> None:
    """Write the file and say where."""
    from fedstep.analysis.export import write_csv, write_parquet
    from fedstep.analysis.results import load_results, pack

    if options.pack:
        path = pack(options.home, options.pack)
    elif options.csv:
        path = write_csv(load_results(options.home), options.csv)
    else:
        path = write_parquet(load_results(options.home), options.parquet)
    size = path.stat().st_size / 1e6
    Console().print(
        f"export: {path} ({size:.2f} MB)", soft_wrap=True, highlight=False, markup=False
    )
