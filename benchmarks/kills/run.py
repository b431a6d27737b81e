"""kill -9 at random moments of runs on Ray and over Flower: does every one end with the same bits?

    make .venv-flower/.installed
    .venv-flower/bin/python benchmarks/kills/run.py server --times 20      # Flower's ServerApp
    .venv-flower/bin/python benchmarks/kills/run.py node --times 20        # a SuperNode
    .venv-flower/bin/python benchmarks/kills/run.py driver --times 20      # the process with `fit` and Ray
    .venv-flower/bin/python benchmarks/kills/run.py ray-node --times 20    # one of two nodes of Ray
    .venv-flower/bin/python benchmarks/kills/run.py table

A trial is a short run of SCAFFOLD, which remembers things on clients and server. Somewhere between
its first and its last moment, drawn at random, a process is killed and started again. The model and
the rows must be those of one process. Every trial is a line of benchmarks/results/kills.jsonl; what
is there is not done again (`--anew` forgets it). Exit code 1 where a trial has other bits.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

# before Ray is imported, which reads it then: nothing listens beyond loopback, nothing is told
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STORE = HERE.parent / "results" / "kills.jsonl"
VICTIMS = {
    "server": "the ServerApp of a Flower deployment",
    "node": "one of its two SuperNodes",
    "driver": "the driver of a run on Ray",
    "ray-node": "one of two nodes of a Ray cluster",
}


def recorded() -> list[dict]:
    """The trials that are done."""
    if not STORE.exists():
        return []
    return [json.loads(line) for line in STORE.read_text().splitlines()]


def forget(victim: str) -> None:
    """Begin a victim's trials anew; those of the others stay."""
    rows = [row for row in recorded() if row["victim"] != victim]
    STORE.write_text("".join(json.dumps(row) + "\n" for row in rows))


def trials_of(victim: str, folder: Path, moments: Random, first: int) -> Iterator[dict]:
    """Trials without end, from this number on."""
    # here: each needs packages of its own
    if victim in ("server", "node"):
        from deployment import deployment_trials

        return deployment_trials(victim, folder, moments, first)
    from cluster import driver_trials, node_trials

    if victim == "driver":
        return driver_trials(folder, moments, first)
    return node_trials(folder, moments, first)


def code() -> str:
    """The commit, marked where files differ from it."""
    command = ["git", "describe", "--always", "--dirty"]
    described = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return described.stdout.strip() or "unknown"


def kill(victim: str, times: int) -> None:
    """Do what is left of so many trials."""
    done = [row for row in recorded() if row["victim"] == victim]
    left = times - len(done)
    if left <= 0:
        return
    folder = Path(tempfile.mkdtemp(prefix="fedstep-kills-"))
    # other moments than those of the trials that are there
    moments = Random(f"{victim} {len(done)}")
    trials = trials_of(victim, folder, moments, len(done))
    try:
        for _ in range(left):
            row = {"victim": victim, **next(trials), "code": code()}
            with STORE.open("a") as store:
                store.write(json.dumps(row) + "\n")
            print(f"kills: {row}", flush=True)
    finally:
        trials.close()
    print(f"kills: the logs are in {folder}")


def table() -> str:
    """What is in the file, by victim."""
    head = "| killed | trials | same bits and rows | moments of the run, s | kill to end, s |"
    lines = [head, "|---|---:|---:|---:|---:|"]
    for victim, name in VICTIMS.items():
        rows = [row for row in recorded() if row["victim"] == victim]
        if not rows:
            continue
        same = sum(row["same"] for row in rows)
        moments = [row["moment"] for row in rows]
        ends = [row["seconds"] for row in rows]
        lines.append(
            f"| {name} | {len(rows)} | {same} | {min(moments):.1f} to {max(moments):.1f} "
            f"| {min(ends):.1f} to {max(ends):.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("victim", choices=(*VICTIMS, "table"))
    parser.add_argument("--times", type=int, default=20, help="trials in all (default %(default)s)")
    parser.add_argument("--anew", action="store_true", help="forget the trials that are there")
    options = parser.parse_args()
    # whoever ends this program ends what it has started too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("kills: ended"))
    if options.anew:
        forget(options.victim)
    if options.victim != "table":
        kill(options.victim, options.times)
    print(table())
    if not all(row["same"] for row in recorded()):
        sys.exit("kills: a trial ended with other bits than one process")


if __name__ == "__main__":
    main()
