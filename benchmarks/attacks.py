"""What one hostile client of ten costs, with the guard and without.

    python benchmarks/attacks.py --rounds 30 --seeds 3              deltas and labels
    python benchmarks/attacks.py --rounds 30 --seeds 3 --messages   what clients send besides the delta

Handwritten digits, ten clients, all in every round, softmax regression. The attacker multiplies its
delta or its message, or trains on flipped labels (9 - y). Prints the tables of docs/trust.md:
accuracy in per cent, the mean over the last tenth of the rounds and over seeds.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields, replace

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

METHODS = ("fedavg(step=0.5)", "fedsls", "fedexpsls", "fedpace")
# those that send more: a control variate, a gradient, the number of steps, a probe, scales
TALKATIVE = (
    "scaffold(step=0.5)",
    "mimelite(step=0.5)",
    "fednova(step=0.5)",
    "fedlin(step=0.5)",
    "fedpace",
)


@dataclass(frozen=True)
class Attack:
    """What the hostile client multiplies, or whether its labels are wrong."""

    delta: float = 1.0
    message: float = 1.0
    flipped: bool = False


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
CLIENTS = 10
ATTACKER = 4
TEST = 400  # samples


@dataclass(frozen=True)
class Attacked(Algorithm):
    """The algorithm with one hostile client, who is known by the number of its samples."""

    attack: Attack = Attack()
    attacker_samples: int = 0

    def reply(self, sent, memory, forward, batches, samples):
        done = super().reply(sent, memory, forward, batches, samples)
        return replace(done, reply=self._hostile(done.reply, self.attack.delta))

    def probe_reply(self, sent, memory, forward, batches, samples):
        done = super().probe_reply(sent, memory, forward, batches, samples)
        # the gradient of a probe is a message: the step is made of what comes later
        return replace(done, reply=self._hostile(done.reply, self.attack.message))

    def _hostile(self, reply: Reply, factor: float) -> Reply:
        hostile = reply.samples == self.attacker_samples
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
    # all have the same number of samples; the attacker is known by having one less
    own = [list(part) for part in parts]
    own[ATTACKER].pop()
    done = {**ATTACKS, **MESSAGES}[attack]
    if done.flipped:
        y[own[ATTACKER]] = 9 - y[own[ATTACKER]]
    plain = build(spec)
    if guard != "Open()":
        plain = replace(plain, guard=build(f"fedavg(guard={guard})").guard)
    slots = {field.name: getattr(plain, field.name) for field in fields(Algorithm)}
    attacked = Attacked(**slots, attack=done, attacker_samples=len(own[ATTACKER]))
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
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--messages", action="store_true", help="attacks on messages, not deltas")
    options = parser.parse_args()
    attacks = MESSAGES if options.messages else ATTACKS
    methods = options.methods or (TALKATIVE if options.messages else METHODS)
    print("| method | guard |", " | ".join(attacks), "|")
    print("|---|---|" + "---:|" * len(attacks))
    for spec in methods:
        for guard in options.guards:
            cells = []
            for attack in attacks:
                each = [
                    accuracy(spec, guard, attack, seed, options.rounds)
                    for seed in range(options.seeds)
                ]
                cells.append(f"{sum(each) / len(each):.1f}")
            print(f"| `{spec}` | {guard} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
