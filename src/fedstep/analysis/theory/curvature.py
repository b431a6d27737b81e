"""Largest and smallest curvature of a function at a point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from fedstep.core.hessian import hessian_product
from fedstep.core.seeds import generator
from fedstep.core.vec import Scalar, Vec

DENSE = 64  # parameters up to which the whole Hessian is formed
PRODUCTS = 16  # Hessian-vector products of a larger one
SPENT = 1e-10  # share of a product below which it leads nowhere new
Function: TypeAlias = Callable[[Vec], Scalar]


@dataclass(frozen=True)
class Spectrum:
    """The ends of a Hessian's spectrum.

    Without `exact` high is a lower bound of the largest, low an upper one of the least.
    """

    low: float
    high: float
    exact: bool


def spectrum(
    f: Function,
    x: Vec,
    seed: int = 0,
) -> Spectrum:
    """The whole Hessian for few parameters; else Lanczos: power iteration that keeps all its
    vectors.
    """
    exact = x.numel() <= DENSE
    if exact:
        matrix = dense_hessian(f, x)
    else:
        matrix = _lanczos(f, x, seed)
    eigenvalues = torch.linalg.eigvalsh(matrix)
    return Spectrum(
        float(eigenvalues[0]),
        float(eigenvalues[-1]),
        exact,
    )


def dense_hessian(f: Function, x: Vec) -> Tensor:
    """The matrix in float64, column by column, made symmetric."""
    product = _precise_product(f, x)
    identity = torch.eye(x.numel(), dtype=torch.float64, device=x.device)
    whole = torch.stack([product(unit) for unit in identity])
    return (whole + whole.mT) / 2


def _precise_product(f: Function, x: Vec) -> Callable[[Vec], Vec]:
    """Products in the precision of the model, taken and given in float64."""
    product = hessian_product(f, x)

    def precise(v: Vec) -> Vec:
        return product(v.to(x)).to(v)

    return precise


def _lanczos(
    f: Function,
    x: Vec,
    seed: int,
) -> Tensor:
    """The Hessian on the space of v, Hv, HHv, ...: its eigenvalues lie between the Hessian's."""
    product = _precise_product(f, x)
    drawn = torch.randn(
        x.numel(),
        generator=generator(seed, "lanczos"),
        dtype=torch.float64,
    )
    v = drawn.to(x.device)
    basis = [v / v.norm()]
    images: list[Vec] = []
    for _ in range(PRODUCTS):
        image = product(basis[-1])
        images.append(image)
        known = torch.stack(basis)
        rest = image - known.mT @ (known @ image)
        # once more: rounding would let known directions back in
        rest = rest - known.mT @ (known @ rest)
        if rest.norm() <= SPENT * image.norm():
            break
        basis.append(rest / rest.norm())
    small = torch.stack(basis[: len(images)]) @ torch.stack(images).mT
    return (small + small.mT) / 2
