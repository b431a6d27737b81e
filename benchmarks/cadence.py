"""What it costs in accuracy that `fedpace` does not search in every step, on tasks of docs/evidence.md.

    python benchmarks/cadence.py                     with FEDSTEP_DATA set; an hour of one core
    python benchmarks/cadence.py femnist-pace --seeds 0 1

Runs a study's settings with a trial in every step of every client, and sets that beside the study's committed runs, seed by
seed. Interrupted, it goes on by the same command; the runs stay in out/cadence.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from fedstep.analysis.compare import compare_groups
from fedstep.analysis.group import Group
from fedstep.analysis.results import load_results
from fedstep.study.study_file import parse_study
from fedstep.study.whole import open_home, run_whole
from machine import machine, write

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ("femnist-pace", "cifar10-lenet", "shakespeare-small")
OURS = "FedPace"
ALWAYS = "a trial in every step"
METHODS = "[[methods]]\n"
SEARCHED = f"""{METHODS}label = "{ALWAYS}"
spec = "fedpace(step=CommonStep(cadence=Always()))"
"""


def searched(name: str, seeds: list[int], home: Path, data: Path | None) -> Group:
    """The study's runs with a trial in every step."""
    text = (ROOT / "studies" / f"{name}.toml").read_text()
    # the same settings, one method
    file = (text[: text.index(METHODS)] + SEARCHED).encode()
    study = parse_study(Path(f"{name}.toml"), file)
    open_home(study, home, file)
    run_whole(replace(study, seeds=tuple(seeds)), home, data)
    return group_of(home, ALWAYS)


def group_of(home: Path, label: str) -> Group:
    return next(group for group in load_results(home).groups if group.label == label)


def of_seeds(group: Group, seeds: list[int]) -> Group:
    places = [place for place, seed in enumerate(group.seeds) if seed in seeds]
    return group.of_places(places)


def row(name: str, ours: Group, always: Group) -> dict:
    """Both in numbers."""
    rounds = ours.runs[0].rounds[-1]
    compared = compare_groups([ours, always], rounds, reference=ALWAYS)
    by_label = {method.label: method for method in compared.methods}
    gap = by_label[OURS].difference
    assert gap is not None
    # of one seed there is no interval
    ends = ("mean",) if gap.pairs == 1 else ("mean", "low", "high")
    return {
        "study": name,
        "seeds": list(always.seeds),
        "accuracy": 100 * by_label[OURS].score.mean,
        "searched": 100 * by_label[ALWAYS].score.mean,
        "difference": {name: 100 * getattr(gap, name) for name in ends},
        # in gradient equivalents: a trial is a third of one
        "gradients": fmean(run.gradients[-1] for run in ours.runs),
        "gradients searched": fmean(run.gradients[-1] for run in always.runs),
    }


def earlier(out: Path) -> dict:
    """Rows of other studies, by name: they stay."""
    path = out / "cadence.json"
    return json.loads(path.read_text()) if path.exists() else {}


def table(rows: list[dict]) -> str:
    """Markdown."""
    lines = [
        "| study | seeds | `fedpace` | a trial in every step | difference [95 %] | gradient equivalents, ratio |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for each in rows:
        lines.append(
            f"| {each['study']} | {len(each['seeds'])} | {each['accuracy']:.2f} | {each['searched']:.2f} | "
            f"{gap_text(each)} | "
            f"{each['gradients'] / each['gradients searched']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def gap_text(each: dict) -> str:
    """The difference and its interval, where there is one."""
    gap = each["difference"]
    if "low" not in gap:
        return f"{gap['mean']:+.2f}"
    return f"{gap['mean']:+.2f} [{gap['low']:+.2f}, {gap['high']:+.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description="`fedpace` beside a trial in every step.")
    parser.add_argument("studies", nargs="*", default=STUDIES, metavar="study")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--homes", type=Path, default=ROOT / "out" / "cadence", help="of the runs")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    data = os.environ.get("FEDSTEP_DATA")
    rows = earlier(options.out)
    for name in options.studies:
        always = searched(name, options.seeds, options.homes / name, data and Path(data))
        ours = of_seeds(group_of(ROOT / "results" / name, OURS), options.seeds)
        rows[name] = row(name, ours, always)
    page = f"# cadence\n\nFinal accuracy in %. `python benchmarks/cadence.py`, {machine()['date']}.\n\n"
    write(options.out / "cadence", rows, page + table(list(rows.values())))


if __name__ == "__main__":
    main()
