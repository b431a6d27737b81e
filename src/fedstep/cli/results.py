"""`fedstep compare`, `fedstep report` and `fedstep export`: what a study found."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedstep.cli.options import add_json, print_json
from fedstep.core.printable import printable
from fedstep.run.terminal import console

if TYPE_CHECKING:
    from fedstep.report.page import Figure


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    compare = commands.add_parser("compare", help="the methods of a study side by side, over seeds")
    compare.add_argument(
        "--target",
        type=float,
        help="accuracy that costs lead to (default: 95 %% of the best mean)",
    )
    compare.add_argument(
        "--reference",
        metavar="LABEL",
        help="method that differences are taken to (default: the best)",
    )
    compare.add_argument("--markdown", action="store_true", help="print Markdown")
    add_json(compare)
    compare.set_defaults(run=run_compare)
    report = commands.add_parser("report", help="a page with the tables and charts of a study")
    report.add_argument(
        "--figures",
        action="store_true",
        help="PNG and PDF for a paper too, in HOME/figures",
    )
    report.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="the page (default: HOME/report.html)",
    )
    report.set_defaults(run=run_report)
    export = commands.add_parser("export", help="every round of a study in one file")
    _register_formats(export)
    export.set_defaults(run=run_export)
    for command in (compare, report, export):
        command.add_argument(
            "home",
            type=Path,
            metavar="HOME",
            help="results directory of fedstep run",
        )


def _register_formats(export: argparse.ArgumentParser) -> None:
    # one file a call: two would need two names
    formats = export.add_mutually_exclusive_group(required=True)
    formats.add_argument(
        "--csv",
        type=Path,
        metavar="FILE",
        help="a row for every method, seed and round",
    )
    formats.add_argument(
        "--parquet",
        type=Path,
        metavar="FILE",
        help="the same as Parquet (extra: parquet)",
    )
    formats.add_argument(
        "--pack",
        type=Path,
        metavar="FILE",
        help="finished runs, small enough to keep under version control",
    )


def run_compare(options: argparse.Namespace) -> None:
    """Print the tables and what their columns mean."""
    from fedstep.analysis.compare import compare
    from fedstep.analysis.results import load_results
    from fedstep.report.tables import comparison_notes, markdown, rich_tables

    # one comparison for all three forms: they cannot disagree
    comparison = compare(load_results(options.home), options.target, options.reference)
    if options.json:
        print_json(asdict(comparison))
        return
    if options.markdown:
        # without colours and line breaks: it is to be pasted
        print(printable(markdown(comparison)), end="")
        return
    terminal = console()
    for table in rich_tables(comparison):
        terminal.print(table)
        terminal.print()
    for note in comparison_notes(comparison):
        terminal.print(note, style="dim")


def run_report(options: argparse.Namespace) -> None:
    """Write the page, and the figures if asked."""
    from fedstep.analysis.results import load_results
    from fedstep.report.report import write_study_report

    # from the files alone: nothing is trained, and no data set is needed
    results = load_results(options.home)
    # beside the results, where `fedstep run` leaves its own
    target = options.out or options.home / "report.html"
    page = write_study_report(target, results, _label_maps(options.home))
    terminal = console()
    terminal.print(f"report: {page}", soft_wrap=True)
    if options.figures:
        from fedstep.report.figures import study_figures

        for path in study_figures(results, options.home / "figures"):
            terminal.print(f"figure: {path}", soft_wrap=True)


def _label_maps(home: Path) -> list[Figure]:
    """The map of the clients' labels, where `fedstep run` has noted them."""
    from fedstep.report.heatmap import heatmap
    from fedstep.run.files import read_sealed

    path = home / "labels.json"
    # regression has no labels, and old results have none noted
    if not path.exists():
        return []
    labels = read_sealed(path, ("seed", "labels", "counts"))
    title = f"Labels of the clients, seed {labels['seed']}"
    return [heatmap(labels["counts"], labels["labels"], title)]


def run_export(options: argparse.Namespace) -> None:
    """Write the file and say where."""
    from fedstep.analysis.export import write_csv, write_parquet
    from fedstep.analysis.results import load_results, pack

    # a pack holds the runs as they are; the other two are made from what was read of them
    if options.pack:
        path = pack(options.home, options.pack)
    elif options.csv:
        path = write_csv(load_results(options.home), options.csv)
    else:
        path = write_parquet(load_results(options.home), options.parquet)
    megabytes = path.stat().st_size / 1e6
    console().print(f"export: {path} ({megabytes:.2f} MB)", soft_wrap=True)
