"""What a line search costs on deep models: trials a step by round, cost against plain SGD, and the loss it buys.

    python benchmarks/trials.py w2 fedsls "fedsls(carry=True)" --rounds 10
    python benchmarks/trials.py cifar10 fedsls "fedsls(carry=True)"      with FEDSTEP_DATA set

w2 and w3 are the arrays of the workloads, cifar10 and shakespeare the real data of the same models. All methods see the same
clients and the same batches, and take turns round by round. Plain SGD at the workload's step is always among them.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median

import torch
from torch import nn

import workloads.w2
import workloads.w3
from fedstep.data.federation import Federation
from fedstep.data.partition import Dirichlet
from fedstep.data.plan import Plan
from fedstep.data.tasks import load as load_task
from fedstep.execute import Sequential, Store, Task
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.spec import build
from machine import machine, write
from with_torch import clients_of, module_of
from work import load

HERE = Path(__file__).resolve().parent
REAL = {"cifar10": workloads.w2, "shakespeare": workloads.w3}
TARGET_TRIALS, TARGET_COST = 1.25, 1.40


def setting(data: str, scale: str) -> tuple[nn.Module, Federation, int, float]:
    """Model, clients, steps of a client in a round, step of plain SGD."""
    if data in REAL:
        torch.manual_seed(0)
        split = load_task(
            data, Dirichlet(alpha=0.3, clients=100) if data == "cifar10" else None, limit=100
        )
        return REAL[data].module(), split.federation, 10, 0.05 if data == "cifar10" else 0.5
    work = load(data, scale)
    return module_of(work), Federation.of(clients_of(work)), work.batches, work.step


def main() -> None:
    parser = argparse.ArgumentParser(description="Trials a step, cost and loss of line searches.")
    parser.add_argument("data", choices=["w2", "w3", *REAL])
    parser.add_argument(
        "methods", nargs="*", metavar="method", default=["fedsls", "fedsls(carry=True)"]
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--per-round", type=int, default=5)
    parser.add_argument("--scale", choices=("full", "smoke"), default="full")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    module, federation, steps, step = setting(options.data, options.scale)
    plain = f"fedavg(step={step})"
    methods = list(dict.fromkeys([plain, *options.methods]))
    running = {}
    per_round = min(options.per_round, len(federation))
    batch = 50 if options.scale == "full" else 10
    for method in methods:
        task = Task(build(method), ModuleModel(module), federation, Plan(batch, steps))
        simulation = Simulation(task, per_round, executor=Sequential())
        running[method] = simulation.run(simulation.begin(options.rounds), Store(), options.rounds)
    rows: dict[str, list[dict]] = {method: [] for method in methods}
    for turn in range(options.rounds):
        for method, series in running.items():
            clock = time.process_time()
            _, row = next(series)
            cpu = time.process_time() - clock
            facts = {
                "trials": row.trials,
                "loss": row.loss,
                "failed": row.failed,
                "median step": row.steps[2],
            }
            rows[method].append({**facts, "gradients": row.gradients / row.backwards, "cpu": cpu})
        print(
            f"round {turn + 1}: "
            + ", ".join(f"{m} {rows[m][-1]['trials']:.2f}" for m in options.methods),
            flush=True,
        )
    text = table(rows, plain)
    print(text)
    here = machine()
    lead = (
        f"`python benchmarks/trials.py {options.data} {' '.join(map(json.dumps, options.methods))} --rounds {options.rounds}`, "
        f"{here['date']}, {here['cpu']}, one thread. {per_round} clients a round, {steps} steps of batch {batch}. Trials are a "
        "step's; cost is that of a round against plain SGD in the same round: CPU seconds (median of the rounds after the "
        "first), and gradient-equivalents, a trial counting a third. Loss is the mean over the batches of the last round. "
        f"Targets: {TARGET_TRIALS} trials after the first rounds, {TARGET_COST:.2f} x the CPU."
    )
    page = f"# Trials on {options.data}\n\n{lead}\n\n{text}\n"
    write(options.out / f"trials-{options.data}", {"machine": here, "rows": rows}, page)


def shown(trials: float) -> str:
    return f"{trials:.2f}" if trials else "-"


def table(rows: dict[str, list[dict]], plain: str) -> str:
    heads = [
        "method",
        "trials, round 1",
        "2",
        "3",
        "last half",
        "CPU",
        "gradients",
        "loss, first",
        "loss, last",
        "failed",
    ]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for method, series in rows.items():
        trials = [r["trials"] for r in series]
        late = trials[len(trials) // 2 :]
        cost = [r["cpu"] / p["cpu"] for r, p in zip(series, rows[plain], strict=True)]
        cells = [
            method,
            *(shown(t) for t in trials[:3]),
            *["-"] * (3 - len(trials[:3])),
            f"{sum(late) / len(late):.2f}",
        ]
        cells += [
            f"{median(cost[1:] or cost):.2f}",
            f"{sum(r['gradients'] for r in series) / len(series):.2f}",
        ]
        cells += [
            f"{series[0]['loss']:.3f}",
            f"{series[-1]['loss']:.3f}",
            str(sum(r["failed"] for r in series)),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
