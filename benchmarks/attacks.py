"""What one hostile client of ten costs, with the guard and without.

    python benchmarks/attacks.py            runs what is missing in benchmarks/results/attacks.jsonl, prints the tables
    python benchmarks/attacks.py --fresh    runs everything anew

Handwritten digits, ten clients, all in every round, softmax regression, 30 rounds, three seeds. The
attacker multiplies its delta, trains on flipped labels (9 - y), or multiplies all that it sends
besides its delta; in the last table there are two of them, or one has copies of its samples. Prints
the tables of docs/trust.md: accuracy in per cent, the mean over the last three rounds. Can be
interrupted: the same command goes on.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import torch

from fedstep import build
from fedstep.algorithm import Algorithm, Reply
from fedstep.core.vec import lift
from fedstep.data.federation import Federation
from fedstep.data.partition import partitioner
from fedstep.data.plan import Plan
from fedstep.data.samples import digits
from fedstep.execute.cohort import Cohort
from fedstep.execute.store import Store
from fedstep.execute.task import Task
from fedstep.models.text import named_model
from fedstep.run.simulate import Simulation

METHODS = (
    "fedavg(step=0.5)",
    "fedsls(max_step=10.0)",
    "fedexpsls(max_step=10.0, readout=LastTwo())",
    "fedpace",
)
# those that send more: a control variate, a gradient, the number of steps, a probe, scales
TALKATIVE = (
    "fedpace",
    "scaffold(step=0.5)",
    "fedlin(step=0.5)",
    "mimelite(step=0.5)",
    "fednova(step=0.5)",
)


@dataclass(frozen=True)
class Attack:
    """What the hostile client multiplies, or whether its labels are wrong."""

    delta: float = 1.0
    message: float = 1.0
    flipped: bool = False
    clients: int = 1  # that are hostile, and do the same
    copies: int = 1  # of each of their samples


ATTACKS = {
    "none": Attack(),
    "x 1e3": Attack(delta=1e3),
    "x 1e6": Attack(delta=1e6),
    "x -10": Attack(delta=-10.0),
    "flipped labels": Attack(flipped=True),
}
MESSAGES = {
    "none": Attack(),
    "message x 1e3": Attack(message=1e3),
    "message x 1e6": Attack(message=1e6),
    "message x -10": Attack(message=-10.0),
}
# beyond what the guard is for, or what a weight by samples makes of it
FURTHER = {
    "none": Attack(),
    "x 0": Attack(delta=0.0),
    "100 copies, x -10": Attack(delta=-10.0, copies=100),
    "two x 1e3": Attack(delta=1e3, clients=2),
    "two x -10": Attack(delta=-10.0, clients=2),
    "two x -1": Attack(delta=-1.0, clients=2),
    "two flipped": Attack(flipped=True, clients=2),
}
WEIGHED = (
    "fedavg(step=0.5)",
    "fedavg(step=0.5, weighting=BySamples())",
    "fedavg(step=0.5, weighting=SamplesUpTo(most=280))",
)
GUARDS = ("NormLimit()", "Open()")
TABLES = (
    (METHODS, ATTACKS, GUARDS),
    (TALKATIVE, MESSAGES, GUARDS),
    (WEIGHED, FURTHER, GUARDS[:1]),
)
ROUNDS = 30
SEEDS = range(3)
RESULTS = Path(__file__).parent / "results" / "attacks.jsonl"
CLIENTS = 10
ATTACKERS = (4, 7)
TEST = 400  # samples


@dataclass(frozen=True)
class Attacked(Algorithm):
    """The algorithm with hostile clients, who are known by the number of their samples."""

    attack: Attack = Attack()
    attacker_samples: tuple[int, ...] = ()

    def reply(self, sent, memory, forward, batches, samples):
        done = super().reply(sent, memory, forward, batches, samples)
        return replace(done, reply=self._hostile(done.reply, self.attack.delta))

    def probe_reply(self, sent, memory, forward, batches, samples):
        done = super().probe_reply(sent, memory, forward, batches, samples)
        # the gradient of a probe is a message: the step is made of what comes later
        return replace(done, reply=self._hostile(done.reply, self.attack.message))

    def _hostile(self, reply: Reply, factor: float) -> Reply:
        hostile = torch.isin(reply.samples, torch.tensor(self.attacker_samples))
        message = {}
        for name, value in reply.message.items():
            message[name] = value * lift(torch.where(hostile, self.attack.message, 1.0), value)
        delta = reply.delta * torch.where(hostile, factor, 1.0).unsqueeze(-1)
        return replace(reply, delta=delta, message=message)


def accuracy(spec: str, guard: str, attack: str, seed: int, rounds: int) -> float:
    """The mean over the last tenth of the rounds, in per cent."""
    x, y = digits()
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(y), generator=draw)
    x, y = x[order], y[order]
    test = (x[:TEST], y[:TEST])
    x, y = x[TEST:], y[TEST:].clone()
    parts = partitioner(f"Dirichlet(alpha=1.0, clients={CLIENTS})")(y.numpy(), seed)
    # all have the same number of samples; the attackers are known by having one or two less
    own = [list(part) for part in parts]
    done = {**ATTACKS, **MESSAGES, **FURTHER}[attack]
    sizes = []
    for missing, client in enumerate(ATTACKERS[: done.clients], start=1):
        own[client] = own[client][:-missing] * done.copies
        sizes.append(len(own[client]))
        if done.flipped:
            y[own[client]] = 9 - y[own[client]]
    plain = build(spec)
    if guard != "Open()":
        plain = replace(plain, guard=build(f"fedavg(guard={guard})").guard)
    slots = {field.name: getattr(plain, field.name) for field in fields(Algorithm)}
    attacked = Attacked(**slots, attack=done, attacker_samples=tuple(sizes))
    model = named_model("logistic(inputs=64, classes=10)", seed)
    task = Task(
        attacked, model, Federation.of([(x[part], y[part]) for part in own]), Plan(20, 10), seed
    )
    run = Simulation(task, CLIENTS, executor=Cohort(), test=test)
    scores = [row.accuracy for _, row in run.run(run.begin(rounds), Store(), rounds)]
    tail = scores[-max(1, rounds // 10) :]
    return 100 * sum(tail) / len(tail)


@dataclass(frozen=True)
class Cell:
    """One run of the table."""

    method: str
    guard: str
    attack: str
    seed: int


def cells() -> list[Cell]:
    """Every run once: the method without an attacker stands in both tables."""
    wanted: dict[Cell, None] = {}
    for methods, attacks, guards in TABLES:
        for guard in guards:
            for method in methods:
                for attack in attacks:
                    for seed in SEEDS:
                        wanted[Cell(method, guard, attack, seed)] = None
    return list(wanted)


def finished(fresh: bool) -> dict[Cell, float]:
    """What the file of results has."""
    found = {}
    if fresh or not RESULTS.exists():
        return found
    for line in RESULTS.read_text().splitlines():
        row = json.loads(line)
        score = row.pop("accuracy")
        found[Cell(**row)] = score
    return found


def table(
    methods: tuple[str, ...],
    attacks: dict[str, Attack],
    guards: tuple[str, ...],
    scores: dict[Cell, float],
) -> str:
    """Seeds one behind the other; the last column is the most that an attack has cost a seed."""
    lines = [
        f"| method | guard | {' | '.join(attacks)} | worst, mean |",
        "|---|---|" + "---:|" * (len(attacks) + 1),
    ]
    for method in methods:
        for guard in guards:
            each = {}
            for attack in attacks:
                each[attack] = [scores.get(Cell(method, guard, attack, seed)) for seed in SEEDS]
            if not any(score is not None for values in each.values() for score in values):
                continue  # nothing of the row was run
            shown = [", ".join(map(_shown, values)) for values in each.values()]
            lines.append(f"| `{method}` | {guard} | {' | '.join(shown)} | {_cost(each)} |")
    return "\n".join(lines)


def _shown(score: float | None) -> str:
    return "-" if score is None else f"{score:.1f}"


def _cost(each: dict[str, list[float | None]]) -> str:
    """Of all attacks: the most that one has cost a seed, and the most over the mean of seeds."""
    calm = each["none"]
    losses = {}
    for attack, values in each.items():
        if attack == "none" or None in values or None in calm:
            continue
        losses[attack] = [before - after for before, after in zip(calm, values, strict=True)]
    if not losses:
        return "-"
    worst = max(max(loss) for loss in losses.values())
    mean = max(sum(loss) / len(loss) for loss in losses.values())
    return f"{worst:.1f}, {mean:.1f}"


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fresh", action="store_true", help="forget what was run before")
    options = parser.parse_args()
    scores = finished(options.fresh)
    if options.fresh:
        RESULTS.unlink(missing_ok=True)
    for cell in cells():
        if cell in scores:
            continue
        # rounded as the file has it: the tables are the same when it is read back
        score = round(accuracy(cell.method, cell.guard, cell.attack, cell.seed, ROUNDS), 2)
        scores[cell] = score
        with RESULTS.open("a") as file:
            file.write(json.dumps({**asdict(cell), "accuracy": score}) + "\n")
    for methods, attacks, guards in TABLES:
        print(table(methods, attacks, guards, scores))
        print()


if __name__ == "__main__":
    main()
