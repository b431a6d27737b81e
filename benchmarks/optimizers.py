"""The searches of fedstep.optim against optimisers with and without a learning rate, on three small tasks.

python benchmarks/optimizers.py           writes benchmarks/results/optimizers.json; minutes, one core
python benchmarks/optimizers.py --quick   one seed, few steps: does it run? Nothing is written

`python docs/numbers` makes the table of docs/optim.md from that file.

Every optimiser sees the same batches and makes the same number of steps. What has a learning rate
gets the best of its grid, chosen on a validation set with a seed that is not reported.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn

from fedstep.local.moves import Inertia
from fedstep.local.preconditioned import Adam, Preconditioned
from fedstep.optim import Armijo, Searching, lean_search
from rivals import DoG, Prodigy, ScheduleFreeSGD

SGD_GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
ADAMW_GRID = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)
TUNING_SEED = 100
STORE = Path(__file__).parent / "results" / "optimizers.json"


@dataclass(frozen=True)
class Task:
    """Data, a model, and how it is judged."""

    name: str
    train: tuple[torch.Tensor, torch.Tensor]
    validation: tuple[torch.Tensor, torch.Tensor]
    test: tuple[torch.Tensor, torch.Tensor]
    make: object
    loss: object
    batch: int
    steps: int
    accuracy: bool  # judged by accuracy in percent; otherwise by the loss


class CharacterLSTM(nn.Module):
    """The next of 12 letters."""

    def __init__(self, letters=12, width=32):
        super().__init__()
        self.embed = nn.Embedding(letters, 8)
        self.lstm = nn.LSTM(8, width, batch_first=True)
        self.head = nn.Linear(width, letters)

    def forward(self, text):
        return self.head(self.lstm(self.embed(text))[0])


def digits(steps):
    x, y = load_digits(return_X_y=True)
    x = torch.tensor(x, dtype=torch.float32) / 16
    return Task(
        "digits, MLP 64-64-10",
        *split(x, torch.tensor(y)),
        lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)),
        nn.functional.cross_entropy,
        batch=32,
        steps=steps or 900,
        accuracy=True,
    )


def breast_cancer(steps):
    x, y = load_breast_cancer(return_X_y=True)
    x = torch.tensor(x, dtype=torch.float32)
    x = (x - x.mean(0)) / x.std(0)
    return Task(
        "breast cancer, logistic",
        *split(x, torch.tensor(y, dtype=torch.float32)[:, None]),
        lambda: nn.Linear(30, 1),
        nn.functional.binary_cross_entropy_with_logits,
        batch=32,
        steps=steps or 300,
        accuracy=False,
    )


def text(steps):
    """A random chain of letters, each drawn given the two before it."""
    generator = torch.Generator().manual_seed(5)
    chain = torch.softmax(2 * torch.randn(12, 12, 12, generator=generator), -1)
    letters = [0, 1]
    for _ in range(21 * 900):
        law = chain[letters[-2], letters[-1]]
        letters.append(int(torch.multinomial(law, 1, generator=generator)))
    rows = torch.tensor(letters[: 21 * 900]).reshape(900, 21)

    def loss(scores, targets):
        return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())

    return Task(
        "letters, LSTM 32",
        *split(rows[:, :-1], rows[:, 1:]),
        CharacterLSTM,
        loss,
        batch=32,
        steps=steps or 400,
        accuracy=False,
    )


def split(x, y):
    """Three fifths to learn from, one to choose by, one to report."""
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(3))
    fifth = len(x) // 5
    test, validation, train = order[:fifth], order[fifth : 2 * fifth], order[2 * fifth :]
    return (x[train], y[train]), (x[validation], y[validation]), (x[test], y[test])


class Torch:
    """A torch optimiser as one that steps on a closure."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self, closure):
        self.optimizer.zero_grad()
        closure().backward()
        self.optimizer.step()


def sgd(params, lr):
    return Torch(torch.optim.SGD(params, lr, momentum=0.9))


def adamw(params, lr):
    return Torch(torch.optim.AdamW(params, lr))


# name -> (make, grid of learning rates or None)
OPTIMIZERS = {
    "SGD, momentum 0.9, tuned": (sgd, SGD_GRID),
    "AdamW, tuned": (adamw, ADAMW_GRID),
    "schedule-free SGD, tuned": (ScheduleFreeSGD, SGD_GRID),
    "Prodigy": (Prodigy, None),
    "DoG": (DoG, None),
    "`Armijo()`": (Armijo, None),
    "`Searching(lean_search())`": (lambda p: Searching(p, lean_search()), None),
    "the same, `move=Inertia(0.9, damped=True)`": (
        lambda p: Searching(p, lean_search(), move=Inertia(0.9, damped=True)),
        None,
    ),
    "the same, `Preconditioned(Adam())`": (
        lambda p: Searching(p, lean_search(), Preconditioned(Adam(beta=0.999))),
        None,
    ),
}


@dataclass(frozen=True)
class Run:
    """How a run ended."""

    validation: float  # accuracy in percent, or loss
    test: float
    cost: float  # in gradients a step; a pass without gradients counts a third


def run(task, make, seed):
    torch.manual_seed(seed)
    model = task.make()
    optimizer = make(list(model.parameters()))
    generator = torch.Generator().manual_seed(seed)
    inputs, targets = task.train
    cost = 0.0
    for _ in range(task.steps):
        rows = torch.randint(len(inputs), (task.batch,), generator=generator)

        def closure(rows=rows):
            nonlocal cost
            cost += 1.0 if torch.is_grad_enabled() else 1 / 3
            return task.loss(model(inputs[rows]), targets[rows])

        optimizer.step(closure)
    if hasattr(optimizer, "settle"):
        optimizer.settle()
    return Run(
        validation=score(task, model, task.validation),
        test=score(task, model, task.test),
        cost=cost / task.steps,
    )


@torch.no_grad()
def score(task, model, data):
    inputs, targets = data
    if task.accuracy:
        return 100 * float((model(inputs).argmax(-1) == targets).float().mean())
    loss = float(task.loss(model(inputs), targets))
    return loss if math.isfinite(loss) else math.inf


def tuned(task, make, grid):
    """The learning rate that does best on the validation set, with a seed of its own."""
    scores = {}
    for lr in grid:
        score = run(task, lambda p, lr=lr: make(p, lr), TUNING_SEED).validation
        scores[lr] = -score if task.accuracy else score
    return min(scores, key=scores.get)


def measured(task, name, seeds):
    """An optimiser on a task: the learning rate that was chosen, and how each seed ended."""
    make, grid = OPTIMIZERS[name]
    lr = None
    if grid is not None:
        lr = tuned(task, make, grid)
        runs = [run(task, lambda p: make(p, lr), seed) for seed in range(seeds)]
    else:
        runs = [run(task, make, seed) for seed in range(seeds)]
    return {
        "optimizer": name,
        "task": task.name,
        "accuracy": task.accuracy,
        "lr": lr,
        "test": [r.test for r in runs],
        "cost": sum(r.cost for r in runs) / seeds,
    }


def table(rows):
    """Markdown, an optimiser a line."""
    tasks = {row["task"]: row["accuracy"] for row in rows}
    measures = [f"{name}: test {'accuracy, %' if of else 'loss'}" for name, of in tasks.items()]
    lines = [
        f"| | {' | '.join(measures)} | gradients a step |",
        "|---" * (len(tasks) + 2) + "|",
    ]
    for name in dict.fromkeys(row["optimizer"] for row in rows):
        own = [row for row in rows if row["optimizer"] == name]
        costs = " / ".join(f"{row['cost']:.2f}" for row in own)
        if all(row["cost"] == 1 for row in own):
            costs = "1"
        lines.append(f"| {name} | {' | '.join(map(cell, own))} | {costs} |")
    return "\n".join(lines) + "\n"


def cell(row):
    digits = 1 if row["accuracy"] else 3
    spread = stdev(row["test"]) if len(row["test"]) > 1 else 0.0
    note = "" if row["lr"] is None else f" (lr {row['lr']:g})"
    return f"{fmean(row['test']):.{digits}f} ± {spread:.{digits}f}{note}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds = 1 if options.quick else options.seeds
    steps = 5 if options.quick else None
    tasks = [digits(steps), breast_cancer(steps), text(steps)]
    rows = []
    for name in OPTIMIZERS:
        for task in tasks:
            rows.append(measured(task, name, seeds))
            print(name, task.name, cell(rows[-1]), flush=True)
    print(table(rows))
    if not options.quick:
        STORE.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
