"""Did a change of the code change a number? Every method on a small task, as hashes of what it learnt.

python benchmarks/bits.py record FILE     before the change
python benchmarks/bits.py compare FILE    after it: names every method whose bits differ, and exits with 1

Hashes are those of one CPU kind: record and compare on the same machine.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import torch
from torch import nn

from fedstep import InputError, fit
from fedstep.execute.cohort import Cohort
from fedstep.execute.sequential import Sequential
from fedstep.spec import methods

EXECUTORS = {"sequential": Sequential(), "cohort": Cohort()}


def federation():
    """Six clients of unequal size whose inputs are shifted, and a test set; from a generator of its own."""
    generator = torch.Generator().manual_seed(7)
    truth = torch.randn(12, 4, generator=generator)
    clients = []
    for client in range(7):
        x = torch.randn(30 + 5 * client, 12, generator=generator) + 0.2 * client
        noise = torch.randn(len(x), 4, generator=generator)
        clients.append((x, (x @ truth + noise).argmax(1)))
    return clients[:-1], clients[-1]


def models():
    """A linear model, which clients solve in its dual form, and a network."""
    torch.manual_seed(0)
    return {
        "linear": nn.Linear(12, 4),
        "network": nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 4)),
    }


def bits(spec, model, executor):
    """A hash of the model after three rounds and of what every round counted."""
    clients, test = federation()
    settings = dict(rounds=3, per_round=4, batch=8, local_steps=5, test=test, progress=False)
    try:
        result = fit(model, clients, spec, executor=executor, guard=False, **settings)
    except InputError as error:
        return f"refused: {type(error).__name__}"
    digest = hashlib.sha256(result.x.detach().numpy().tobytes())
    for row in result.rows:
        numbers = (row.loss, row.eta_g, row.trials, row.failed, row.forwards, row.backwards)
        digest.update(repr((*numbers, row.bytes_up, row.bytes_down, tuple(row.steps))).encode())
    return digest.hexdigest()[:16]


def all_bits():
    """By method, model and executor."""
    found = {}
    for spec in methods():
        for kind, model in models().items():
            for name, executor in EXECUTORS.items():
                found[f"{spec} {kind} {name}"] = bits(spec, model, executor)
    return found


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("record", "compare"):
        sys.exit(__doc__)
    path = Path(sys.argv[2])
    torch.set_num_threads(1)
    found = all_bits()
    if sys.argv[1] == "record":
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{len(found)} hashes in {path}")
        return
    before = json.loads(path.read_text())
    changed = [name for name in before if found.get(name) != before[name]]
    for name in changed:
        print(f"{name}: {before[name]} before, {found.get(name)} now")
    print(f"{len(before) - len(changed)} of {len(before)} the same")
    sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()
