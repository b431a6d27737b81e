"""Whether memory grows with the number of rounds: resident memory in 2,000 rounds of a small task.

    python benchmarks/memory.py

The target is less than 5 MB from round 100 to round 2,000.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from torch import nn

import fedstep
from machine import machine, write

HERE = Path(__file__).resolve().parent
MARKS = (100, 500, 1000, 2000)
TARGET = 5.0
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> float:
    """MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description="Resident memory over many rounds.")
    parser.add_argument(
        "methods", nargs="*", default=["fedavg(step=0.1)", "fedsls", "fedexpsls(carry=True)"]
    )
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y = torch.randn(1000, 20), torch.randint(4, (1000,))
    x[torch.arange(1000), y] += 2.0
    clients = [(x[i], y[i]) for i in torch.arange(1000).chunk(50)]
    rows = []
    for method in options.methods:
        seen = {}

        def look(row, seen=seen):
            if row.round in MARKS:
                seen[row.round] = resident()

        module = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
        fedstep.fit(
            module,
            clients,
            method,
            MARKS[-1],
            10,
            batch=10,
            local_steps=2,
            every=10**9,
            progress=False,
            on_round=look,
        )
        growth = seen[MARKS[-1]] - seen[MARKS[0]]
        rows.append({"method": method, "resident": seen, "growth": growth})
        print(f"{method}: {growth:+.2f} MB from round {MARKS[0]} to {MARKS[-1]}", flush=True)
    heads = ["method", *(f"round {m:,}" for m in MARKS), "growth"]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for r in rows:
        lines.append(
            f"| {r['method']} | "
            + " | ".join(f"{r['resident'][m]:.1f}" for m in MARKS)
            + f" | {r['growth']:+.2f} |"
        )
    here = machine()
    lead = f"`python benchmarks/memory.py`, {here['date']}. Resident memory in MB; the target is a growth below {TARGET:.0f}."
    write(
        options.out / "memory",
        {"machine": here, "rows": rows},
        f"# Memory by round\n\n{lead}\n\n" + "\n".join(lines) + "\n",
    )


if __name__ == "__main__":
    main()
