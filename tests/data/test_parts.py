"""Parts: a sequence of index sets in two tensors."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import pytest
import torch

from fedstep.core.errors import InputError
from fedstep.data import parts as parts_module
from fedstep.data.federation import Federation
from fedstep.data.parts import Parts, check_disjoint, label_counts, partition_hash

MILLION = 1_000_000
EACH = [[4, 0], [2], [], [1, 3, 5]]


def lists(parts: Parts) -> list[list[int]]:
    return [part.tolist() for part in parts]


def test_parts_behave_as_a_sequence_of_tensors():
    parts = Parts.of(EACH)
    assert isinstance(parts, Sequence)
    assert len(parts) == 4
    assert lists(parts) == EACH
    assert [parts[i].tolist() for i in range(4)] == EACH
    assert parts[-1].tolist() == [1, 3, 5]
    assert [part.tolist() for part in reversed(parts)] == EACH[::-1]
    assert all(part.dtype == torch.int64 for part in parts)
    assert parts.sizes.tolist() == [2, 1, 0, 3]
    assert parts.size(3) == 3


@pytest.mark.parametrize(
    "chosen",
    [slice(None), slice(2), slice(1, 3), slice(3, 1), slice(None, None, -1), slice(-2, None)],
)
def test_a_slice_of_parts_is_that_of_the_list(chosen):
    some = Parts.of(EACH, "a note")[chosen]
    assert lists(some) == EACH[chosen]
    assert some.note == "a note"


@pytest.mark.parametrize("client", [4, -5, MILLION])
def test_a_client_that_is_not_there_is_an_index_error(client):
    with pytest.raises(IndexError, match=str(client)):
        Parts.of(EACH)[client]


@pytest.mark.parametrize("clients", [[], [[]], [np.arange(3), torch.tensor([7]), (1, 2)]])
def test_parts_are_made_of_arrays_tensors_and_tuples(clients):
    assert lists(Parts.of(clients)) == [list(map(int, client)) for client in clients]


def test_consecutive_and_grouped_parts():
    assert lists(Parts.consecutive([2, 0, 3])) == [[0, 1], [], [2, 3, 4]]
    assert lists(Parts.grouped(np.array([1, 0, 1, 3]), 4)) == [[1], [0, 2], [], [3]]


def test_clients_of_one_machine_keep_their_numbers():
    parts = Parts.of(EACH).only([3, 0])
    assert len(parts) == 2
    assert parts[3].tolist() == [1, 3, 5]
    assert parts.size(0) == 2
    assert lists(parts) == [[4, 0], [1, 3, 5]]
    with pytest.raises(IndexError, match="client 1 is not among the 2"):
        parts[1]
    again = pickle.loads(pickle.dumps(parts))
    assert again[3].tolist() == [1, 3, 5]
    samples = torch.arange(6.0)
    assert Federation((samples, samples), parts).size(3) == 3


def test_a_client_without_samples_is_named_by_its_number():
    samples = torch.arange(6.0)
    with pytest.raises(InputError, match="client 2 has no samples"):
        Federation((samples, samples), Parts.of(EACH).only([0, 2, 3]))


def test_a_slice_is_pickled_without_what_it_was_cut_from():
    parts = Parts.consecutive(torch.full((MILLION,), 3))
    assert len(pickle.dumps(parts[:10])) < 1000
    assert lists(pickle.loads(pickle.dumps(parts[1:3]))) == [[3, 4, 5], [6, 7, 8]]


def test_a_million_clients_are_a_few_bytes_each():
    parts = Parts.consecutive(torch.full((MILLION,), 2))
    samples = torch.zeros(2 * MILLION, dtype=torch.uint8)
    federation = Federation((samples, samples), parts)
    packed = pickle.dumps(federation.parts)
    # of a client: two sample numbers of four bytes, and one byte for how many
    assert len(packed) < 9.1 * MILLION
    again = pickle.loads(packed)
    assert len(again) == MILLION
    assert torch.equal(again.samples, parts.samples)
    assert torch.equal(again.offsets, parts.offsets)
    assert again[MILLION - 1].tolist() == [2 * MILLION - 2, 2 * MILLION - 1]
    check_disjoint(again, 2 * MILLION)


def test_the_hash_is_that_of_sizes_and_samples_one_client_after_another(monkeypatch):
    digest = sha256(np.int64(len(EACH)).tobytes())
    for part in EACH:
        digest.update(np.int64(len(part)).tobytes())
        digest.update(np.array(part, np.int64).tobytes())
    assert partition_hash(EACH) == digest.hexdigest()
    for some in (1, 2):  # clients at a time
        monkeypatch.setattr(parts_module, "HASHED", some)
        assert partition_hash(EACH) == digest.hexdigest()


def test_label_counts_count_a_client_at_a_time():
    labels = np.array([0, 2, 1, 2, 0, 1])
    counts = [np.bincount(labels[np.array(part, np.int64)], minlength=3) for part in EACH]
    assert label_counts(EACH, labels).tolist() == np.stack(counts).tolist()


def test_dealing_keeps_the_axis_of_a_client_with_one_sample():
    labels = np.array([0, 2, 1, 2, 0, 1])
    dealt = Parts.of(EACH).deal(labels, torch.from_numpy(labels))
    assert [array.shape for array, _ in dealt] == [(2,), (1,), (0,), (3,)]
    assert all(array.tolist() == tensor.tolist() for array, tensor in dealt)
