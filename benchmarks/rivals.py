"""Optimisers without a learning rate, or without a schedule, from their papers' formulas.

Each keeps the parameters as one flat vector. `step(closure)` takes a gradient of the closure's loss
and moves; `settle()` puts the point that the paper evaluates into the model, and `resume()` goes
back to the one that is trained.
"""

from __future__ import annotations

import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class Rival:
    """The flat vector behind a model."""

    def __init__(self, params):
        self.params = list(params)
        self.x = parameters_to_vector(self.params).detach()
        self.steps = 0

    def gradient(self, closure):
        grads = torch.autograd.grad(closure(), self.params)
        return torch.cat([g.reshape(-1) for g in grads])

    @torch.no_grad()
    def write(self, x):
        vector_to_parameters(x, self.params)

    def settle(self):
        """The last iterate is evaluated unless the paper says otherwise."""

    def resume(self):
        self.write(self.x)


class Prodigy(Rival):
    """Prodigy, Adam version (Mishchenko and Defazio, 2023, Algorithm 4), with a constant gamma = 1.

    m <- b1 m + (1 - b1) d g;  v <- b2 v + (1 - b2) d^2 g^2
    r <- sqrt(b2) r + (1 - sqrt(b2)) d^2 <g, x_0 - x>;  s <- sqrt(b2) s + (1 - sqrt(b2)) d^2 g
    x <- x - d m / (sqrt(v) + d eps);  d <- max(d, r / |s|_1)
    """

    def __init__(self, params, beta1=0.9, beta2=0.999, d=1e-6, eps=1e-8):
        super().__init__(params)
        self.beta1 = beta1
        self.beta2 = beta2
        self.d = d
        self.eps = eps
        self.start = self.x.clone()
        self.m = torch.zeros_like(self.x)
        self.v = torch.zeros_like(self.x)
        self.s = torch.zeros_like(self.x)
        self.r = 0.0

    def step(self, closure):
        g = self.gradient(closure)
        d = self.d
        slow = self.beta2**0.5
        self.m = self.beta1 * self.m + (1 - self.beta1) * d * g
        self.v = self.beta2 * self.v + (1 - self.beta2) * d**2 * g**2
        travelled = float(g @ (self.start - self.x))
        self.r = slow * self.r + (1 - slow) * d**2 * travelled
        self.s = slow * self.s + (1 - slow) * d**2 * g
        self.x = self.x - d * self.m / (self.v.sqrt() + d * self.eps)
        total = float(self.s.abs().sum())
        if total > 0:
            self.d = max(d, self.r / total)
        self.write(self.x)


class DoG(Rival):
    """Distance over gradients (Ivgi et al., 2023), read out as the paper's weighted mean (gamma = 8).

    eta = max |x_i - x_0| / sqrt(sum |g_i|^2 + 1e-8), the distance at first 1e-6 (1 + |x_0|)
    mean <- (1 - 9 / (t + 8)) mean + 9 / (t + 8) x
    """

    def __init__(self, params, reach=1e-6):
        super().__init__(params)
        self.start = self.x.clone()
        self.distance = reach * (1 + float(self.x.norm()))
        self.squares = 1e-8
        self.mean = self.x.clone()

    def step(self, closure):
        g = self.gradient(closure)
        self.distance = max(self.distance, float((self.x - self.start).norm()))
        self.squares += float(g @ g)
        self.x = self.x - self.distance / self.squares**0.5 * g
        self.steps += 1
        weight = 9 / (self.steps + 8)
        self.mean = (1 - weight) * self.mean + weight * self.x
        self.write(self.x)

    def settle(self):
        self.write(self.mean)


class ScheduleFreeSGD(Rival):
    """Schedule-free SGD (Defazio et al., 2024): the mean x is evaluated, y is trained.

    y = (1 - beta) z + beta x;  z <- z - lr grad f(y);  x <- (1 - 1/t) x + z / t
    """

    def __init__(self, params, lr, beta=0.9):
        super().__init__(params)
        self.lr = lr
        self.beta = beta
        self.z = self.x.clone()
        self.mean = self.x.clone()

    def step(self, closure):
        g = self.gradient(closure)  # at y, where the model stands
        self.steps += 1
        self.z = self.z - self.lr * g
        self.mean = (1 - 1 / self.steps) * self.mean + self.z / self.steps
        self.x = (1 - self.beta) * self.z + self.beta * self.mean
        self.write(self.x)

    def settle(self):
        self.write(self.mean)
