"""What is put into a slot is checked when the algorithm is made."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from fedstep import InputError, build, zoo
from fedstep.algorithm import Algorithm
from fedstep.corrections import Correction, FirstMoment, Frozen
from fedstep.local import Chain, Clip, LocalSolver, Newton, Preconditioned, Proximal
from fedstep.server import (
    Adaptive,
    BySamples,
    Codec,
    ErrorFeedback,
    Extrapolate,
    LastTwo,
    Readout,
    ServerRule,
    Step,
    TopK,
    Weighting,
)
from fedstep.server.guards import Guard
from fedstep.server.norm_limit import NormLimit
from fedstep.spec import SLOTS, fillers, parts
from fedstep.steps.fixed import Constant

CLIENT = LocalSolver(Constant(0.1))
MAKERS = {
    "local": Algorithm,
    "server": partial(Algorithm, CLIENT),
    "correction": partial(Algorithm, CLIENT),
    "weighting": partial(Algorithm, CLIENT),
    "readout": partial(Algorithm, CLIENT),
    "codec": partial(Algorithm, CLIENT),
    "guard": partial(Algorithm, CLIENT),
    "step": LocalSolver,
    "direction": partial(LocalSolver, Constant(0.1)),
    "oracle": partial(LocalSolver, Constant(0.1)),
    "move": partial(LocalSolver, Constant(0.1)),
    "terms": partial(LocalSolver, Constant(0.1)),
}


def refusal(make):
    with pytest.raises(InputError) as caught:
        make()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_slot_of_algorithm_and_solver_is_tried_here():
    assert set(MAKERS) == set(SLOTS)


@pytest.mark.parametrize("slot", MAKERS)
@pytest.mark.parametrize("value", [3, "fedavg", None, object])
def test_what_is_no_part_is_refused_in_one_line_with_value_and_remedy(slot, value):
    told = refusal(lambda: MAKERS[slot](**{slot: value}))
    name = value.__name__ if isinstance(value, type) else repr(value)
    assert f"({slot}={name})" in told
    assert "give a" in told


@pytest.mark.parametrize("slot", MAKERS)
def test_a_part_of_another_slot_is_refused(slot):
    other = Step() if slot != "server" else Clip()
    assert f"({slot}={other!r})" in refusal(lambda: MAKERS[slot](**{slot: other}))


@pytest.mark.parametrize(
    ("slot", "part"),
    [
        ("local", LocalSolver),
        ("server", Extrapolate),
        ("correction", Frozen),
        ("weighting", BySamples),
        ("readout", LastTwo),
        ("codec", TopK),
        ("guard", NormLimit),
        ("step", Constant),
        ("direction", Clip),
    ],
)
def test_a_class_in_the_place_of_an_instance_is_refused_with_the_brackets_it_lacks(slot, part):
    told = refusal(lambda: MAKERS[slot](**{slot: part}))
    assert f"{part.__name__} is a class; write {part.__name__}()" in told


def test_terms_are_a_tuple_of_terms():
    assert "give a tuple, as in terms=(Proximal(...),)" in refusal(
        lambda: LocalSolver(Constant(0.1), terms=Proximal())
    )
    assert "write Proximal()" in refusal(lambda: LocalSolver(Constant(0.1), terms=(Proximal,)))
    assert "give terms such as" in refusal(lambda: LocalSolver(Constant(0.1), terms=(3,)))


def test_replace_is_checked_too():
    assert "Algorithm(server=3)" in refusal(lambda: replace(zoo.fedsls(), server=3))


def test_other_solvers_check_their_slots():
    assert "Newton(direction=3)" in refusal(lambda: Newton(direction=3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Adaptive(moment=Step()),
        lambda: ErrorFeedback(codec=Step()),
        lambda: Preconditioned(moment=Step()),
        lambda: Frozen(statistics=Step()),
        lambda: Chain(parts=(Step(),)),
    ],
)
def test_parts_of_parts_are_checked(make):
    assert "Step(step=1.0)" in refusal(make)


def test_fillers_are_those_that_derive_from_the_slot_s_base_class():
    assert fillers("server") == {n: p for n, p in parts().items() if issubclass(p, ServerRule)}
    for slot, base in (
        ("correction", Correction),
        ("codec", Codec),
        ("guard", Guard),
        ("readout", Readout),
        ("weighting", Weighting),
    ):
        found = fillers(slot)
        assert found
        assert all(issubclass(part, base) for part in found.values())


def test_statistics_of_mime_are_not_offered_as_server_rules():
    assert "FirstMoment" not in fillers("server")
    told = refusal(lambda: build("fedsls(server=FirstMoment())"))
    assert "Extrapolate" in told
    assert "BothMoments" not in told
    assert not isinstance(FirstMoment(), ServerRule)


def test_every_filler_fills_one_slot_only():
    homes = {}
    for slot in SLOTS:
        for name in fillers(slot):
            homes.setdefault(name, []).append(slot)
    assert all(len(slots) == 1 for slots in homes.values()), homes
