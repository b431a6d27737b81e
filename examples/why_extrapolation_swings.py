"""Where along the server's direction is the loss least, and where does extrapolation go?

    python examples/why_extrapolation_swings.py --data DIRECTORY [--max-step 1] [--rounds 60]

Runs FedExpSLS on FEMNIST (softmax regression) and evaluates, in every fifth round, the loss over all clients along x + eta D.
FedExP's rule assumes that the clients' deltas point towards a common minimiser (interpolation). Where clients fit their own few
samples with long steps instead, the best eta is near 1 and eta_g overshoots.
"""

from __future__ import annotations

import argparse
from functools import reduce
from operator import add
from pathlib import Path

import torch

from fedstep import zoo
from fedstep.core.vec import norm_sq
from fedstep.data.plan import Plan
from fedstep.data.tasks import load
from fedstep.execute import Cohort, Store, Task
from fedstep.models.text import named_model
from fedstep.run.evaluate import evaluate, loss_over_clients
from fedstep.server.sampling import Uniform

ETAS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)


def main() -> None:
    """Print a line for every fifth round."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, default=None)
    options.add_argument("--max-step", type=float, default=1.0)
    options.add_argument("--rounds", type=int, default=60)
    given = options.parse_args()
    torch.set_num_threads(1)

    split = load("femnist-ink", None, given.data)
    model = named_model("logistic(inputs=784, classes=62)", 0)
    judge = model.evaluating()
    algorithm = zoo.fedexpsls(max_step=given.max_step)
    task = Task(algorithm, model, split.federation, Plan(50, 20))
    server, store = algorithm.init(model.init(), given.rounds), Store()
    print(
        "round  eta_g  best eta  loss at x / at best / at eta_g   accuracy at 1 / at eta_g   mean cosine of deltas"
    )
    for t in range(given.rounds):
        sent = algorithm.broadcast(server)
        cohort = Uniform()(len(split.federation), 20, 0, t)
        total = reduce(add, (u.aggregate for u in Cohort(20)(task, sent, cohort, store)))
        after = algorithm.absorb(server, total, len(split.federation))
        if t % 5 == 4:
            d, eta_g = total.mean(total.delta), float(after.eta_g)
            # |sum D_i|^2 = sum |D_i|^2 + sum over pairs <D_i, D_j>: the mean cosine if all deltas are about equally long
            n, square = total.clients, float(total.norm_sq)
            cosine = (float(norm_sq(total.delta)) - square) / (square * (n - 1))
            losses = {
                eta: loss_over_clients(judge, server.x + eta * d, split.federation)
                for eta in (0.0, *ETAS, eta_g)
            }
            best = min(ETAS, key=lambda eta: losses[eta])
            plain, far = (
                evaluate(judge, server.x + eta * d, split.test).accuracy for eta in (1.0, eta_g)
            )
            print(
                f"{t + 1:5d}  {eta_g:5.2f}  {best:8.2f}  {losses[0.0]:10.3f} / {losses[best]:.3f} / {losses[eta_g]:.3f}"
                f"        {plain:.3f} / {far:.3f}             {cosine:.3f}",
                flush=True,
            )
        server = after


if __name__ == "__main__":
    main()
