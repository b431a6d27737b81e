"""Where stacking clients pays: seconds per local step and client, one at a time and in blocks, for models of growing size.

    python benchmarks/cost.py            about ten minutes
    python benchmarks/cost.py --quick    a few models, one repetition

The executors take turns. CPU seconds of the one thread; the smallest of the repetitions counts, since noise only adds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Executor, Sequential, Store, Task
from fedstep.models.module import ModuleModel
from fedstep.models.paper import char_lstm
from fedstep.run.simulate import Simulation
from fedstep.zoo import fedavg, fedsls
from machine import machine, write

HERE = Path(__file__).resolve().parent
CLASSES, VOCABULARY, LENGTH = 10, 81, 20
BLOCKS = (4, 8, 16, 32)
METHODS = {"fedavg": fedavg(step=0.01), "fedsls": fedsls(max_step=0.1)}


@dataclass(frozen=True)
class Subject:
    """A model and the shape of its samples; no shape: sequences of symbols."""

    name: str
    kind: str
    module: nn.Module
    shape: tuple[int, ...]

    def samples(self, count: int) -> tuple[Tensor, Tensor]:
        g = torch.Generator().manual_seed(0)
        if not self.shape:
            return torch.randint(VOCABULARY, (count, LENGTH), generator=g), torch.randint(
                VOCABULARY, (count,), generator=g
            )
        return torch.randn(count, *self.shape, generator=g), torch.randint(
            CLASSES, (count,), generator=g
        )


def subjects(quick: bool) -> Iterator[Subject]:
    sizes = (100, CLASSES), (784, 62), (1000, 100), (1000, 1000), (3000, 1000)
    for inputs, outputs in sizes[:2] if quick else sizes:
        yield Subject(
            f"linear {inputs} x {outputs}", "linear", nn.Linear(inputs, outputs), (inputs,)
        )
    wide = (64, 64, 10), (200, 128, 10), (784, 64, 62), (784, 128, 62), (784, 256, 62)
    for inputs, hidden, outputs in wide:
        layers = nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
        yield Subject(f"mlp {inputs}-{hidden}-{outputs}", "mlp", nn.Sequential(*layers), (inputs,))
    for hidden in (16,) if quick else (16, 64, 256, 512, 1024, 1600):
        layers = (
            nn.Linear(64, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, CLASSES),
        )
        yield Subject(f"mlp 64-{hidden}-{hidden}-{CLASSES}", "mlp", nn.Sequential(*layers), (64,))
    conv = (
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )
    yield Subject(
        "cnn 8-16, 28 x 28",
        "cnn",
        nn.Sequential(*conv, nn.Flatten(-3), nn.Linear(400, CLASSES)),
        (1, 28, 28),
    )
    yield Subject("lstm 64", "lstm", char_lstm(VOCABULARY, 8, 64, 1), ())


def measure(
    subject: Subject, method: str, batch: int, clients: int, repetitions: int
) -> dict[str, float]:
    """Seconds per local step and client of every executor, by name."""
    model = ModuleModel(subject.module)
    steps = max(1, min(10, 20_000_000 // (model.dim * clients)))
    x, y = subject.samples(2 * batch)
    # everybody has the same samples: what is measured does not depend on them, and memory stays small
    federation = Federation((x, y), tuple(torch.arange(len(y)) for _ in range(clients)))
    task = Task(METHODS[method], model, federation, Plan(batch, steps))
    executors: dict[str, Executor] = {"one at a time": Sequential()}
    executors |= {f"block {b}": Cohort(b, dual=False) for b in BLOCKS if b <= clients}
    best = dict.fromkeys(executors, float("inf"))
    for repetition in range(repetitions + 1):
        for name, executor in executors.items():
            simulation = Simulation(task, clients, executor=executor)
            clock = time.process_time()
            next(simulation.run(simulation.begin(1), Store(), 1))
            seconds = (time.process_time() - clock) / (steps * clients)
            if repetition:  # the first is a warm-up
                best[name] = min(best[name], seconds)
    return best


def table(rows: list[dict]) -> str:
    names = ["one at a time", *(f"block {b}" for b in BLOCKS)]
    heads = [
        "model",
        "parameters",
        "method",
        "batch",
        "clients",
        *(f"{n}, ms" for n in names),
        "best",
    ]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for r in rows:
        seconds = r["seconds"]
        fastest = min(seconds, key=seconds.get)
        gain = seconds["one at a time"] / seconds[fastest]
        cells = [
            r["model"],
            f"{r['parameters']:,}",
            r["method"],
            str(r["batch"]),
            str(r["clients"]),
        ]
        cells += [f"{1e3 * seconds[n]:.3f}" if n in seconds else "-" for n in names]
        lines.append("| " + " | ".join([*cells, f"{fastest}, {gain:.2f} x"]) + " |")
    return "\n".join(lines)


def fitted(rows: list[dict], executor: str) -> tuple[float, float]:
    """Milliseconds of a step, fixed and a parameter: a line through the dense models, each counting by its relative error."""
    dense = [r for r in rows if r["kind"] in ("linear", "mlp") and executor in r["seconds"]]
    size = torch.tensor([[1.0, r["parameters"]] for r in dense], dtype=torch.float64)
    cost = torch.tensor([[1e3 * r["seconds"][executor]] for r in dense], dtype=torch.float64)
    fixed, each = torch.linalg.lstsq(size / cost, torch.ones_like(cost)).solution.flatten().tolist()
    return fixed, each


def main() -> None:
    parser = argparse.ArgumentParser(description="Where stacking clients pays.")
    parser.add_argument("--quick", action="store_true", help="a few models, one repetition")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["fedavg"])
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for subject in subjects(options.quick):
        parameters = sum(p.numel() for p in subject.module.parameters())
        for method in options.methods:
            for batch in (10, 50):
                for clients in (16,) if options.quick else (8, 32):
                    seconds = measure(
                        subject, method, batch, clients, 1 if options.quick else options.repetitions
                    )
                    facts = {
                        "model": subject.name,
                        "kind": subject.kind,
                        "parameters": parameters,
                        "method": method,
                    }
                    rows.append({**facts, "batch": batch, "clients": clients, "seconds": seconds})
                    print(table(rows[-1:]).splitlines()[-1], flush=True)
    fits = "\n".join(
        f"{name}: {fixed:.2f} ms + {1e6 * each:.1f} ns a parameter"
        for name in ("one at a time", "block 16")
        for fixed, each in [fitted(rows, name)]
    )
    print(fits)
    here = machine()
    lead = (
        f"`python benchmarks/cost.py`, {here['date']}, {here['cpu']}, one thread, torch {torch.__version__}. Milliseconds per "
        "local step and client, the smallest of the repetitions; `best` is the fastest and its gain over one at a time."
    )
    write(
        options.out / "cost",
        {"machine": here, "rows": rows},
        f"# Where stacking pays\n\n{lead}\n\n{table(rows)}\n\nFitted to the dense models:\n\n```\n{fits}\n```\n",
    )


if __name__ == "__main__":
    main()
