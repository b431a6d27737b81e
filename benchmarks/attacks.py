"""What one hostile client of ten costs, with the guard and without: `python benchmarks/attacks.py [--rounds N] [--seeds N]`.

Handwritten digits, ten clients, all in every round, softmax regression. The attacker multiplies its delta, or trains on flipped
labels (9 - y). Prints the table of docs/trust.md: accuracy in per cent, the mean over the last tenth of rounds and over seeds.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields, replace

import torch

from fedstep import build
from fedstep.algorithm import Algorithm
from fedstep.data.federation import Federation
from fedstep.data.partition import partitioner
from fedstep.data.plan import Plan
from fedstep.data.samples import digits
from fedstep.execute.cohort import Cohort
from fedstep.execute.store import Store
from fedstep.execute.task import Task
from fedstep.models.text import named_model
from fedstep.run.simulate import Simulation

METHODS = ("fedavg(step=0.5)", "fedsls", "fedexpsls", "fedpace")
ATTACKS: dict[str, float | None] = {
    "none": 1.0,
    "x 1e3": 1e3,
    "x 1e6": 1e6,
    "x -10": -10.0,
    "flipped labels": None,
}
CLIENTS = 10
ATTACKER = 4
TEST = 400  # samples


@dataclass(frozen=True)
class Attacked(Algorithm):
    """The algorithm with one client that multiplies its delta; it is known by its number of samples."""

    factor: float = 1.0
    attacker_samples: int = 0

    def reply(self, sent, memory, forward, batches, samples):
        done = super().reply(sent, memory, forward, batches, samples)
        wrong = torch.where(samples == self.attacker_samples, self.factor, 1.0).unsqueeze(-1)
        return replace(done, reply=replace(done.reply, delta=done.reply.delta * wrong))


def accuracy(spec: str, guard: str, attack: str, seed: int, rounds: int) -> float:
    """The mean over the last tenth of the rounds, in per cent."""
    x, y = digits()
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(y), generator=draw)
    x, y = x[order], y[order]
    test = (x[:TEST], y[:TEST])
    x, y = x[TEST:], y[TEST:].clone()
    parts = partitioner(f"Dirichlet(alpha=1.0, clients={CLIENTS})")(y.numpy(), seed)
    # all have the same number of samples; the attacker is known by having one less
    own = [list(part) for part in parts]
    own[ATTACKER].pop()
    factor = ATTACKS[attack]
    if factor is None:
        y[own[ATTACKER]] = 9 - y[own[ATTACKER]]
        factor = 1.0
    plain = build(spec)
    if guard != "Open()":
        plain = replace(plain, guard=build(f"fedavg(guard={guard})").guard)
    slots = {field.name: getattr(plain, field.name) for field in fields(Algorithm)}
    attacked = Attacked(**slots, factor=factor, attacker_samples=len(own[ATTACKER]))
    model = named_model("logistic(inputs=64, classes=10)", seed)
    task = Task(
        attacked, model, Federation.of([(x[part], y[part]) for part in own]), Plan(20, 10), seed
    )
    run = Simulation(task, CLIENTS, executor=Cohort(), test=test)
    scores = [row.accuracy for _, row in run.run(run.begin(rounds), Store(), rounds)]
    tail = scores[-max(1, rounds // 10) :]
    return 100 * sum(tail) / len(tail)


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--guards", nargs="+", default=["Open()", "NormLimit()"])
    parser.add_argument("--methods", nargs="+", default=METHODS)
    options = parser.parse_args()
    print("| method | guard |", " | ".join(ATTACKS), "|")
    print("|---|---|" + "---:|" * len(ATTACKS))
    for spec in options.methods:
        for guard in options.guards:
            cells = []
            for attack in ATTACKS:
                each = [
                    accuracy(spec, guard, attack, seed, options.rounds)
                    for seed in range(options.seeds)
                ]
                cells.append(f"{sum(each) / len(each):.1f}")
            print(f"| `{spec}` | {guard} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
