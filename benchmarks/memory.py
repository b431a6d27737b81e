"""Whether memory grows: with the rounds, with the clients that remember, with the data.

    python benchmarks/memory.py              # 2,000 rounds of a small task: below 5 MB from round 100
    python benchmarks/memory.py clients      # 10,000 clients whose memories lie on disk
    python benchmarks/memory.py data         # samples larger than the memory that the process may have

`data` writes a file of 6 GB into the folder for temporary files, and deletes it.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

import fedstep
from fedstep.data.federation import Federation
from fedstep.data.parts import Parts
from machine import machine, write

HERE = Path(__file__).resolve().parent
MARKS = (100, 500, 1000, 2000)
TARGET = 5.0
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> float:
    """MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


def own_mb() -> float:
    """Memory that no file stands behind: pages of mapped files the system may drop."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("this system does not tell RssAnon")


def many_clients(options) -> None:
    """SCAFFOLD: a control variate a client, 80 KB each, 0.8 GB in all."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(10_000, 2, 199, generator=draw)
    y = torch.randint(100, (10_000, 2), generator=draw)
    seen: list[tuple[int, float]] = []

    def look(row) -> None:
        if row.round % 5 == 0:
            seen.append((row.round, own_mb()))
            print(f"after round {row.round}: {seen[-1][1]:.0f} MB", flush=True)

    fedstep.fit(
        nn.Linear(199, 100),
        list(zip(x, y, strict=True)),
        "scaffold(step=0.01)",
        30,
        500,
        batch=2,
        local_steps=1,
        every=10**9,
        progress=False,
        on_round=look,
    )
    growth = seen[-1][1] - seen[0][1]
    text = (
        f"10,000 clients that remember 80 KB each on disk, 500 a round: {growth:+.0f} MB from round "
        f"{seen[0][0]} to round {seen[-1][0]}\n"
    )
    finish(options, "memory-clients", {"resident": seen, "growth": growth}, text)


def large_data(options) -> None:
    """Samples that the process may not copy: a limit on its own memory, below the size of the file."""
    samples, width, limit = options.samples, 1500, 2**30
    file_bytes = samples * width * 4
    with tempfile.TemporaryDirectory(prefix="fedstep-memory-") as folder:
        path = Path(folder) / "x"
        draw = np.random.default_rng(0)
        with path.open("wb") as file:
            for first in range(0, samples, 10_000):
                rows = min(10_000, samples - first)
                file.write(draw.standard_normal((rows, width), dtype=np.float32).tobytes())
        # private memory, of the heap or mapped; pages of files are not of it
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        # shared: nobody writes to it, and its pages are those of the file
        x = torch.from_file(str(path), shared=True, size=samples * width).view(samples, width)
        y = torch.arange(samples) % 10
        offsets = torch.arange(0, samples + 1, 500)
        clients = Federation((x, y), Parts(torch.arange(samples), offsets))
        most = 0.0

        def look(row) -> None:
            nonlocal most
            most = max(most, own_mb())

        fedstep.fit(
            nn.Linear(width, 10),
            clients,
            "fedavg(step=0.01)",
            20,
            100,
            batch=50,
            local_steps=10,
            every=10**9,
            progress=False,
            on_round=look,
        )
    text = (
        f"{file_bytes / 2**30:.1f} GiB of samples, mapped; the process may have "
        f"{limit / 2**30:.0f} GiB of its own and had {most:.0f} MB\n"
    )
    finish(options, "memory-data", {"file_bytes": file_bytes, "limit": limit, "own_mb": most}, text)


def finish(options, name: str, data: dict, text: str) -> None:
    print(text, end="")
    write(options.out / name, {"machine": machine(), **data}, text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Resident memory over many rounds.")
    parser.add_argument(
        "methods",
        nargs="*",
        default=["fedavg(step=0.1)", "fedsls", "fedexpsls(carry=True)"],
        help="methods to run for 2,000 rounds, or `clients`, or `data`",
    )
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--samples", type=int, default=1_000_000, help="of `data`, 6 KB each")
    options = parser.parse_args()
    torch.set_num_threads(1)
    other = {"clients": many_clients, "data": large_data}
    if len(options.methods) == 1 and options.methods[0] in other:
        other[options.methods[0]](options)
        return
    many_rounds(options)


def many_rounds(options) -> None:
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
