"""Products with a Hessian, without forming it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fedstep.core.vec import Scalar, Vec


def hessian_product(
    function: Callable[[Vec], Scalar],
    x: Vec,
) -> Callable[[Vec], Vec]:
    """v -> H v for the Hessian of a function at x; of a block, per client.

    H v is the gradient of <g(x), v> with the graph of g kept, so a product costs two backward
    passes and no forward one. Clients do not see one another, so the Hessian of the sum of their
    values is that of each.
    """
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        value = function(leaf).sum()
        (g,) = torch.autograd.grad(value, leaf, create_graph=True)

    def product(v: Vec) -> Vec:
        # a linear function has a gradient that depends on nothing
        if not g.requires_grad:
            return torch.zeros_like(v)
        (curved,) = torch.autograd.grad(
            g,
            leaf,
            v,
            retain_graph=True,  # the caller asks for many products at one point
            allow_unused=True,
            materialize_grads=True,
        )
        return curved

    return product
