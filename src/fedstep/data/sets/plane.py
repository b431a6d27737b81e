"""The paper's Figure 1: two clients with one equation each."""

from __future__ import annotations

from fedstep.data.sets.record import MadeHere, Raw


def _make() -> Raw:
    """w1 + w2 = 3 and w1 + 2 w2 = 3."""
    import torch

    coefficients = torch.tensor([[1.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    right_sides = torch.tensor([3.0, 3.0], dtype=torch.float64)
    return Raw(
        train=(coefficients, right_sides),
        # two equations have a solution and nothing to generalise to
        test=None,
        ids=torch.arange(2),
    )


PLANE = MadeHere(
    name="plane",
    what="the two clients of Figure 1, in the plane",
    make=_make,
)
