"""What a client sends back, and the one place where it is checked.

An honest client passes; whatever else comes is a `RefusedReply` with its reason. What is finite
and of the right form goes on to `Algorithm.count`, where simulated clients are checked too: not
finite, too long (the guard), weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.algorithm import Algorithm, Broadcast, LocalRound, Reply
from fedstep.core.types import Forward
from fedstep.core.vec import Vec
from fedstep.data.plan import Plan
from fedstep.local.trace import Trace
from fedstep.remote.parcel import (
    Parcel,
    RefusedReply,
    TensorForm,
    Value,
    forms_of,
    read_state,
    to_wire,
    whole_value,
    wire_state,
)
from fedstep.remote.wire_trace import read_trace, trace_table

SOLVER_STEPS = 1000


class ClientFailed(RefusedReply):
    """The client itself says that it could not do what it was asked for."""


@dataclass(frozen=True)
class ReplyForm:
    """What an honest reply looks like, known before the first one has come."""

    tensors: Mapping[str, TensorForm]  # packed delta and message, by their names on the wire
    like: Vec  # the model sent: its size and type are those of a delta
    trace: Trace  # of a client without steps
    silent: bool  # whether the gradient of a probe stays with the client

    @staticmethod
    def of(
        algorithm: Algorithm,
        model: Forward,
        sent: Broadcast,
        probe: bool,
    ) -> ReplyForm:
        """From a client without steps, run here: not from the first reply, which may be forged."""
        call = algorithm.reply
        if probe:
            call = algorithm.probe_reply
        memory = algorithm.memory_init(sent.x)
        done = call(sent, memory, model, [], torch.tensor(1))
        silent = probe and algorithm.correction.silent
        packed = packed_delta(algorithm, done.reply.delta, probe)
        return ReplyForm(
            tensors={
                **forms_of("delta.", packed),
                **forms_of("message.", done.reply.message),
            },
            like=sent.x,
            trace=done.trace,
            silent=silent,
        )


@dataclass(frozen=True)
class ExpectedAnswer:
    """What is known of a client's answer before it has come."""

    client: int
    run: str
    version: int
    samples: int  # of the roster
    steps: int  # columns of its trace at most
    trace: bool  # whether one was asked for
    form: ReplyForm


@dataclass(frozen=True)
class CheckedAnswer:
    """An answer of the right form."""

    reply: Reply
    trace: Trace


def most_steps(
    plan: Plan,
    samples: int,
    probe: bool,
) -> int:
    """How many local steps, or batches of a probe, a client of so many samples has at most."""
    if probe:
        return -(-samples // plan.batch)
    # a solver of its own, such as Newton's, counts its own steps: the trace stays small all the same
    return max(plan.length(samples), SOLVER_STEPS)


def packed_delta(
    algorithm: Algorithm,
    delta: Vec,
    probe: bool,
) -> dict[str, Tensor]:
    """A delta as its codec sends it; gradients travel as they are, or not at all."""
    if not probe:
        return algorithm.codec.pack(delta)
    if algorithm.correction.silent:
        return {}
    return {"delta": delta}


def answer_parcel(
    algorithm: Algorithm,
    done: LocalRound,
    identity: Mapping[str, Value],
    probe: bool,
    trace: bool,
) -> Parcel:
    """What a client sends; `identity` says whose it is and what it answers."""
    reply = done.reply
    values: dict[str, Value] = {
        **identity,
        "samples": int(reply.samples),
        "sane": bool(reply.sane),
        "forwards": done.trace.forwards,
        "backwards": done.trace.backwards,
        "more_forwards": done.trace.more_forwards,
        "more_backwards": done.trace.more_backwards,
    }
    tensors = {
        **wire_state("delta.", packed_delta(algorithm, reply.delta, probe)),
        **wire_state("message.", reply.message),
    }
    if trace:
        tensors["trace"] = to_wire(trace_table(done.trace))
    return Parcel(values, tensors)


def error_parcel(
    identity: Mapping[str, Value],
    reason: str,
    lost: bool = False,
) -> Parcel:
    """What a client sends that cannot do what it was asked for."""
    return Parcel({**identity, "error": reason, "lost": lost})


def check_answer(
    algorithm: Algorithm,
    parcel: Parcel,
    expected: ExpectedAnswer,
    probe: bool,
) -> CheckedAnswer:
    """The reply, or a `RefusedReply` that says what is wrong with it."""
    # whose it is comes first: an error, too, is believed only of the client it is of
    values = parcel.values
    _check_identity(values, expected)
    if "error" in values:
        raise ClientFailed(f"it failed: {str(values['error'])[:300]}")
    samples = whole_value(values, "samples")
    if samples != expected.samples:
        # the weight: nobody may count for more than he said before the first round
        raise RefusedReply(f"it claims {samples} samples, the roster says {expected.samples}")
    sane = values.get("sane")
    if not isinstance(sane, bool):
        raise RefusedReply(f"sane is {sane!r}, expected true or false")
    _check_tensors(parcel, expected.form)
    message = read_state("message.", parcel.tensors, expected.form.tensors)
    delta = _read_delta(algorithm, parcel, expected.form, probe)
    reply = Reply(
        delta=delta,
        message=message,
        samples=torch.tensor(samples),
        sane=torch.tensor(sane),
    )
    trace = read_trace(parcel, expected.form.trace, expected.steps, asked=expected.trace)
    return CheckedAnswer(reply, trace)


def _check_identity(values: Mapping[str, Value], expected: ExpectedAnswer) -> None:
    # types as well: True equals 1
    client = values.get("client")
    if type(client) is not int or client != expected.client:
        raise RefusedReply(f"it speaks for client {str(client)[:80]}")
    if values.get("run") != expected.run:
        raise RefusedReply("it belongs to another run")
    version = values.get("version")
    if type(version) is not int or version != expected.version:
        raise RefusedReply(f"it is late: it answers {str(version)[:80]}, not {expected.version}")


def _check_tensors(parcel: Parcel, form: ReplyForm) -> None:
    # a trace is looked at by `read_trace`
    unknown = set(parcel.tensors) - set(form.tensors) - {"trace"}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise RefusedReply(f"nobody asked for {names[:200]}")
    for name, wire in parcel.tensors.items():
        # a transport that carries Python's objects carries other things than numbers, too
        if any(type(size) is not int for size in wire.shape) or type(wire.data) is not bytes:
            raise RefusedReply(f"{name} has no shape, or no bytes")


def _read_delta(
    algorithm: Algorithm,
    parcel: Parcel,
    form: ReplyForm,
    probe: bool,
) -> Vec:
    if form.silent:
        return torch.zeros_like(form.like)
    packed = read_state("delta.", parcel.tensors, form.tensors)
    if probe:
        return packed["delta"]
    try:
        delta = algorithm.codec.unpack(packed, form.like.numel())
        again = algorithm.codec.pack(delta)
    except (RuntimeError, IndexError) as error:
        # places beyond the model, more places than values
        raise RefusedReply(f"the delta cannot be decoded: {str(error)[:200]}") from None
    if TensorForm.of(delta) != TensorForm.of(form.like):
        raise RefusedReply(f"the delta is {TensorForm.of(delta)} after decoding")
    # what decodes to something else than it was packed from was not packed by the codec
    for name, value in again.items():
        if to_wire(value) != to_wire(packed[name]):
            raise RefusedReply(f"delta.{name} is not what the codec makes of this delta")
    return delta
