"""Malformed replies: every one refused with its reason, none ends the run, none is accepted."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
import torch
from fakes import PLAN, SIZES, courier, deployment

from fedstep.core.errors import InputError
from fedstep.execute import Store
from fedstep.remote.answer import ExpectedAnswer, ReplyForm, check_answer, most_steps
from fedstep.remote.node import Node
from fedstep.remote.order import broadcast_tensors, read_order
from fedstep.remote.parcel import RefusedReply, WireTensor, to_wire
from fedstep.remote.versions import CountedVersions
from fedstep.run.rounds import WorkRequest

CLIENT = 3
TOP_K = "fedavg(codec=TopK(fraction=0.2))"
KINDS = [
    ("fedexpsls", False),
    ("scaffold", False),
    ("fedcams", False),
    (TOP_K, False),
    ("fedlin", True),
]
EACH = 2000  # malformed replies of each kind: 10,000 in all
NUMBERS = [-1, 10**30, 2.5, float("nan"), float("inf"), True, "20", "", [20], None]


class Case:
    """One client's honest reply, and what the server knows before it comes."""

    def __init__(self, method, probe):
        self.run = deployment(method, courier())
        versions = CountedVersions(Store())
        sent = self.run.algorithm.broadcast(self.run.begin(1))
        self.request = WorkRequest((CLIENT,), sent, probe)
        order = self.run._order(self.request, [CLIENT], versions)
        member = self.run.courier.members[102]
        parcel = order.parcel(broadcast_tensors(sent))
        answers = member.node.work(read_order(parcel), member.memories)
        self.honest = answers[str(CLIENT)]
        self.expected = ExpectedAnswer(
            client=CLIENT,
            run=self.run.settings.run,
            version=order.version,
            samples=SIZES[CLIENT],
            steps=most_steps(PLAN, SIZES[CLIENT], probe),
            trace=True,
            form=ReplyForm.of(self.run.algorithm, self.run.model, sent, probe),
        )

    def accepted(self, parcel):
        """Whether the server would count it; what is refused says why."""
        try:
            answer = check_answer(self.run.algorithm, parcel, self.expected, self.request.probe)
        except RefusedReply as refusal:
            return not str(refusal)  # without a reason it does not count as refused
        sent = self.request.sent
        counted = self.run.algorithm.count(answer.reply, sent, self.request.probe)
        return counted.rejected == 0


def with_tensor(parcel, name, wire):
    return replace(parcel, tensors={**parcel.tensors, name: wire})


def with_value(parcel, name, value):
    return replace(parcel, values={**parcel.values, name: value})


def floats_of(parcel):
    return [n for n, w in parcel.tensors.items() if w.dtype.startswith("float") and n != "trace"]


def missing_tensor(parcel, random):
    name = random.choice(sorted(parcel.tensors))
    return replace(parcel, tensors={n: w for n, w in parcel.tensors.items() if n != name})


def surplus_tensor(parcel, random):
    return with_tensor(parcel, random.choice(["x", "delta.more", "message.", "trace2"]), WIRE)


def other_shape(parcel, random):
    name = random.choice(sorted(parcel.tensors))
    wire = parcel.tensors[name]
    shape = random.choice([(), (10**12,), (*wire.shape, 2), (-1,), (0,), (7, 7, 7, 7)])
    return with_tensor(parcel, name, replace(wire, shape=shape))


def other_type(parcel, random):
    name = random.choice(sorted(parcel.tensors))
    wire = parcel.tensors[name]
    names = ["int64", "float16", "object", "", "float32x", "complex64", "bfloat16"]
    return with_tensor(parcel, name, replace(wire, dtype=random.choice(names)))


def other_length(parcel, random):
    name = random.choice(sorted(parcel.tensors))
    wire = parcel.tensors[name]
    data = random.choice(
        [
            b"",
            wire.data[:-1],
            wire.data + b"\0",
            wire.data * 2,
            b"\x80\x04N." * (len(wire.data) + 1),
        ]
    )
    return with_tensor(parcel, name, replace(wire, data=data))


def not_finite(parcel, random):
    name = random.choice(floats_of(parcel))
    wire = parcel.tensors[name]
    values = torch.frombuffer(bytearray(wire.data), dtype=getattr(torch, wire.dtype)).clone()
    values[random.randrange(len(values))] = random.choice(
        [float("nan"), float("inf"), -float("inf")]
    )
    return with_tensor(parcel, name, to_wire(values.reshape(wire.shape)))


def other_number(parcel, random):
    names = ["samples", "forwards", "backwards", "more_forwards", "more_backwards"]
    name = random.choice(names)
    # booleans are whole numbers to Python, and not to us
    return with_value(parcel, name, random.choice(NUMBERS))


def other_weight(parcel, random):
    return with_value(parcel, "samples", random.choice([0, 1, SIZES[CLIENT] + 1, 10**9, 10**12]))


def other_identity(parcel, random):
    name = random.choice(["client", "run", "version"])
    return with_value(parcel, name, random.choice([-1, 4, "", "x" * 10**4, 1.5, None, [1]]))


def other_sanity(parcel, random):
    return with_value(parcel, "sane", random.choice([1, 0, "true", None, 1.0, []]))


def missing_value(parcel, random):
    name = random.choice(sorted(parcel.values))
    return replace(parcel, values={n: v for n, v in parcel.values.items() if n != name})


def other_trace(parcel, random):
    wire = parcel.tensors["trace"]
    table = torch.frombuffer(bytearray(wire.data), dtype=torch.float64).reshape(wire.shape).clone()
    row, value = random.choice(BAD_CELLS)
    table[row, random.randrange(table.shape[1])] = value
    return with_tensor(parcel, "trace", to_wire(table))


def long_trace(parcel, random):
    return with_tensor(
        parcel, "trace", to_wire(torch.zeros(6, random.choice([1001, 5000]), dtype=torch.float64))
    )


def an_error(parcel, random):
    return with_value(parcel, "error", random.choice(["", "x" * 10**5, 3, None]))


def nothing(parcel, random):
    return random.choice([replace(parcel, values={}), replace(parcel, tensors={}, values={})])


NAN = float("nan")
# row of the trace, and what cannot stand there
BAD_CELLS = [(0, 0.5), (0, 2.0), (2, float("inf")), (2, NAN), (3, -1.0), (3, 1.5), (3, 1e12)]
BAD_CELLS += [(4, -1.0), (4, NAN), (5, -2.0), (5, NAN)]
WIRE = WireTensor("float32", (1,), b"\0\0\0\0")
FORGERIES = [
    missing_tensor,
    surplus_tensor,
    other_shape,
    other_type,
    other_length,
    not_finite,
    other_number,
    other_weight,
    other_identity,
    other_sanity,
    missing_value,
    other_trace,
    long_trace,
    an_error,
    nothing,
]


@pytest.mark.parametrize(("method", "probe"), KINDS, ids=str)
def test_ten_thousand_malformed_replies_none_aborts_none_is_accepted(method, probe):
    case = Case(method, probe)
    assert case.accepted(case.honest)
    random = Random(11)
    for number in range(EACH):
        forge = FORGERIES[number % len(FORGERIES)]
        forged = forge(case.honest, random)
        assert not case.accepted(forged), f"{forge.__name__}: {forged.values}"


def forged_codec(case, name, change):
    wire = case.honest.tensors[name]
    dtype = getattr(torch, wire.dtype)
    values = torch.frombuffer(bytearray(wire.data), dtype=dtype).reshape(wire.shape).clone()
    change(values)
    return with_tensor(case.honest, name, to_wire(values))


def test_what_no_codec_packs_is_refused():
    signs = Case("fedcams", False)

    def negative(values):
        values.neg_()

    def beyond(values):
        values[-1] |= 128  # 57 parameters: the last byte has one real bit

    assert not signs.accepted(forged_codec(signs, "delta.length", negative))
    assert not signs.accepted(forged_codec(signs, "delta.negative", beyond))
    places = Case(TOP_K, False)
    (name,) = [n for n in places.honest.tensors if n in ("delta.places", "delta.chosen")]

    def all_places(values):
        values.fill_(255 if values.dtype == torch.uint8 else 10**6)

    assert not places.accepted(forged_codec(places, name, all_places))


def test_a_node_says_what_is_wrong_with_its_clients():
    with pytest.raises(InputError, match="no clients"):
        Node(deployment("fedavg", courier()).model, {})
    with pytest.raises(InputError, match="client '3': clients are numbered from 0"):
        Node(deployment("fedavg", courier()).model, {"3": (torch.zeros(1, 5), torch.zeros(1))})
