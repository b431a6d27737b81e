"""`fedstep run`, `fedstep tune` and `fedstep paper`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fedstep.cli.options import (
    add_data,
    add_device,
    add_json,
    add_results,
    add_study,
    add_workers,
    print_json,
    shipped_file,
    use_device,
)
from fedstep.run.terminal import console

if TYPE_CHECKING:
    from fedstep.analysis.profile import MethodProfile
    from fedstep.study.estimate import Estimate
    from fedstep.study.plan import Study

SHIPPED = Path(__file__).parents[1] / "paper" / "studies"


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    run = commands.add_parser(
        "run",
        help="run a study: tune what has a grid, then every method and seed that is missing",
    )
    run.set_defaults(run=run_study, resumes=True)
    tune = commands.add_parser("tune", help="only the tuning of a study")
    tune.set_defaults(run=tune_study, resumes=True)
    for command in (run, tune):
        add_study(command)
        add_data(command)
        add_results(command)
        add_json(command)
        add_workers(command)
        add_device(command)
        command.add_argument(
            "--only",
            action="append",
            default=[],
            metavar="LABEL",
            help="this method of the study alone (may be given several times; default: all)",
        )
        command.add_argument(
            "--ray",
            nargs="?",
            const="local",
            metavar="ADDRESS",
            help="do the runs, or the rounds of a single one, on a Ray cluster (extra `ray`); "
            "without an address on this machine",
        )
    run.add_argument(
        "--profile",
        action="store_true",
        help="measure where the time of the runs goes, and show it",
    )
    paper = commands.add_parser(
        "paper",
        help="the paper's studies and what each would cost on this machine",
    )
    paper.add_argument(
        "--quick",
        action="store_true",
        help="only the list: do not time a few steps of every model",
    )
    add_json(paper)
    paper.set_defaults(run=list_studies)


def find_study(name: str) -> Path:
    """A study by path or by name."""
    return shipped_file("study", name, SHIPPED)


def run_study(options: argparse.Namespace) -> None:
    """Tuning first, then the runs, then the comparison."""
    from fedstep.analysis.profile import method_profiles
    from fedstep.study.dealt import note_labels
    from fedstep.study.whole import run_whole

    use_device(options.device)
    study, home = _open(options)
    jobs = run_whole(
        study,
        home,
        options.data,
        options.workers,
        options.profile,
        options.ray,
        options.only,
    )
    # after the runs: the data are in the cache by then
    note_labels(study, home, options.data)
    profiles = None
    if options.profile:
        methods = study.only(options.only).methods
        labels = [method.label for method in methods] * len(study.seeds)
        profiles = method_profiles(jobs, labels, home)
    if options.json:
        print_json({"results": str(home), "profiles": [asdict(p) for p in profiles or ()]})
        return
    if profiles is not None:
        _show_profile(profiles)
    console().print(
        f"results: {home}   (fedstep compare {home}; fedstep report {home})",
        soft_wrap=True,
    )


def _show_profile(profiles: list[MethodProfile]) -> None:
    from fedstep.run.profile import TIME_KINDS

    terminal = console(highlight=True)
    if not profiles:
        terminal.print(
            "no profile: these runs were finished without --profile; give --out another directory"
        )
        return
    labels = [profile.label for profile in profiles]
    table = Table("where the time went", *labels, box=None, pad_edge=False)
    table.add_row("ms a round", *(f"{profile.milliseconds:.1f}" for profile in profiles))
    for kind in TIME_KINDS:
        shares = [f"{100 * profile.shares[kind]:.0f} %" for profile in profiles]
        table.add_row(kind, *shares)
    terminal.print(table)


def tune_study(options: argparse.Namespace) -> None:
    """Tuning alone, with what it chose and spent."""
    from fedstep.study.tune import tune

    use_device(options.device)
    study, home = _open(options)
    choices = tune(
        study,
        home,
        options.data,
        options.workers,
        options.ray,
        options.only,
    )
    if options.json:
        print_json([asdict(choice) for choice in choices.values()])
        return
    table = Table("method", "chosen", "rounds spent", box=None, pad_edge=False)
    for choice in choices.values():
        table.add_row(choice.label, choice.spec, str(choice.rounds))
    console(highlight=True).print(table)


def list_studies(options: argparse.Namespace) -> None:
    """Names, titles, and the time on one core from a few measured steps."""
    from fedstep.study.study_file import read_study

    heads = ["study", "what it is", "runs x rounds"]
    if not options.quick:
        heads += ["a step", "the whole study"]
    table = Table(*heads, box=None, pad_edge=False)
    records = []
    for path in sorted(SHIPPED.glob("*.toml")):
        study = read_study(path)
        # those that are compared; what tuning spends comes on top
        runs = len(study.methods) * len(study.seeds)
        rounds = study.setting.rounds
        record: dict[str, Any] = {
            "study": path.stem,
            "title": study.title,
            "runs": runs,
            "rounds": rounds,
        }
        cells = [path.stem, study.title, f"{runs} x {rounds}"]
        if not options.quick:
            cost = _estimate(study)
            record |= {"step_seconds": cost.step, "seconds": cost.total}
            cells += _cost_text(cost)
        records.append(record)
        table.add_row(*cells)
    if options.json:
        print_json(records)
        return
    terminal = console(highlight=True)
    terminal.print(table)
    terminal.print("fedstep run NAME [--scale small] [--data DIRECTORY] runs one.", highlight=False)


def _estimate(study: Study) -> Estimate:
    """Imported here: the list alone needs no torch."""
    from fedstep.study.estimate import estimate

    return estimate(study)


def _cost_text(cost: Estimate) -> tuple[str, str]:
    step = f"{1000 * cost.step:.1f} ms"
    hours = cost.total / 3600
    # nobody thinks in hundreds of hours
    if hours < 48:
        return step, f"{hours:.1f} hours on one core"
    return step, f"{hours / 24:,.0f} days on one core"


def _open(options: argparse.Namespace) -> tuple[Study, Path]:
    """The study and its results directory, which keeps a copy of the file."""
    from fedstep.study.study_file import read_study
    from fedstep.study.whole import open_home

    path = find_study(options.study)
    study = read_study(path, options.scale)
    # a misspelt label is found before anything is written
    study.only(options.only)
    home = options.out or default_home(study)
    open_home(study, home, path.read_bytes())
    return study, home


def default_home(study: Study) -> Path:
    """Where the results of a study go when nothing else is said."""
    from fedstep.study.plan import FULL_SCALE

    if study.scale == FULL_SCALE:
        return Path("results") / study.name
    return Path("results") / f"{study.name}-{study.scale}"
