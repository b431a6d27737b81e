"""How long commands take to answer: wall seconds from the start of the process, cold imports included.

    python benchmarks/startup.py

Targets: the first round of a small run done in less than 4 s; what needs no tensors, in less than 0.3 s.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from machine import machine, write

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FIRST_ROUND = """
import sys
from fedstep.paper import demo
task = demo.problem("synthetic")
demo.run(task, "fedsls", 1, 0)
assert "torch" in sys.modules
"""
RESULTS = ROOT / "results" / "cifar10-lenet"


def commands(scratch: str) -> dict[str, tuple[list[str], float]]:
    """What is run, and how many seconds it may take."""
    fedstep = [sys.executable, "-m", "fedstep.cli"]
    report = [*fedstep, "report", str(RESULTS), "--out", str(Path(scratch) / "report.html")]
    return {
        "python -c pass": ([sys.executable, "-c", "pass"], 0.3),
        "import torch": ([sys.executable, "-c", "import torch"], 4.0),
        "first round of a small run": ([sys.executable, "-c", FIRST_ROUND], 4.0),
        "fedstep --help": ([*fedstep, "--help"], 0.3),
        "fedstep list": ([*fedstep, "list"], 0.3),
        "fedstep report": (report, 0.3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="How long commands take to answer.")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as scratch:
        tried = commands(scratch)
        seconds: dict[str, list[float]] = {name: [] for name in tried}
        failed = {}
        for _ in range(options.repetitions + 1):  # the first warms the file cache
            for name, (command, _) in tried.items():
                clock = time.perf_counter()
                done = subprocess.run(
                    command, env=environment, cwd=scratch, capture_output=True, text=True
                )
                seconds[name].append(time.perf_counter() - clock)
                if done.returncode:
                    failed[name] = (done.stderr.strip().splitlines() or ["no message"])[-1]
    lines = ["| command | seconds | first time | target |", "|---|---:|---:|---:|"]
    rows = []
    for name, (_, target) in tried.items():
        first, *rest = seconds[name]
        rows.append(
            {
                "command": name,
                "seconds": median(rest),
                "first": first,
                "target": target,
                "failed": failed.get(name),
            }
        )
        shown = f"failed: {failed[name]}" if name in failed else f"{median(rest):.2f}"
        lines.append(f"| {name} | {shown} | {first:.2f} | < {target:g} |")
    here, text = machine(), "\n".join(lines)
    print(text)
    lead = (
        f"`python benchmarks/startup.py`, {here['date']}, {here['cpu']}, {here['cores']} cores. Median of {options.repetitions} "
        "from the start of the process to its end; `import torch` and `python -c pass` are the floors."
    )
    write(
        options.out / "startup",
        {"machine": here, "rows": rows},
        f"# Start-up\n\n{lead}\n\n{text}\n",
    )


if __name__ == "__main__":
    main()
