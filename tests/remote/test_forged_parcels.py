"""Malformed replies of other kinds: several things wrong at once, and names that nearly fit.

`test_replies.py` changes one thing of an honest reply. Here are the rest of the 10,000: forgeries
on top of one another, values of every type that a transport can carry in the place of every
value, numbers at the end of what their type holds, and parcels under other names.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
import torch
from fakes import courier, deployment
from test_replies import CLIENT, FORGERIES, KINDS, Case, with_tensor, with_value

from fedstep.execute import Store
from fedstep.remote.courier import Delivery
from fedstep.remote.hearing import Hearing
from fedstep.remote.parcel import DTYPES, Parcel, WireTensor

EACH = 1000  # of each kind
# what a transport can carry, and what none of ours should
ANYTHING = [-1, 0, 2**63, -(2**63), 10**400, 0.0, -0.0, 1e308, float("nan"), float("inf"), True]
ANYTHING += [False, "", "0", "3\0", "\udcff", "x" * 10**5, b"", b"3", [], [3], [1.5], ["3"], {}]
NAMES = ["", "03", "3 ", " 3", "+3", "-3", "3.0", "3_0", "0x3", "\u0663", "\uff13", "3\0", "three"]
NAMES += ["3" * 5000, "None", "1e1", "-0", "\n3", "99", "4294967299", "18446744073709551619"]


def anything(parcel, random):
    name = random.choice(sorted(parcel.values))
    value = random.choice([v for v in ANYTHING if repr(v) != repr(parcel.values[name])])
    if name == "sane" and value is False:
        value = None  # an honest client may say that of itself
    return with_value(parcel, name, value)


def several(parcel, random):
    forged = parcel
    for _ in range(random.randint(2, 5)):
        forge = random.choice(FORGERIES)
        try:
            forged = forge(forged, random)
        except (KeyError, IndexError, ValueError, RuntimeError, AttributeError):
            continue  # what it would change is no longer there
    return forged


def swapped(parcel, random):
    """Two tensors under one another's names, where that can be told."""
    names = sorted(parcel.tensors)
    one, other = random.sample(names, 2)
    wires = parcel.tensors
    if (wires[one].dtype, wires[one].shape) == (wires[other].dtype, wires[other].shape):
        return replace(parcel, tensors={n: w for n, w in wires.items() if n != one})
    return replace(parcel, tensors={**wires, one: wires[other], other: wires[one]})


def odd_shape(parcel, random):
    """Shapes whose product is right, or that are no shapes."""
    name = random.choice(sorted(parcel.tensors))
    wire = parcel.tensors[name]
    one = (1, *wire.shape)
    floats = tuple(map(float, wire.shape)) or (0.5,)
    strings = tuple(map(str, wire.shape)) or ("1",)
    shape = random.choice([one, (*wire.shape, 1), floats, strings, (2**62, 4), (-1, -1), (None,)])
    return with_tensor(parcel, name, replace(wire, shape=shape))


def other_width(parcel, random):
    """The same number of bytes as another type."""
    name = random.choice(sorted(parcel.tensors))
    wire = parcel.tensors[name]
    dtype = random.choice(sorted(set(DTYPES) - {wire.dtype}))
    size = DTYPES[dtype].itemsize
    shape = (len(wire.data) // size,)
    return with_tensor(parcel, name, WireTensor(dtype, shape, wire.data))


def wrong_bools(parcel, random):
    """Tensors of all ones bits: NaN as floats, no counts, no truth values."""
    wires = {n: replace(w, data=b"\xff" * len(w.data)) for n, w in parcel.tensors.items()}
    return replace(parcel, tensors=wires)


def too_large_to_add(parcel, random):
    """Finite, and the square of its length is not."""
    names = [n for n in sorted(parcel.tensors) if n.startswith("delta")]
    floats = [n for n in names if parcel.tensors[n].dtype == "float32"]
    name = random.choice(floats)
    wire = parcel.tensors[name]
    count = len(wire.data) // 4
    data = torch.full((count,), 3e38).numpy().tobytes()
    return with_tensor(parcel, name, replace(wire, data=data))


MORE = [anything, several, swapped, odd_shape, other_width, wrong_bools, too_large_to_add]


@pytest.mark.parametrize(("method", "probe"), KINDS, ids=str)
def test_more_malformed_replies_none_aborts_none_is_accepted(method, probe):
    case = Case(method, probe)
    random = Random(14)
    forgeries = MORE
    if method == "fedcams" or probe:
        # a length of 3e38 is what the codec packs of such a delta; gradients are not limited
        forgeries = [forge for forge in MORE if forge is not too_large_to_add]
    for number in range(EACH):
        forge = forgeries[number % len(forgeries)]
        forged = forge(case.honest, random)
        assert not case.accepted(forged), f"{forge.__name__}: {forged.values}"


def hearing_of(case):
    run = case.run
    return Hearing(
        algorithm=run.algorithm,
        settings=run.settings,
        roster=run.registry.roster,
        request=case.request,
        form=case.expected.form,
        refusals=run.refusals,
    )


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_a_name_that_nearly_is_a_clients_number_is_none(name):
    case = Case("fedexpsls", False)
    hearing = hearing_of(case)
    node = case.run.registry.roster.node_of[CLIENT]
    hearing.hear(Delivery(node, {name: case.honest}))
    assert not hearing.answers
    assert "not asked there" in hearing.refusals[0]
    # the honest name, so that the test can fail
    hearing.hear(Delivery(node, {str(CLIENT): case.honest}))
    assert set(hearing.answers) == {CLIENT}


def test_a_flood_of_parcels_changes_nothing_and_its_lines_stay_short():
    case = Case("fedexpsls", False)
    hearing = hearing_of(case)
    node = case.run.registry.roster.node_of[CLIENT]
    flood = {str(number) + "x" * 1000: Parcel() for number in range(2000)}
    hearing.hear(Delivery(node, {**flood, str(CLIENT): case.honest}))
    assert set(hearing.answers) == {CLIENT}
    assert max(map(len, hearing.refusals)) < 500


def test_a_node_that_sends_another_forgery_every_round_changes_nothing():
    """Whole rounds: whatever comes, the model is that without this client."""
    random = Random(3)
    forgeries = [*FORGERIES, *MORE[:-1]]
    held = ((0,), (1,), (2,), (3,), (4,), (5,))

    def forge(errand, delivery):
        if errand == "who" or delivery.node != 103:
            return [delivery]
        make = forgeries[forge.turn % len(forgeries)]
        forge.turn += 1
        return [
            replace(delivery, parcels={n: make(p, random) for n, p in delivery.parcels.items()})
        ]

    forge.turn = 0
    rounds = len(forgeries)
    absent = courier(held, lose=lambda errand, node: errand != "who" and node == 103)
    without = deployment("fedexpsls", absent, per_round=6)
    *_, (expected, _) = without.run(without.begin(rounds), Store(), rounds)
    forged = deployment("fedexpsls", courier(held, forge=forge), per_round=6)
    *_, (server, _) = forged.run(forged.begin(rounds), Store(), rounds)
    assert torch.equal(server.x, expected.x)
    assert forge.turn == rounds
