"""An Armijo line search as one would write it in bare torch, with an nn.Module; one thread.

    eta <- 0.9 eta until f(x - eta g) <= f(x) - 0.1 eta |g|^2, at most 100 times

It begins at 10 in every round, and at 2^(batch / samples) times the last step after that. "seeded" does as the public
program of Vaswani et al. (2019) does: every evaluation of the loss puts the global generators to the same seed and back, so
that dropout would be the same in all of them.
"""

from __future__ import annotations

import contextlib

import torch
from torch.nn import functional

from with_torch import batches, clients_of, module_of

ENVIRONMENT = "torch"
PACKAGES = ("torch",)
VARIANTS = {"bare search": {}, "bare search, seeded": {"seeded": True}}
WORKLOADS = ("w1", "w2", "w3")
ONLY = {"bare search, seeded": ("w1",)}

MAX_STEP, SHRINK, C, GROW, TRIALS = 10.0, 0.9, 0.1, 2.0, 100


def compete(work, rounds, seeded=False):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module, clients = module_of(work), clients_of(work)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    for done in rounds:
        total, losses, count, trials = (
            {name: torch.zeros_like(value) for name, value in state.items()},
            0.0,
            0,
            0,
        )
        for x, y in clients:
            module.load_state_dict(state)
            optimizer = Search(list(module.parameters()), work.batch / work.samples, seeded)
            for inputs, targets in batches(work, x, y):
                losses += optimizer.step(
                    lambda i=inputs, t=targets: functional.cross_entropy(module(i), t)
                )
                count += 1
            trials += optimizer.trials
            for name, value in module.state_dict().items():
                total[name] += value
        state = {name: value / len(clients) for name, value in total.items()}
        done(batches=count, loss=losses / count, trials=trials / count)


class Search:
    """One client's steps in a round."""

    def __init__(self, parameters, share, seeded):
        self.parameters, self.growth, self.seeded = parameters, GROW**share, seeded
        self.last, self.trials = MAX_STEP / self.growth, 0

    def step(self, closure):
        seed = int(torch.randint(2**31, ())) if self.seeded else None
        for p in self.parameters:
            p.grad = None
        with same(seed):
            loss = closure()
        loss.backward()
        f = float(loss.detach())
        before = [p.detach().clone() for p in self.parameters]
        slope = float(sum((p.grad * p.grad).sum() for p in self.parameters))
        eta = min(self.last * self.growth, MAX_STEP)
        for _ in range(TRIALS):
            self._move(before, eta)
            with torch.no_grad(), same(seed):
                value = float(closure())
            self.trials += 1
            if value <= f - C * eta * slope:
                break
            eta *= SHRINK
        else:
            eta = 1e-6
            self._move(before, eta)
        self.last = eta
        return f

    def _move(self, before, eta):
        with torch.no_grad():
            for p, start in zip(self.parameters, before, strict=True):
                p.copy_(start - eta * p.grad)


@contextlib.contextmanager
def same(seed):
    """The global generator at `seed` inside, and left as it was found."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
