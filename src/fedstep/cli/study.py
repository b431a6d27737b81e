"""`fedstep run`, `fedstep tune` and `fedstep paper`."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from fedstep.core.errors import InputError, unknown

if TYPE_CHECKING:
    from fedstep.analysis.profile import MethodProfile
    from fedstep.study.choices import Choice
    from fedstep.study.plan import Study

SHIPPED = Path(__file__).parents[1] / "paper" / "studies"


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    run = commands.add_parser(
        "run", help="run a study: tune what has a grid, then every method and seed that is missing"
    )
    run.set_defaults(run=run_study)
    tune = commands.add_parser("tune", help="only the tuning of a study")
    tune.set_defaults(run=tune_study)
    for command in (run, tune):
        command.add_argument(
            "study", metavar="STUDY", help="a TOML file, or the name of one of the paper's studies"
        )
        command.add_argument(
            "--scale",
            default="paper",
            help="paper (the default) or a scale of the file, such as small",
        )
        command.add_argument(
            "--data", type=Path, help="directory of the data sets (default: FEDSTEP_DATA)"
        )
        command.add_argument(
            "--out",
            type=Path,
            help="results directory (default: results/NAME, with the scale behind it)",
        )
        command.add_argument(
            "--workers",
            type=int,
            default=1,
            help="processes (default: 1); the results are the same",
        )
    run.add_argument(
        "--profile",
        action="store_true",
        help="measure where the time of the runs goes, and show it",
    )
    paper = commands.add_parser(
        "paper", help="the paper's studies and what each would cost on this machine"
    )
    paper.add_argument(
        "--quick", action="store_true", help="only the list: do not time a few steps of every model"
    )
    paper.set_defaults(run=list_studies)


def find_study(name: str) -> Path:
    """A study by path or by name."""
    given = Path(name)
    if given.suffix == ".toml" or given.is_file():
        return given
    shipped = SHIPPED / f"{name}.toml"
    if not shipped.exists():
        raise InputError(unknown("study", name, sorted(p.stem for p in SHIPPED.glob("*.toml"))))
    return shipped


def run_study(options: argparse.Namespace) -> None:
    """Tuning first, then the runs, then the comparison."""
    from fedstep.analysis.profile import method_profiles
    from fedstep.study.pool import run_all
    from fedstep.study.work import note_labels

    study, home = _open(options)
    choices = _tuned(study, home, options)
    jobs = study.runs({label: c.spec for label, c in choices.items()})
    labels = [m.label for _ in study.seeds for m in study.methods]
    run_all(jobs, labels, home, options.data, options.workers, options.profile)
    if options.profile:
        _show_profile(method_profiles(jobs, labels, home))
    note_labels(study, home, options.data)
    Console().print(
        f"results: {home}   (fedstep compare {home}; fedstep report {home})",
        soft_wrap=True,
        highlight=False,
    )


def _show_profile(profiles: list[MethodProfile]) -> None:
    from fedstep.run.profile import TIME_KINDS

    console = Console()
    if not profiles:
        console.print(
            "no profile: these runs were finished without --profile; give --out another directory"
        )
        return
    shown = Table("where the time went", *(p.label for p in profiles), box=None, pad_edge=False)
    shown.add_row("ms a round", *(f"{p.milliseconds:.1f}" for p in profiles))
    for kind in TIME_KINDS:
        shown.add_row(kind, *(f"{100 * p.shares[kind]:.0f} %" for p in profiles))
    console.print(shown)


def tune_study(options: argparse.Namespace) -> None:
    """Tuning alone, with what it chose and spent."""
    study, home = _open(options)
    table = Table("method", "chosen", "rounds spent", box=None, pad_edge=False)
    for choice in _tuned(study, home, options).values():
        table.add_row(choice.label, choice.spec, str(choice.rounds))
    Console().print(table)


def list_studies(options: argparse.Namespace) -> None:
    """Names, titles, and the time on one core from a few measured steps."""
    from fedstep.study.study_file import read_study

    heads = ["study", "what it is", "runs x rounds"] + (
        [] if options.quick else ["a step", "paper scale"]
    )
    table = Table(*heads, box=None, pad_edge=False)
    for path in sorted(SHIPPED.glob("*.toml")):
        study = read_study(path)
        size = f"{len(study.methods) * len(study.seeds)} x {study.setting.rounds}"
        table.add_row(path.stem, study.title, size, *(() if options.quick else _cost(study)))
    console = Console()
    console.print(table)
    console.print("fedstep run NAME [--scale small] [--data DIRECTORY] runs one.", highlight=False)


def _cost(study: Study) -> tuple[str, str]:
    from fedstep.study.estimate import estimate

    cost = estimate(study)
    hours = cost.total / 3600
    size = f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:,.0f} days"
    return f"{1000 * cost.step:.1f} ms", f"{size} on one core"


def _open(options: argparse.Namespace) -> tuple[Study, Path]:
    """The study and its results directory, which keeps a copy of the file."""
    from fedstep.study.study_file import read_study
    from fedstep.study.work import prepare

    path = find_study(options.study)
    study = read_study(path, options.scale)
    name = study.name if study.scale == "paper" else f"{study.name}-{study.scale}"
    prepare(study)  # a mistake is found before anything is written
    home = options.out or Path("results") / name
    copy = home / "study.toml"
    home.mkdir(parents=True, exist_ok=True)
    if copy.resolve() != path.resolve():
        shutil.copyfile(path, copy)
    (home / "scale.txt").write_text(study.scale + "\n")
    return study, home


def _tuned(study: Study, home: Path, options: argparse.Namespace) -> dict[str, Choice]:
    from fedstep.study.tune import tune

    return tune(study, home, options.data, options.workers)
