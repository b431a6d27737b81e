"""Matrices step by an orthogonal matrix, all else by Adam's direction (Muon)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import Shapes
from fedstep.core.vec import NewState, State, Vec, lift
from fedstep.local.directions import Direction

# of the odd polynomial a s + b s^3 + c s^5 that brings singular values near 1 (Jordan et al., 2024)
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def orthogonalised(matrices: Tensor, iterations: int = 5) -> Tensor:
    """Every matrix of (..., rows, columns) with its singular values brought near 1.

        X <- M / |M|;  X <- a X + (b A + c A^2) X with A = X X', so many times

    They end between 0.7 and 1.2 unless they were below a hundredth of |M|; 0 stays 0.
    """
    a, b, c = NEWTON_SCHULZ
    rows, columns = matrices.shape[-2:]
    # the smaller of the two products X X' and X' X
    tall = rows > columns
    x: Tensor = matrices
    if tall:
        x = x.mT
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(iterations):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    if tall:
        x = x.mT
    return x


@dataclass(frozen=True)
class MatrixPlace:
    """A parameter with two axes or more, and where it lies in the vector."""

    start: int
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.start + self.rows * self.columns

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def columns(self) -> int:
        columns = 1
        for size in self.shape[1:]:
            columns *= size
        return columns

    @property
    def factor(self) -> float:
        """The length of a tall matrix's step, as the published programs have it."""
        # of the last two axes: filters of a convolution are square there, and get 1
        high, wide = self.shape[-2:]
        return sqrt(max(1.0, high / wide))


def matrices_in(shapes: Shapes) -> list[MatrixPlace]:
    """The matrices among the parameters of these shapes."""
    places = []
    start = 0
    for shape in shapes:
        size = 1
        for each in shape:
            size *= each
        if len(shape) >= 2 and size > 0:
            places.append(MatrixPlace(start, shape))
        start += size
    return places


@dataclass(frozen=True)
class Orthogonal(Direction):
    """Matrices go along their momentum made orthogonal, other parameters as in AdamW (Muon).

        matrices:  m <- beta m + (1 - beta) g;  u = beta m + (1 - beta) g
                   d = -rate (f orthogonalised(u) + decay x),  f = sqrt(max(1, rows / columns))
        others:    d = -(Adam's direction of g with (beta1, beta2, eps) + decay x)

    A parameter with more axes than two is a matrix with one row for every index of its first axis.
    `carried`: m begins a round at the mean of the clients' m at the end of the last one (FedMuon);
    otherwise at 0. `shapes` are the model's and filled in by it. d is not made for a line search:
    its length says nothing about the slope.
    """

    beta: float = 0.95
    rate: float = 1.0  # steps of matrices in units of those of other parameters
    decay: float = 0.01
    iterations: int = 5
    adam: tuple[float, float, float] = (0.9, 0.95, 1e-10)
    carried: bool = False
    shapes: Shapes | None = None  # filled in by `suited`

    intrinsic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise InputError(f"Orthogonal(beta={self.beta}): beta must lie in [0, 1)")
        if not (self.rate > 0 and self.decay >= 0):
            raise InputError(
                f"Orthogonal(rate={self.rate}, decay={self.decay}): "
                "the rate must be positive, the decay 0 or more"
            )
        if self.iterations < 1:
            raise InputError(f"Orthogonal(iterations={self.iterations}): give 1 or more")

    def suited(self, shapes: Shapes) -> Self:
        return replace(self, shapes=shapes)

    @property
    def places(self) -> list[MatrixPlace]:
        """Where the matrices lie."""
        if self.shapes is None:
            raise InputError("Orthogonal(shapes=None): call suited(shapes) first, as Task does")
        return matrices_in(self.shapes)

    def shared_init(self, x: Vec) -> NewState:
        if not self.carried:
            return {}
        return {"momentum": torch.zeros_like(self._of_matrices(x))}

    def begin(self, x: Vec, sent: State) -> NewState:
        others = torch.zeros_like(self._of_others(x))
        momentum = torch.zeros_like(self._of_matrices(x))
        if self.carried:
            momentum = sent["momentum"].expand_as(momentum)
        return {
            "momentum": momentum,
            "first": others,
            "second": others,
            "steps": x.new_zeros(x.shape[:-1]),
        }

    def init(self, x: Vec) -> NewState:
        return self.begin(x, self.shared_init(x))

    def apply(
        self,
        d: Vec,
        x: Vec,
        state: State,
    ) -> tuple[Vec, NewState]:
        steps = state["steps"] + 1
        given = self._of_matrices(d)
        momentum = self.beta * state["momentum"] + (1 - self.beta) * given
        # Nesterov's look ahead, as the programs have it
        ahead = self.beta * momentum + (1 - self.beta) * given

        ours = self._of_others(d)
        beta1, beta2, eps = self.adam
        first = beta1 * state["first"] + (1 - beta1) * ours
        second = beta2 * state["second"] + (1 - beta2) * ours * ours
        mean = first / lift(1 - beta1**steps, first)
        spread = (second / lift(1 - beta2**steps, second)).sqrt()
        adam = mean / (spread + eps) - self.decay * self._of_others(x)

        after = {
            "momentum": momentum,
            "first": first,
            "second": second,
            "steps": steps,
        }
        return self._joined(self._matrix_steps(ahead, x), adam), after

    def message(self, state: State) -> NewState:
        if not self.carried:
            return {}
        return {"momentum": state["momentum"]}

    def fold(
        self,
        shared: State,
        message: State,
        agg: Aggregate,
    ) -> NewState:
        if not self.carried:
            return {}
        return {"momentum": agg.mean(message["momentum"])}

    def _matrix_steps(self, ahead: Vec, x: Vec) -> list[Vec]:
        """The steps of the matrices, one flat piece for each."""
        steps = []
        at = 0
        for place in self.places:
            size = place.end - place.start
            piece = ahead[..., at : at + size]
            matrix = piece.reshape(*piece.shape[:-1], place.rows, place.columns)
            turned = orthogonalised(matrix, self.iterations).reshape(piece.shape)
            decay = self.decay * x[..., place.start : place.end]
            steps.append(self.rate * (place.factor * turned - decay))
            at += size
        return steps

    def _of_matrices(self, x: Vec) -> Vec:
        pieces = [x[..., place.start : place.end] for place in self.places]
        if not pieces:
            return x[..., :0]
        return torch.cat(pieces, -1)

    def _of_others(self, x: Vec) -> Vec:
        return torch.cat([x[..., start:end] for start, end in self._gaps(x.shape[-1])], -1)

    def _gaps(self, dim: int) -> list[tuple[int, int]]:
        """Before the first matrix, between two of them, and behind the last one."""
        gaps = []
        at = 0
        for place in self.places:
            gaps.append((at, place.start))
            at = place.end
        gaps.append((at, dim))
        return gaps

    def _joined(self, matrices: list[Vec], others: Vec) -> Vec:
        """All pieces in the order of the vector."""
        dim = others.shape[-1] + sum(piece.shape[-1] for piece in matrices)
        pieces = []
        at = 0
        for number, (start, end) in enumerate(self._gaps(dim)):
            pieces.append(others[..., at : at + end - start])
            at += end - start
            if number < len(matrices):
                pieces.append(matrices[number])
        return torch.cat(pieces, -1)
