"""What the guard costs where nobody is hostile.

    FEDSTEP_DATA=DIRECTORY python benchmarks/honest.py

FEMNIST, softmax regression, 20 of 300 writers a round, 100 rounds, two seeds, each method with and
without the guard. Runs what is missing in benchmarks/results/honest.jsonl and prints the table of
docs/trust.md: accuracy in per cent, the mean over the last ten rounds. Can be interrupted.
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from statistics import fmean

import torch

import fedstep
from fedstep.data import tasks
from fedstep.execute import Cohort

STORE = Path(__file__).parent / "results" / "honest.jsonl"
METHODS = (
    "fedavg(step=1.0)",
    "fedsls(max_step=10.0)",
    "fedexpsls(max_step=10.0, readout=LastTwo())",
    "fedpace",
)
SEEDS = (0, 1)
ROUNDS, A_ROUND = 100, 20

Key = tuple[str, int, bool]


def kept() -> dict[Key, dict[str, float]]:
    """What has been run, by method, seed and whether it was guarded."""
    rows = {}
    if STORE.exists():
        for line in STORE.read_text().splitlines():
            row = json.loads(line)
            rows[row["method"], row["seed"], row["guard"]] = row
    return rows


def measured(method: str, seed: int, guard: bool) -> dict[str, float]:
    task = tasks.load("femnist-ink", None, Path(os.environ["FEDSTEP_DATA"]), seed=seed)
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is told of a run is not the question here
        result = fedstep.fit(
            torch.nn.Linear(784, 62),
            task.federation,
            method,
            rounds=ROUNDS,
            per_round=A_ROUND,
            local_steps=20,
            batch=50,
            test=task.test,
            seed=seed,
            weighting="samples",
            guard=guard,
            executor=Cohort(),
            progress=False,
        )
    rows = [row.to_dict() for row in result.rows]
    return {
        "method": method,
        "seed": seed,
        "guard": guard,
        "accuracy": round(100 * fmean(row["accuracy"] for row in rows[-10:]), 2),
        "clipped": sum(row["clipped"] for row in rows),
    }


def table(rows: dict[Key, dict[str, float]]) -> str:
    """Markdown, the seeds beside each other."""
    lines = [
        "| method | as it is | guarded | clients shortened |",
        "|---|---:|---:|---:|",
    ]
    for method in METHODS:
        free = ", ".join(f"{rows[method, seed, False]['accuracy']:.2f}" for seed in SEEDS)
        guarded = ", ".join(f"{rows[method, seed, True]['accuracy']:.2f}" for seed in SEEDS)
        clipped = sum(rows[method, seed, True]["clipped"] for seed in SEEDS)
        clients = len(SEEDS) * ROUNDS * A_ROUND
        lines.append(f"| `{method}` | {free} | {guarded} | {clipped} of {clients:,} |")
    return "\n".join(lines)


def main() -> None:
    if "FEDSTEP_DATA" not in os.environ:
        raise SystemExit("set FEDSTEP_DATA to the folder with femnist/")
    torch.set_num_threads(1)
    rows = kept()
    for seed in SEEDS:
        for method in METHODS:
            for guard in (False, True):
                if (method, seed, guard) in rows:
                    continue
                rows[method, seed, guard] = row = measured(method, seed, guard)
                with STORE.open("a") as store:
                    store.write(json.dumps(row) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
