"""The candidate of reference.py on a study's own data, cohorts and batches.

FEDSTEP_DATA=DIRECTORY python benchmarks/next_default/run.py femnist-pace --seed 10 --rounds 100
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from fedstep.run.evaluate import evaluate
from fedstep.study.plan import Job
from fedstep.study.study_file import read_study
from fedstep.study.work import simulation
from reference import Batch, rounds

STUDIES = Path(__file__).parents[2] / "src" / "fedstep" / "paper" / "studies"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--every", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    setting = read_study(STUDIES / f"{options.study}.toml").setting
    setting = replace(setting, rounds=options.rounds)
    made, _ = simulation(Job(setting, "fedavg", options.seed), Path(os.environ["FEDSTEP_DATA"]))
    task, federation = made.task, made.task.federation
    sizes = federation.sizes.double()
    judge = task.model.evaluating()
    module = task.model.load(task.model.init()).train()
    shapes = {name: each.shape for name, each in module.named_parameters()}

    def loss(x: Tensor, batch: Batch) -> Tensor:
        parts = x.split([shape.numel() for shape in shapes.values()])
        named = {n: part.view(s) for (n, s), part in zip(shapes.items(), parts, strict=True)}
        return functional.cross_entropy(functional_call(module, named, batch[:-1]), batch[-1])

    def clients(t: int) -> Iterator[tuple[float, list[Batch]]]:
        for client in made._plan().cohort(t):
            batches = [
                task.gather(index, torch.ones(()), torch.tensor(0), None, task.model.init()).fields
                for index in task.batches(client, t)
            ]
            yield float(sizes[client]), batches

    for server in rounds(loss, task.model.init(), clients, options.rounds):
        if server.round % options.every == 0 or server.round == options.rounds:
            score = evaluate(
                judge, server.mean, made.test, federation.transform, metrics=made.measured
            )
            print(
                f"round {server.round}  accuracy {100 * score.accuracy:.2f}  T {server.T:.4g}  "
                f"log pace {server.log_s:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
