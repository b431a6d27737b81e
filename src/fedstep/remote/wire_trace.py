"""The trace of a client's steps on the wire: a table of numbers, checked like everything else."""

from __future__ import annotations

import torch
from torch import Tensor

from fedstep.local.trace import Trace
from fedstep.remote.parcel import (
    MOST,
    Parcel,
    RefusedReply,
    TensorForm,
    WireTensor,
    from_wire,
    whole_value,
)

# columns of a trace on the wire, one row each, in double precision, which holds them all exactly
COLUMNS = ("live", "losses", "sizes", "trials", "failed", "slopes")


def trace_table(trace: Trace) -> Tensor:
    """A trace as one table; its counts of passes travel as plain values."""
    slopes = trace.slopes
    if slopes is None:
        slopes = torch.zeros_like(trace.trials)
    columns = {
        "live": trace.live,
        "losses": trace.losses,
        "sizes": trace.sizes,
        "trials": trace.trials,
        "failed": trace.failed,
        "slopes": slopes,
    }
    return torch.stack([columns[name].detach().double() for name in COLUMNS])


def read_trace(
    parcel: Parcel,
    like: Trace,
    steps: int,
    asked: bool,
) -> Trace:
    """The trace of an answer, of `steps` columns at most; an empty one where nobody asked for it.

    like: that of a client without steps, whose types and passes an honest one has.
    """
    values = parcel.values
    for name, passes in (("forwards", like.forwards), ("backwards", like.backwards)):
        if whole_value(values, name) != passes:
            raise RefusedReply(f"{name} is {values[name]}, expected {passes}")
    wire = parcel.tensors.get("trace")
    if (wire is not None) != asked:
        raise RefusedReply("a trace is missing, or nobody asked for it")
    table = _read_table(wire, steps)
    live, losses, sizes, trials, failed, slopes = table
    for name, column in (("live", live), ("failed", failed)):
        if not bool(((column == 0) | (column == 1)).all()):
            raise RefusedReply(f"trace: {name} is neither 0 nor 1")
    for name, column in (("trials", trials), ("slopes", slopes)):
        if not bool(((column >= 0) & (column <= MOST) & (column == column.floor())).all()):
            raise RefusedReply(f"trace: {name} are no counts")
    if not bool(torch.isfinite(sizes).all()):
        raise RefusedReply("trace: a step size is not finite")
    return Trace(
        live=live.bool(),
        losses=losses.to(like.losses.dtype),
        sizes=sizes.to(like.sizes.dtype),
        trials=trials.to(like.trials.dtype),
        failed=failed.bool(),
        forwards=like.forwards,
        backwards=like.backwards,
        slopes=slopes.long(),
        more_forwards=whole_value(values, "more_forwards"),
        more_backwards=whole_value(values, "more_backwards"),
    )


def _read_table(wire: WireTensor | None, steps: int) -> Tensor:
    # nobody asked for one: a client may keep its losses to itself
    if wire is None:
        return torch.zeros(len(COLUMNS), 0, dtype=torch.float64)
    # any other number of axes is refused by the form below
    columns = 0
    if len(wire.shape) == 2:
        columns = wire.shape[1]
    if not 0 <= columns <= steps:
        raise RefusedReply(f"trace: {columns} steps, expected {steps} at most")
    form = TensorForm(torch.float64, (len(COLUMNS), columns))
    return from_wire(wire, form, "trace")
