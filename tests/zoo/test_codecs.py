"""What is packed arrives to the bit, and weighs what the codec says."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedstep.server import ErrorFeedback, Plain, ScaledSign, TopK
from fedstep.server.codecs import pack_bits, unpack_bits

CODECS = [
    Plain(),
    TopK(0.01),
    TopK(0.1),
    TopK(0.6),
    TopK(1.0),
    ScaledSign(),
    ErrorFeedback(),
    ErrorFeedback(TopK(0.1)),
]
each_codec = pytest.mark.parametrize("codec", CODECS, ids=str)


def bits(vector):
    kind = {4: torch.int32, 8: torch.int64}[vector.element_size()]
    return vector.contiguous().view(kind)


def check(codec, delta):
    sent, _ = codec(delta, codec.memory_init(delta))
    packed = codec.pack(sent)
    arrived = codec.unpack(packed, delta.numel())
    assert arrived.dtype == sent.dtype
    assert torch.equal(bits(arrived), bits(sent))
    on_the_wire = sum(t.numel() * t.element_size() for t in packed.values())
    assert on_the_wire == codec.size(delta)


@each_codec
@pytest.mark.parametrize("dim", [1, 2, 7, 8, 9, 64, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unpack_of_pack_is_what_was_sent_to_the_bit(codec, dim, dtype):
    draw = torch.Generator().manual_seed(dim)
    check(codec, torch.randn(dim, generator=draw, dtype=dtype))


@each_codec
@settings(deadline=None)
@given(
    values=st.lists(
        st.sampled_from([0.0, -0.0, 1.0, -1.0, 3.0, 1e-45, -1e-45]), min_size=1, max_size=40
    )
)
@example(values=[-1e-45, 0.0, 0.0])  # the mean length underflows: -0 and 0 are sent
def test_zeros_of_both_signs_and_ties_arrive_to_the_bit(codec, values):
    check(codec, torch.tensor(values, dtype=torch.float32))


@settings(deadline=None)
@given(flags=st.lists(st.booleans(), min_size=1, max_size=40))
def test_eight_truth_values_are_a_byte(flags):
    packed = pack_bits(torch.tensor(flags))
    assert packed.dtype == torch.uint8
    assert len(packed) == -(-len(flags) // 8)
    assert unpack_bits(packed, len(flags)).tolist() == flags
