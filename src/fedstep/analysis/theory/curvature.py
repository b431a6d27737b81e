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

    low: float  # least eigenvalue
    high: float  # largest
    exact: bool  # of the whole Hessian


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
    # eigvalsh sorts
    return Spectrum(
        low=float(eigenvalues[0]),
        high=float(eigenvalues[-1]),
        exact=exact,
    )


def dense_hessian(f: Function, x: Vec) -> Tensor:
    """The matrix in float64, column by column, made symmetric."""
    product = _precise_product(f, x)
    identity = torch.eye(x.numel(), dtype=torch.float64, device=x.device)
    rows = [product(unit) for unit in identity]
    whole = torch.stack(rows)
    # rounding makes it a little asymmetric, and eigvalsh reads one half only
    return (whole + whole.mT) / 2


def _precise_product(f: Function, x: Vec) -> Callable[[Vec], Vec]:
    """Products in the precision of the model, taken and given in float64."""
    product = hessian_product(f, x)

    def precise(v: Vec) -> Vec:
        in_model_precision = product(v.to(x))
        return in_model_precision.to(v)

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
        along_known = known.mT @ (known @ image)
        rest = image - along_known
        # once more: rounding would let known directions back in
        left_over = known.mT @ (known @ rest)
        rest = rest - left_over
        # the space is closed under H: its eigenvalues are exact ones
        if rest.norm() <= SPENT * image.norm():
            break
        basis.append(rest / rest.norm())
    # the last vector of the basis may have no image
    with_images = torch.stack(basis[: len(images)])
    small = with_images @ torch.stack(images).mT
    return (small + small.mT) / 2
