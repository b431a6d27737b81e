"""Time the competitors on the workloads, taking turns, and print ratios to the bare torch loop.

    python benchmarks/envs.py            once: an environment for every peer
    python benchmarks/run.py             all workloads
    python benchmarks/run.py w1 --only fedstep pfl

Every competitor is a process of its own that waits while the others work. In every repetition each is asked once, so that
whatever slows the machine down meets all of them; ratios are formed within a repetition, and their median is shown.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from machine import machine, write

HERE = Path(__file__).resolve().parent
BASE = "bare torch t1"
BURST = 0.5  # seconds that a request should last: short rounds are asked for several at a time. Searches need fewer trials
# from round to round, so they are asked for single rounds and compared in the same ones
WARM = 3.0  # seconds: where the first round was shorter, a second one warms up and tells how long rounds are
PATIENCE = 30.0  # seconds after which a slow competitor is asked no more, once it has been asked MINIMUM times
MINIMUM = 3
ORDER = (
    "bare_torch",
    "bare_sls",
    "fedstep_fit",
    "flower",
    "pfl",
    "blazefl",
    "jax_scan",
    "fedjax",
    "jaxopt_armijo",
)


class Failed(Exception):
    """A competitor cannot go on; the message is its reason."""


@dataclass
class Entry:
    """A competitor in one run, and what it answered."""

    name: str
    file: str
    environment: str
    options: dict[str, Any]
    versions: dict[str, str] = field(default_factory=dict)
    ready: float = 0.0  # seconds from the start of the process until it waits for its first round
    first_done: float = 0.0  # until its first round was done
    first: dict[str, Any] = field(default_factory=dict)
    replies: list[dict[str, Any] | None] = field(
        default_factory=list
    )  # None: not asked in this repetition

    def taken(self) -> float:
        return sum(r["wall"] * r["rounds"] for r in self.replies if r)


def entries(
    workload: str, only: Sequence[str], folder: Path = HERE / "competitors"
) -> tuple[list[Entry], dict[str, str]]:
    """Who takes part in a workload, and who does not and why. The files are read, not imported: their packages are not here."""
    found, skipped = [], {}
    files = [path.stem for path in sorted(folder.glob("[!_]*.py"))]
    for file in sorted(files, key=lambda f: ORDER.index(f) if f in ORDER else len(ORDER)):
        facts = constants(folder / f"{file}.py")
        for name, options in facts["VARIANTS"].items():
            if name != BASE and only and not any(word.lower() in name.lower() for word in only):
                continue
            if workload in facts.get("ONLY", {}).get(name, facts["WORKLOADS"]):
                found.append(Entry(name, file, facts["ENVIRONMENT"], options))
            elif workload in facts.get("SKIPPED", {}):
                skipped[name] = facts["SKIPPED"][workload]
    return found, skipped


def constants(path: Path) -> dict[str, Any]:
    """The literal values that a file assigns to capital names."""
    values = {}
    for node in ast.parse(path.read_text()).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id.isupper()
        ):
            try:
                values[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return values


def python_of(environment: str, envs: Path) -> str:
    own = envs / environment / "bin" / "python"
    if own.exists():
        return str(own)
    if environment == "torch":
        return sys.executable
    raise Failed(f"no environment {environment}: run benchmarks/envs.py")


class Process:
    """A running competitor."""

    def __init__(self, entry: Entry, workload: str, scale: str, envs: Path, limit: float) -> None:
        self.entry, self.limit, self.errors = entry, limit, tempfile.TemporaryFile("w+")  # noqa: SIM115
        options = json.dumps(entry.options)
        command = [
            python_of(entry.environment, envs),
            str(HERE / "serve.py"),
            entry.file,
            workload,
            scale,
            options,
        ]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        path = os.pathsep.join([str(HERE), str(HERE.parent / "src")])
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": self.errors,
        }
        self.born = time.perf_counter()
        self.process = subprocess.Popen(
            command, text=True, env={**os.environ, **threads, "PYTHONPATH": path}, **pipes
        )
        entry.versions = self._hear()["versions"]
        entry.ready = time.perf_counter() - self.born
        entry.first = self.ask(1)
        entry.first_done = time.perf_counter() - self.born

    def ask(self, rounds: int) -> dict[str, Any]:
        """Have some rounds run; seconds in the reply are a round's."""
        assert self.process.stdin
        try:
            print(json.dumps({"rounds": rounds}), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise Failed(self._last_words()) from None
        return {**self._hear(), "rounds": rounds}

    def _hear(self) -> dict[str, Any]:
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], self.limit)[0]:
            what = "a round" if self.entry.ready else "its start"
            self.end(patience=0)
            raise Failed(f"{what} was not done after {self.limit:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise Failed(self._last_words())
        return json.loads(line)

    def _last_words(self) -> str:
        self.end()
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors if line.strip()]
        for line in lines[-20:]:
            note(f"    {line}")
        said = next(
            (line for line in reversed(lines) if "Error" in line),
            lines[-1] if lines else "no message",
        )
        return said[:200]

    def end(self, patience: float = 30) -> None:
        """Let it finish; if it does not, end it and what it started."""
        family = descendants(self.process.pid)
        try:
            assert self.process.stdin
            print(json.dumps({"end": True}), file=self.process.stdin, flush=True)
            self.process.stdin.close()
            self.process.wait(timeout=patience)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        for pid, born in family.items():
            if (
                processes().get(pid, (0, 0))[1] == born
            ):  # the number may have gone to somebody else meanwhile
                os.kill(pid, 9)


def processes() -> dict[int, tuple[int, int]]:
    """Parent and time of birth of everything that runs."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(path.parent.name)] = int(fields[1]), int(fields[19])
    return found


def descendants(pid: int) -> dict[int, int]:
    """Processes below a process, and when they were born."""
    everyone, found, new = processes(), set[int](), {pid}
    while new:
        new = {child for child, (parent, _) in everyone.items() if parent in new} - found
        found |= new
    return {child: everyone[child][1] for child in found}


def compete(workload: str, options: argparse.Namespace) -> tuple[list[Entry], dict[str, str]]:
    """Start everybody, then take turns."""
    chosen, failed = entries(workload, options.only)
    running: list[Process] = []
    try:
        for entry in chosen:
            entry.options |= {"scale": options.scale} if entry.options.get("scale") else {}
            try:
                running.append(Process(entry, workload, options.scale, options.envs, options.limit))
                note(
                    f"{workload}  {entry.name}: first round done {entry.first_done:.1f} s after the start"
                )
            except Failed as error:
                failed[entry.name] = str(error)
                note(f"{workload}  {entry.name}: {error}")
        bursts = {process.entry.name: 1 for process in running}
        for repetition in range(-1, options.repetitions):
            for process in list(running):
                entry = process.entry
                if (
                    repetition >= MINIMUM
                    and entry.name != BASE
                    and entry.taken() > options.patience
                ):
                    entry.replies.append(None)
                    continue
                try:
                    if repetition >= 0:
                        entry.replies.append(process.ask(bursts[entry.name]))
                    elif entry.first["wall"] < WARM and "trials" not in entry.first:
                        bursts[entry.name] = burst(process.ask(1)["wall"], options.burst)
                except Failed as error:
                    failed[entry.name] = str(error)
                    running.remove(process)
            if repetition >= 0:
                note(f"{workload}  repetition {repetition + 1} of {options.repetitions}")
    finally:
        for process in running:
            process.end()
    return [entry for entry in chosen if entry.name not in failed], failed


def burst(seconds: float, wanted: float) -> int:
    """How many rounds to ask for at a time."""
    return max(1, min(50, round(wanted / seconds)))


def ratios(
    mine: Sequence[dict[str, Any] | None], base: Sequence[dict[str, Any] | None], key: str
) -> list[float]:
    """Mine over the base's, repetition by repetition."""
    return [m[key] / b[key] for m, b in zip(mine, base, strict=True) if m and b and b[key] > 0]


def row(entry: Entry, base: Entry) -> dict[str, Any]:
    """What the table shows of a competitor."""
    asked = [r for r in entry.replies if r]
    wall = ratios(entry.replies, base.replies, "wall")
    trials = [r["trials"] for r in asked if r.get("trials")]
    return {
        "name": entry.name,
        "wall ratio": median(wall),
        "wall ratio from": min(wall),
        "wall ratio to": max(wall),
        "cpu ratio": median(ratios(entry.replies, base.replies, "cpu")),
        "seconds a round": median(r["wall"] for r in asked),
        "ready": entry.ready,
        "first round done": entry.first_done,
        "first round": entry.first["wall"],
        "memory": max(r["memory"] for r in [entry.first, *asked]),
        "trials": sum(trials) / len(trials) if trials else None,
        "batches": entry.first["batches"],
        "loss": entry.first.get("loss"),
        "loss after": entry.first.get("after"),
    }


def unequal(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Those who did another number of batches than the base: their times mean nothing."""
    base = next(r for r in rows if r["name"] == BASE)
    return [
        f"{r['name']}: {r['batches']} batches, not {base['batches']}"
        for r in rows
        if r["batches"] != base["batches"]
    ]


def table(rows: Sequence[dict[str, Any]], failed: dict[str, str]) -> str:
    """Markdown."""
    heads = (
        "",
        "wall ratio",
        "CPU ratio",
        "s a round",
        "start to first round done",
        "first round",
        "memory",
        "trials",
        "loss",
    )
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for r in rows:
        loss = "-" if r["loss"] is None else f"{r['loss']:.3f}"
        cells = (
            r["name"],
            f"{r['wall ratio']:.3f} ({r['wall ratio from']:.3f} to {r['wall ratio to']:.3f})",
            f"{r['cpu ratio']:.3f}",
            f"{r['seconds a round']:.4g}",
            f"{r['first round done']:.1f} s",
            f"{r['first round']:.2f} s",
            f"{r['memory'] / 2**20:,.0f} MB",
            "-" if r["trials"] is None else f"{r['trials']:.2f}",
            loss if r["loss after"] is None else f"{r['loss after']:.3f} after",
        )
        lines.append("| " + " | ".join(cells) + " |")
    if failed:
        lines += ["", "Not measured:", *(f"- {name}: {reason}" for name, reason in failed.items())]
    return "\n".join(lines)


def page(
    workload: str,
    options: argparse.Namespace,
    rows: Sequence[dict[str, Any]],
    failed: dict[str, str],
) -> str:
    here, summary = (
        machine(),
        (HERE / "workloads" / f"{workload}.py").read_text().split('"""')[1].strip(),
    )
    busy = os.getloadavg()[
        1
    ]  # of the last five minutes; the competitors themselves are one or two of it
    return (
        "\n\n".join(
            [
                f"# {workload}",
                summary,
                f"`python benchmarks/run.py {workload}`, {here['date']}, {here['cpu']}, {here['cores']} cores, scale "
                f"{options.scale}. Ratios are to {BASE}, median (and range) of {options.repetitions} repetitions taken in turns. "
                "Memory is the peak of the process tree, trials are a step's, loss is the mean over the batches of the first "
                "round: everyone begins at the same point, so it tells whether the same work was done. "
                f"Load of the machine at the end: {busy:.0f}; where it is well above {here['cores']}, others were at work, "
                "and only the CPU ratios say something.",
                table(rows, failed),
            ]
        )
        + "\n"
    )


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    known = sorted(
        (p.stem for p in (HERE / "workloads").glob("[!_]*.py")), key=lambda n: (n == "empty", n)
    )
    parser = argparse.ArgumentParser(
        description="Time the competitors on the workloads, taking turns."
    )
    parser.add_argument(
        "workloads", nargs="*", metavar="workload", help=f"of {', '.join(known)} (default: all)"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], help="competitors whose name contains one of these words"
    )
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--scale", choices=("full", "smoke"), default="full")
    parser.add_argument(
        "--limit",
        type=float,
        default=300,
        help="seconds a start or a request may take (default: 300)",
    )
    parser.add_argument(
        "--burst",
        type=float,
        default=BURST,
        help=f"seconds a request should last (default: {BURST})",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        help=f"seconds of repetitions after which a slow competitor rests, from the fourth on (default: {PATIENCE:.0f})",
    )
    parser.add_argument(
        "--envs", type=Path, default=HERE / ".envs", help="where envs.py has put the environments"
    )
    parser.add_argument("--out", type=Path, default=HERE / "results", help="where the tables go")
    options = parser.parse_args(argv)
    if unknown := set(options.workloads) - set(known):
        parser.error(f"no workload {', '.join(sorted(unknown))}: choose of {', '.join(known)}")
    wrong = 0
    for workload in options.workloads or known:
        done, failed = compete(workload, options)
        base = next((entry for entry in done if entry.name == BASE), None)
        if base is None:
            note(f"{workload}: {BASE} failed: {failed.get(BASE)}")
            return 1
        rows = [row(entry, base) for entry in done]
        for text in unequal(rows):
            note(f"{workload}  NOT THE SAME WORK  {text}")
            wrong += 1
        print(f"\n{workload}\n\n{table(rows, failed)}\n", flush=True)
        data = {
            "workload": workload,
            "scale": options.scale,
            "machine": machine(),
            "rows": rows,
            "failed": failed,
        }
        write(
            options.out / workload,
            data | {"entries": [asdict(e) for e in done]},
            page(workload, options, rows, failed),
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
