"""A torch closure as a function of the flat parameter vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar, Vec, dot, norm_sq

LossClosure: TypeAlias = Callable[[], Any]  # returns the loss; may call backward on it


@dataclass(frozen=True)
class RandomState:
    """The global generators' state, to replay the same dropout masks."""

    cpu: Tensor
    cuda: Tensor | None  # None: the parameters are not on a GPU
    device: torch.device  # of the parameters

    @staticmethod
    def now(device: torch.device) -> RandomState:
        """What the generators hold at this moment."""
        cuda = None
        if device.type == "cuda":
            cuda = torch.cuda.get_rng_state(device)
        return RandomState(torch.get_rng_state(), cuda, device)

    def restore(self) -> None:
        """Make the generators hold it again."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, self.device)


@dataclass(frozen=True)
class ClosureFunction:
    """The closure on the batch at hand, for a step rule to ask.

    Every call sees the random numbers that the first one saw.
    """

    closure: LossClosure
    params: list[Tensor]  # that can move, in the order of the flat vector
    random: RandomState  # before the first call
    like: Tensor  # dtype and device of the flat vector
    share: Scalar  # of the batch in an epoch
    round: int  # the epoch
    calls_backward: bool = False  # known after the first call

    @property
    def steps(self) -> Scalar:
        """One: there are no rounds of several steps here."""
        return self.like.new_ones(())

    def slope(self, g: Vec, d: Vec) -> Scalar:
        return dot(g, d)

    def norm_sq(self, g: Vec) -> Scalar:
        return norm_sq(g)

    @torch.no_grad()
    def read(self) -> Vec:
        """The parameters as one vector."""
        return torch.cat([p.reshape(-1) for p in self.params])

    @torch.no_grad()
    def write(self, x: Vec) -> None:
        """Put a vector into the parameters."""
        pieces = torch.split(x, [p.numel() for p in self.params])
        for p, piece in zip(self.params, pieces, strict=True):
            p.copy_(piece.view_as(p))

    def first_call(self) -> tuple[ClosureFunction, Scalar, Vec]:
        """Loss and gradient where the parameters are, and whether the closure calls backward.

        A closure that calls it (Lightning's do) leaves its gradients in the parameters, which hold
        none before; any other returns a loss with a graph.
        """
        for p in self.params:
            p.grad = None
        with torch.enable_grad():
            loss = self._loss()
            calls_backward = any(p.grad is not None for p in self.params)
            function = replace(self, calls_backward=calls_backward)
            gradient = function._gradient(loss)
        return function, loss.detach().to(self.like.dtype), gradient

    def __call__(self, x: Vec) -> Scalar:
        self.write(x)
        self.random.restore()
        # A closure that calls backward needs its graph; the trial then costs a backward pass too.
        with torch.set_grad_enabled(self.calls_backward):
            loss = self._loss()
        return loss.detach().to(x.dtype)

    def gradient(self, x: Vec) -> Vec:
        """The gradient at x, on the same batch."""
        self.write(x)
        self.random.restore()
        # a closure that calls backward adds to what is there
        for p in self.params:
            p.grad = None
        with torch.enable_grad():
            return self._gradient(self._loss())

    def along(self, x: Vec, d: Vec) -> ClosureRay:
        return ClosureRay(self, x, d)

    def _loss(self) -> Tensor:
        loss = self.closure()
        # Lightning and old recipes return a number once they have called backward
        if isinstance(loss, float):
            return self.like.new_tensor(loss)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise InputError(
                f"the closure returned {type(loss).__name__}: it must return the loss, one number"
            )
        return loss.reshape(())

    def _gradient(self, loss: Tensor) -> Vec:
        if self.calls_backward:
            grads = [p.grad for p in self.params]
        else:
            grads = self._differentiate(loss)
        pieces = []
        for p, grad in zip(self.params, grads, strict=True):
            # a parameter that the loss does not use has no gradient, and does not move
            if grad is None:
                grad = torch.zeros_like(p)
            # an embedding with sparse=True: the vector has all of its rows
            pieces.append(grad.detach().to_dense().reshape(-1))
        return torch.cat(pieces)

    def _differentiate(self, loss: Tensor) -> list[Tensor | None]:
        try:
            grads = torch.autograd.grad(loss, self.params, allow_unused=True)
        except RuntimeError as error:
            raise InputError(
                "the closure must return a loss with a graph, or call backward on it "
                f"with the parameters of this optimiser ({error})"
            ) from None
        return list(grads)


@dataclass(frozen=True)
class ClosureRay:
    """The closure along x + eta d."""

    function: ClosureFunction
    x: Vec
    d: Vec

    def __call__(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        return self.function(self.x + eta * self.d)

    def derivative(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        return dot(self.function.gradient(self.x + eta * self.d), self.d)
