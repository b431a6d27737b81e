"""One untouched default against tuned FedAvg and FedAdam on small problems.

FEDSTEP_DATA=DIRECTORY python benchmarks/suite/run.py            all problems; about an hour, one core
... run.py --only digits --methods fedpace fedsls                some
... run.py --table                                               the table of what is there
... run.py --held-out --table                                    problems that nothing was chosen on
... run.py --only wine --seeds 12                                where test samples are few

Every run is kept in benchmarks/results/suite.jsonl and never made twice. FedAvg: the best of 11
steps, FedAdam: the best of 12 pairs around it; both are chosen on the test samples of seed 0,
which favours them. What is compared is the mean of the last three rounds, over the seeds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import warnings
from pathlib import Path
from statistics import fmean

import torch
from held_out import HELD_OUT
from problems import PROBLEMS, Problem
from torch.nn import functional

import fedstep
from fedstep.execute import Cohort

STORE = Path(__file__).parents[1] / "results" / "suite.jsonl"
TABLE = STORE.with_suffix(".md")
STEPS = tuple(10 ** (k / 2) for k in range(-6, 5))  # 0.001 to 100
SERVER_STEPS = (0.00316, 0.01, 0.0316, 0.1)


class NotRun(LookupError):
    """A run is not among the results, and nothing is to be run now."""


class Results:
    """What has been run, by problem, method and seed; `seeds` of them are compared."""

    def __init__(self, seeds: int, may_run: bool = True) -> None:
        self.seeds = seeds
        self.may_run = may_run
        self.rows: dict[tuple[str, str, int], dict[str, float]] = {}
        if STORE.exists():
            for line in STORE.read_text().splitlines():
                row = json.loads(line)
                self.rows[row["problem"], row["method"], row["seed"]] = row

    def score(self, problem: Problem, method: str, seed: int) -> float:
        """The mean of the last three rounds; a run that broke is as bad as can be."""
        key = problem.name, method, seed
        if key not in self.rows:
            if not self.may_run:
                raise NotRun(f"{problem.name}: {method}, seed {seed}")
            self.rows[key] = measured(problem, method, seed)
            with STORE.open("a") as store:
                store.write(json.dumps(self.rows[key]) + "\n")
        score = self.rows[key]["score"]
        return score if math.isfinite(score) else -1.0

    def mean(self, problem: Problem, method: str) -> float:
        return fmean(self.score(problem, method, seed) for seed in range(self.seeds))


def measured(problem: Problem, method: str, seed: int) -> dict[str, float]:
    model, clients, test = problem.task(seed)
    loss = functional.mse_loss if problem.regression else functional.cross_entropy
    column = "r2" if problem.regression else "accuracy"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # steps of 100 are in the grid, and fit warns of them
        result = fedstep.fit(
            model,
            clients,
            method,
            rounds=problem.rounds,
            per_round=problem.per_round,
            batch=problem.batch,
            local_steps=problem.steps,
            loss=loss,
            test=test,
            seed=seed,
            executor=Cohort(),
            guard=False,  # methods are compared here, and nobody is hostile
            progress=False,
        )
    rows = [row.to_dict() for row in result.rows]
    last = [row.get(column) for row in rows[-3:]]
    scores = [math.nan if value is None else value for value in last]
    return {
        "problem": problem.name,
        "method": method,
        "seed": seed,
        "score": round(fmean(scores), 5),
        # forward passes besides those of gradients, a step
        "trials": round(_total(rows, "forwards") / _total(rows, "backwards") - 1, 4),
    }


def _total(rows: list[dict[str, float]], column: str) -> float:
    return sum(row[column] for row in rows)


def best_fedavg(results: Results, problem: Problem) -> tuple[float, float]:
    """The step that is best on seed 0, and its score over all seeds."""
    # every second point, then the neighbours of the best: 11 points for the price of 8
    coarse = max(STEPS[::2], key=lambda step: results.score(problem, fedavg(step), 0))
    place = STEPS.index(coarse)
    near = STEPS[max(place - 1, 0) : place + 2]
    best = max(near, key=lambda step: results.score(problem, fedavg(step), 0))
    return best, results.mean(problem, fedavg(best))


def best_fedadam(results: Results, problem: Problem, around: float) -> tuple[str, float]:
    pairs = [
        fedadam(around * factor, server_step)
        for factor in (0.1, 0.316, 1.0)
        for server_step in SERVER_STEPS
    ]
    best = max(pairs, key=lambda method: results.score(problem, method, 0))
    return best, results.mean(problem, best)


def fedavg(step: float) -> str:
    return f"fedavg(step={step:.4g})"


def fedadam(step: float, server_step: float) -> str:
    return f"fedadam(step={step:.4g}, server_step={server_step}, tau=0.001)"


def table_head(methods: list[str]) -> list[str]:
    """The first two lines of a table in Markdown."""
    return [
        "| problem | FedAvg, best of 11 | FedAdam, best of 12 | " + " | ".join(methods) + " |",
        "|---" * (3 + len(methods)) + "|",
    ]


def table_line(results: Results, methods: list[str], problem: Problem) -> str:
    """A star where a method is more than a point below FedAvg, a cross for FedAdam."""
    step, fedavg_score = best_fedavg(results, problem)
    _, fedadam_score = best_fedadam(results, problem, step)
    cells = [
        problem.name,
        f"{100 * fedavg_score:.1f} (step {step:.3g})",
        f"{100 * fedadam_score:.1f}",
    ]
    for method in methods:
        score = results.mean(problem, method)
        star = " *" if score < fedavg_score - 0.01 else ""
        cross = " †" if score < fedadam_score - 0.03 else ""
        cells.append(f"{100 * score:.1f}{star}{cross}")
    return "| " + " | ".join(cells) + " |"


def table(results: Results, methods: list[str], problems: list[Problem]) -> str:
    """Problem by problem; each is said as soon as it is known."""
    lines = table_head(methods)
    for problem in problems:
        lines.append(table_line(results, methods, problem))
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="names that begin like this")
    parser.add_argument("--methods", nargs="*", default=["fedpace"])
    parser.add_argument("--table", action="store_true", help="write the table to results/suite.md")
    parser.add_argument("--held-out", action="store_true", help="the problems of held_out.py")
    parser.add_argument("--seeds", type=int, default=3, help="how many (3)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    problems, page = PROBLEMS, TABLE
    command = "python benchmarks/suite/run.py --table"
    if given.held_out:
        problems, page = HELD_OUT, TABLE.with_stem("held-out")
        command += " --held-out"
    chosen = [p for p in problems if not given.only or p.name.startswith(tuple(given.only))]
    if "FEDSTEP_DATA" not in os.environ:
        raise SystemExit("set FEDSTEP_DATA to the folder with libsvm/ and mnist/")
    text = table(Results(given.seeds), given.methods, chosen)
    if given.table:
        page.write_text(f"Made by `{command}`.\n\n{text}")


if __name__ == "__main__":
    main()
