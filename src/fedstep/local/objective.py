"""phi, the function a client descends on one batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.types import Batch, Context
from fedstep.core.vec import Scalar, Vec, scale
from fedstep.local.terms import Term


@dataclass(frozen=True)
class Objective:
    """phi(x) = f(x; batch) + sum of terms, per client."""

    ctx: Context
    batch: Batch
    terms: tuple[Term, ...] = ()

    @property
    def round(self) -> int:
        return self.ctx.round

    @property
    def share(self) -> Scalar:
        return self.batch.share

    def __call__(self, x: Vec) -> Scalar:
        out = self.ctx.forward(x, self.batch)
        value = out.loss
        for term in self.terms:
            value = value + term(x, out, self.batch, self.ctx)
        return value

    def rows(self, index: Tensor) -> Objective:
        return Objective(self.ctx.rows(index), self.batch.rows(index), self.terms)

    def along(self, x: Vec, d: Vec) -> Segment:
        return Segment(self, x, d)


@dataclass(frozen=True)
class Segment:
    """eta -> phi(x + eta d) without recording a gradient."""

    phi: Objective
    x: Vec
    d: Vec

    def __call__(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        with torch.no_grad():
            if rows is None:
                return self.phi(self.x + scale(eta, self.d))
            return self.phi.rows(rows)(self.x[rows] + scale(eta, self.d[rows]))
