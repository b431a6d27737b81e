"""Partitioners: disjoint, complete where promised, of the promised sizes, the same for the same seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedstep.core.errors import InputError
from fedstep.data.partition import (
    Dirichlet,
    Iid,
    LogNormal,
    Natural,
    Partitioner,
    Power,
    ProportionalDirichlet,
    Shards,
    SizeLaw,
)
from fedstep.data.parts import Parts, check_disjoint, label_counts, partition_hash

labels = st.lists(st.integers(0, 6), min_size=1, max_size=120).map(np.array)
clients = st.integers(1, 12)
alphas = st.floats(1e-4, 1e4)
seeds = st.integers(0, 2**40)


def cifar_like() -> np.ndarray:
    return np.random.default_rng(0).permutation(np.repeat(np.arange(10), 5000))


def complete(parts: Parts, total: int) -> bool:
    check_disjoint(parts, total)
    return sum(map(len, parts)) == total


@given(labels, clients, alphas, seeds)
def test_dirichlet_deals_every_client_exactly_its_equal_share(
    y: np.ndarray, n: int, alpha: float, seed: int
) -> None:
    n = min(n, len(y))
    parts = Dirichlet(alpha, n)(y, seed)
    check_disjoint(parts, len(y))
    assert [len(p) for p in parts] == [len(y) // n] * n
    assert bool(parts.note) == (len(y) % n > 0)
    assert partition_hash(parts) == partition_hash(Dirichlet(alpha, n)(y, seed))


@given(labels, clients, alphas, st.integers(1, 5), seeds)
def test_proportional_dirichlet_deals_everything_and_nobody_too_little(
    y: np.ndarray, n: int, alpha: float, least: int, seed: int
) -> None:
    n = max(1, min(n, len(y) // least))
    least = min(least, len(y))
    parts = ProportionalDirichlet(alpha, n, least)(y, seed)
    assert complete(parts, len(y))
    assert len(parts) == n
    assert min(map(len, parts)) >= least
    assert partition_hash(parts) == partition_hash(ProportionalDirichlet(alpha, n, least)(y, seed))


@given(labels, clients, seeds)
def test_iid_deals_everything_evenly(y: np.ndarray, n: int, seed: int) -> None:
    n = min(n, len(y))
    parts = Iid(n)(y, seed)
    assert complete(parts, len(y))
    assert {len(p) for p in parts} <= {len(y) // n, len(y) // n + 1}


@given(labels, clients, st.integers(1, 3), seeds)
def test_shards_deal_everything_in_runs_of_sorted_labels(
    y: np.ndarray, n: int, per: int, seed: int
) -> None:
    n, per = (n, per) if n * per <= len(y) else (1, 1)
    parts = Shards(n, per)(y, seed)
    assert complete(parts, len(y))
    rank = np.empty(len(y), int)
    rank[np.argsort(y, kind="stable")] = np.arange(len(y))
    assert all((np.diff(rank[p.numpy()]) != 1).sum() <= per - 1 for p in parts)


@given(labels)
def test_natural_groups_by_id_in_ascending_order(ids: np.ndarray) -> None:
    parts = Natural()(ids)
    assert complete(parts, len(ids))
    assert [set(ids[p.numpy()].tolist()) for p in parts] == [{i} for i in sorted(set(ids.tolist()))]
    assert partition_hash(parts) == partition_hash(
        Natural()(np.array([f"writer {i}" for i in ids]))
    )


@given(
    labels, clients, st.sampled_from([LogNormal(), LogNormal(20.0), Power(), Power(0.01)]), seeds
)
def test_a_size_law_deals_everything_and_leaves_nobody_empty(
    y: np.ndarray, n: int, law: Power, seed: int
) -> None:
    n = min(n, len(y))
    parts = SizeLaw(n, law)(y, seed)
    assert complete(parts, len(y))
    assert min(map(len, parts)) >= 1


RULES: list[Partitioner] = [
    Dirichlet(0.3, 5),
    ProportionalDirichlet(0.3, 5, 1),
    Iid(5),
    Shards(5),
    SizeLaw(5),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: type(r).__name__)
def test_another_seed_gives_another_partition_and_global_generators_are_left_alone(
    rule: Partitioner,
) -> None:
    y = np.arange(200) % 7
    before = np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    assert len({partition_hash(rule(y, seed)) for seed in range(5)}) == 5
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index, union-attr]


def test_partitions_stay_what_they_were_in_earlier_versions() -> None:
    """A change of these digests changes every published partition: say so in the changelog."""
    y = np.arange(60) % 6
    assert [partition_hash(rule(y, 7))[:8] for rule in RULES] == PINNED


PINNED = ["bc7a7e8a", "1aba2be5", "e33119fe", "138769a0", "ab245b14"]


def test_fifty_thousand_samples_are_dealt_to_a_hundred_clients() -> None:
    assert complete(Dirichlet(0.3, 100)(cifar_like()), 50_000)


def test_the_dealing_follows_the_priors_while_no_class_is_used_up() -> None:
    """First-half statistics: with huge alpha every client is near uniform; small alpha concentrates on few classes."""
    y = cifar_like()
    even, uneven = (label_counts(Dirichlet(alpha, 100)(y), y) / 500 for alpha in (1e5, 0.1))
    assert (
        abs(even - 0.1).max() < 0.08
    )  # 500 draws: deviation 0.0134, six of them; the last clients are bound by what is left
    # E sum p^2 = (alpha + 1) / (10 alpha + 1) = 0.55 for alpha = 0.1; leftovers at the end make it smaller
    assert 0.35 < (uneven**2).sum(1).mean() < 0.6


def test_the_dirichlet_deal_has_the_law_of_drawing_again() -> None:
    """Dropping used-up classes from the prior equals the original's loop that draws until a class has samples left.

    alpha = 2 keeps that loop short; at 0.5 it now and then draws millions of times for one sample.
    """
    y, runs = np.repeat(np.arange(3), [2, 4, 6]), 2000
    ours = np.array([label_counts(Dirichlet(2.0, 3)(y, s), y) for s in range(runs)])
    rng = np.random.default_rng(0)
    theirs = np.array([drawing_again(y, 3, 2.0, rng) for _ in range(runs)])
    gap = (ours**2).mean((0, 1)) - (theirs**2).mean((0, 1))
    noise = ((ours**2).mean(1).var(0) / runs + (theirs**2).mean(1).var(0) / runs) ** 0.5
    assert (abs(gap) < 4 * noise).all()
    assert (noise < 0.1).all()


def drawing_again(y: np.ndarray, n: int, alpha: float, rng: np.random.Generator) -> np.ndarray:
    stock, size = np.bincount(y), len(y) // n
    ends = np.cumsum(rng.dirichlet([alpha] * len(stock), n), axis=1)
    counts = np.zeros((n, len(stock)), int)
    while counts.sum() < size * n:
        client = rng.integers(n)
        if counts[client].sum() == size:
            continue
        while True:
            label = min(int((ends[client] < rng.random()).sum()), len(stock) - 1)
            if stock[label] > 0:
                break
        stock[label] -= 1
        counts[client, label] += 1
    return counts


def test_a_prior_without_mass_left_does_not_hang() -> None:
    y = np.repeat([0, 1], [10, 90])
    for seed in range(20):  # at this alpha a prior is 0 or 1: clients of class 0 want 50 each of 10
        parts = Dirichlet(1e-300, 2)(y, seed)
        assert [len(p) for p in parts] == [50, 50]


def test_moved_samples_are_noted() -> None:
    parts = ProportionalDirichlet(0.01, 20, 10)(np.arange(400) % 4)
    assert min(map(len, parts)) >= 10
    assert "moved to clients that had fewer than 10" in parts.note
    assert ProportionalDirichlet(100.0, 4, 10)(np.arange(400) % 4).note == ""


def test_two_shards_give_a_client_few_classes() -> None:
    y = cifar_like()
    assert ((label_counts(Shards(100, 2)(y), y) > 0).sum(1) <= 2).all()


def test_a_heavier_power_law_gives_a_larger_largest_client() -> None:
    y = np.zeros(10_000, int)
    largest = [
        np.mean([max(map(len, SizeLaw(50, Power(e))(y, s))) for s in range(20)]) for e in (1.1, 3.0)
    ]
    assert largest[0] > 1.5 * largest[1]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Dirichlet(0.0, 10), r"alpha=0\.0.*alpha must be positive"),
        (lambda: Dirichlet(float("nan"), 10), "alpha must be positive"),
        (lambda: Dirichlet(0.3, 0), "clients must be a whole number"),
        (lambda: Iid(2.5), "clients must be a whole number"),  # type: ignore[arg-type]
        (lambda: Shards(4, 0), "per_client must be"),
        (lambda: ProportionalDirichlet(0.3, 4, 0), "min_size must be"),
        (lambda: LogNormal(-1.0), "sigma must be positive"),
        (lambda: Power(0.0), "exponent must be positive"),
        (lambda: Dirichlet(0.3, 9)(np.zeros(8)), r"clients=9.*8 samples.*lower clients"),
        (lambda: Iid(9)(np.zeros(8)), r"clients=9.*lower clients"),
        (lambda: Shards(5, 2)(np.zeros(8)), r"8 samples.*10 parts.*lower clients"),
        (lambda: SizeLaw(9)(np.zeros(8)), r"clients=9.*lower clients"),
        (
            lambda: ProportionalDirichlet(0.3, 3, 4)(np.zeros(8)),
            "need 12 samples.*lower clients or min_size",
        ),
        (lambda: Iid(1)(np.zeros((3, 2))), "one label for each sample"),
        (lambda: Natural()([]), "one label for each sample"),
    ],
)
def test_an_impossible_request_names_the_value_and_the_remedy(make, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=words):
        make()


def test_the_hash_depends_on_order_and_on_where_clients_end() -> None:
    all_different = [
        [[0, 1], [2]],
        [[0], [1, 2]],
        [[2], [0, 1]],
        [[1, 0], [2]],
        [[0, 1, 2]],
        [[0, 1], [2], []],
    ]
    assert len({partition_hash(p) for p in all_different}) == len(all_different)
    # sha256 of the int64 numbers 1 (clients), 2 (samples), 0, 1, little-endian
    assert partition_hash([np.array([0, 1], np.int32)]) == partition_hash([[0, 1]]) == ONE_CLIENT


ONE_CLIENT = "08a4f91a73c9264d29aeedb30697daff6105d49d1af7cc284482999686f030ff"


def test_label_counts_add_up() -> None:
    assert label_counts([[0, 3], [], [1]], [2, 0, 1, 2]).tolist() == [
        [0, 0, 2],
        [0, 0, 0],
        [1, 0, 0],
    ]
    with pytest.raises(InputError, match="whole numbers from 0"):
        label_counts([[0]], [-1])


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([[0, 1], [1]], "sample 1 belongs to clients 0 and 1"),
        ([[0], [1, 1]], "client 1 has a sample twice"),
        ([[0, 4]], "client 0 has sample 4"),
        ([[-1]], "client 0 has sample -1"),
    ],
)
def test_parts_that_overlap_or_reach_outside_are_refused(
    parts: list[list[int]], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        check_disjoint(parts, 4)
    check_disjoint([[0, 1], [3]], 4)
