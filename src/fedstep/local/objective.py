"""phi, the function a client descends on one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.exchange import ClientMemory
from fedstep.core.types import Batch, Context, Output, OutputAlongLine, Sampled
from fedstep.core.vec import Scalar, Vec, dot, scale
from fedstep.local.terms import Term
from fedstep.steps.probabilistic import NoisyValue


@dataclass
class Work:
    """Passes besides one gradient a step and one forward a trial, summed over clients and steps."""

    forwards: int = 0
    backwards: int = 0

    def add(
        self,
        clients: int,
        forwards: int,
        backwards: int,
    ) -> None:
        self.forwards += clients * forwards
        self.backwards += clients * backwards


@dataclass(frozen=True)
class Objective:
    """phi(x) = f(x; batch) + sum of terms, per client."""

    ctx: Context
    batch: Batch
    terms: tuple[Term, ...] = ()
    work: Work = field(
        default_factory=Work,
        repr=False,
        compare=False,
    )
    # outputs that were paid for already: that of the first pass, and the last with its point
    _first: list[Output] = field(
        default_factory=list,
        repr=False,
        compare=False,
    )
    _last: list[tuple[Vec, Output]] = field(
        default_factory=list,
        repr=False,
        compare=False,
    )

    @property
    def round(self) -> int:
        return self.ctx.round

    @property
    def share(self) -> Scalar:
        return self.batch.share

    @property
    def steps(self) -> Scalar:
        if self.batch.steps is None:
            raise InputError(
                "a step that depends on the number of local steps "
                "needs batches that know it (Batch.steps)"
            )
        return self.batch.steps

    def __call__(self, x: Vec) -> Scalar:
        out = self.ctx.forward(x, self.batch)
        self._last[:] = [(x.detach(), out)]
        # corrections count what the model gave before the step, not at a trial
        if not self._first:
            self._first.append(out)
        return self.value(x, out)

    @property
    def output(self) -> Output:
        """What the model gave in the first pass, that of the gradient."""
        return self._first[0]

    def value(self, x: Vec, out: Output) -> Scalar:
        """phi at x, given the model's output there."""
        # terms share the model's one pass: embeddings and predictions come with the loss
        value = out.loss
        for term in self.terms:
            value = value + term(x, out, self.batch, self.ctx)
        return value

    def slope(self, g: Vec, d: Vec) -> Scalar:
        """<g, d>, in whatever coordinates the client works."""
        return self.ctx.forward.slope(g, d, self.batch)

    def norm_sq(self, g: Vec) -> Scalar:
        return self.ctx.forward.norm_sq(g, self.batch)

    def rows(self, index: Tensor) -> Objective:
        return Objective(self.ctx.rows(index), self.batch.rows(index), self.terms, self.work)

    def gradient(self, x: Vec) -> tuple[Scalar, Vec]:
        """Value and gradient at x.

        In a block every row depends on its own client only, so one pass serves all.
        """
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            f = self(leaf)
            (g,) = torch.autograd.grad(f.sum(), leaf)
        return f.detach(), g

    def parted(self, x: Vec) -> tuple[Objective, Scalar, Vec]:
        """The loss alone, its value at x, and the gradient of the terms at x.

        x is the point of the first pass. For terms of x alone: what a term makes of the model's
        output is left out.
        """
        loss = replace(self, terms=())
        f = self.output.loss.detach()
        if not self.terms:
            return loss, f, torch.zeros_like(x)
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            total = self.value(leaf, Output(torch.zeros_like(f)))
            (pull,) = torch.autograd.grad(total.sum(), leaf)
        return loss, f, pull

    def noisy(self, x: Vec, d: Vec) -> NoisyValue:
        """phi and its slope along d, with the noise of the batch in both.

        One forward and two backward passes (the second through the first, for the slope of every
        sample). A block is run row by row. The terms are added free of noise.
        """
        if x.dim() > 1:
            each = [self._row(i).noisy(x[i], d[i]) for i in range(len(x))]
            return _stacked(each)
        model = self.ctx.forward
        if not isinstance(model, Sampled):
            raise InputError(f"{type(model).__name__} does not give the loss of every sample")

        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            losses = model.samples(leaf, self.batch)
            value = self.value(leaf, Output(losses.mean()))
            # the slope of <weights, losses> is linear in the weights: its derivative by a weight
            # is the slope of that sample
            weights = torch.ones_like(losses, requires_grad=True)
            (pulled,) = torch.autograd.grad(dot(losses, weights), leaf, create_graph=True)
            (slopes,) = torch.autograd.grad(dot(pulled, d), weights)
            slope = slopes.mean() + self._terms_slope(value - losses.mean(), leaf, d)
        return NoisyValue(
            value=value.detach(),
            slope=slope,
            value_variance=_variance_of_mean(losses.detach()),
            slope_variance=_variance_of_mean(slopes),
        )

    def _terms_slope(
        self,
        terms: Scalar,
        leaf: Vec,
        d: Vec,
    ) -> Scalar | float:
        if not self.terms:
            return 0.0
        (g,) = torch.autograd.grad(terms, leaf)
        return dot(g, d)

    def _row(self, i: int) -> Objective:
        """The function of one client of the block."""
        memory = ClientMemory.of({name: v[i] for name, v in self.ctx.memory.flat().items()})
        ctx = replace(self.ctx, memory=memory)
        return Objective(ctx, self.batch.row(i), self.terms, self.work)

    def along(self, x: Vec, d: Vec) -> Segment:
        return Segment(self, x, d, self._line(x, d))

    def _line(self, x: Vec, d: Vec) -> OutputAlongLine | None:
        """The model's short cut, which needs its output at x: that of the last pass, if there."""
        if not self._last:
            return None
        point, output = self._last[0]
        # the same memory, not equal values: comparing values would cost as much as it saves
        if point.data_ptr() != x.data_ptr():
            return None
        with torch.no_grad():
            return self.ctx.forward.line(output, d, self.batch)


def _stacked(each: Sequence[NoisyValue]) -> NoisyValue:
    """The noisy value of a block, from those of its clients."""
    return NoisyValue(
        value=torch.stack([one.value for one in each]),
        slope=torch.stack([one.slope for one in each]),
        value_variance=torch.stack([one.value_variance for one in each]),
        slope_variance=torch.stack([one.slope_variance for one in each]),
    )


def _variance_of_mean(values: Tensor) -> Scalar:
    """The variance of the mean of independent values; 0 where one value tells nothing of it."""
    if len(values) < 2:
        return values.new_zeros(())
    return values.var() / len(values)


@dataclass(frozen=True)
class Segment:
    """eta -> phi(x + eta d) without recording a gradient, and its slope."""

    phi: Objective
    x: Vec
    d: Vec
    line: OutputAlongLine | None = None

    @property
    def cheap(self) -> bool:
        """Whether a trial is a few elementwise operations."""
        return self.line is not None and not self.phi.terms

    def among(self, active: Tensor) -> Segment:
        """The same, where only these clients of the block will be asked."""
        if self.line is None:
            return self
        with torch.no_grad():
            return replace(self, line=self.line.among(active))

    def __call__(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        with torch.no_grad():
            return self._value(eta, rows)

    def derivative(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        with torch.enable_grad():
            # by eta alone, where the model knows its output along the line
            if self.line is not None:
                leaf = eta.detach().requires_grad_()
                (slope,) = torch.autograd.grad(self._value(leaf, rows).sum(), leaf)
                return slope
            # else a whole gradient, projected: a pass forward and one back
            phi, x, d = self._rows(rows)
            point = (x + scale(eta, d)).requires_grad_()
            (g,) = torch.autograd.grad(phi(point).sum(), point)
        return phi.slope(g, d)  # not the product of the coordinates: they need not be orthonormal

    def _value(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        if self.line is not None and not self.phi.terms:
            return self.line(eta, rows).loss
        phi, x, d = self._rows(rows)
        point = x + scale(eta, d)
        if self.line is None:
            return phi(point)
        return phi.value(point, self.line(eta, rows))

    def _rows(self, rows: Tensor | None) -> tuple[Objective, Vec, Vec]:
        if rows is None:
            return self.phi, self.x, self.d
        return self.phi.rows(rows), self.x[rows], self.d[rows]
