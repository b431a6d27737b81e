"""Vectors on the last axis, clients in front.

A parameter vector is `(d,)` for one client and `(C, d)` for a block of C clients; a per-client
number is `()` or `(C,)`. Code written with these few functions serves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TypeAlias

import torch
from torch import Tensor

Vec: TypeAlias = Tensor  # (..., d)  parameters, gradients, directions
Scalar: TypeAlias = Tensor  # (...)     one number per client
State: TypeAlias = Mapping[str, Tensor]  # somebody's, to be read only
NewState: TypeAlias = dict[str, Tensor]  # made for the caller, who may change it


def dot(a: Vec, b: Vec) -> Scalar:
    """<a, b> per client."""
    return (a * b).sum(-1)


def norm_sq(a: Vec) -> Scalar:
    """|a|^2 per client."""
    return dot(a, a)


def scale(s: Scalar, a: Vec) -> Vec:
    """s * a, one factor per client."""
    return s.unsqueeze(-1) * a


def lift(s: Scalar, like: Tensor) -> Tensor:
    """Append axes to a per-client number until it broadcasts against `like` (clients in front)."""
    missing = like.dim() - s.dim()
    new_axes = (1,) * missing
    return s.reshape(s.shape + new_axes)


def take(state: State, rows: Tensor) -> NewState:
    """The rows (clients) of every tensor of a state."""
    some = {}
    for name, value in state.items():
        some[name] = value[rows]
    return some


def put(
    state: State,
    rows: Tensor,
    new: State,
) -> NewState:
    """`state` with the given rows replaced by `new`; the input is left untouched."""
    after = {}
    for name, value in state.items():
        # a copy, not in place: the caller's state may be somebody's memory
        new_rows = new[name]
        after[name] = value.index_copy(0, rows, new_rows)
    return after


def prefixed(prefix: str, state: State) -> NewState:
    """`state` with a prefix on every name: several states in one flat dictionary."""
    named = {}
    for name, value in state.items():
        named[prefix + name] = value
    return named


def under(prefix: str, state: State) -> NewState:
    """The part of a flat dictionary that `prefixed` put under this prefix."""
    inside = {}
    for name, value in state.items():
        if name.startswith(prefix):
            inside[name.removeprefix(prefix)] = value
    return inside


def finite(a: Vec) -> Tensor:
    """Whether every coordinate is finite, per client."""
    if a.shape[-1] == 0:
        return torch.isfinite(a).all(-1)
    # by the ends, which are NaN where a coordinate is: nothing as large as the model is made
    return (a.amax(-1) < inf) & (a.amin(-1) > -inf)
