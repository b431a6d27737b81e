"""A part in a slot it does not fit is refused when it is put there, with the remedy."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from fedstep.core.errors import InputError
from fedstep.core.slots import check_slots
from fedstep.steps.cadence import Always, Cadence
from fedstep.steps.conditions import Armijo, Condition
from fedstep.steps.failures import Failure, LastTrial, Settle
from fedstep.steps.lipschitz import LipschitzSearch
from fedstep.steps.polyak import Polyak
from fedstep.steps.proposals import Proposal, Secant
from fedstep.steps.references import Current, Reference
from fedstep.steps.resets import Grow, Keep, Reset
from fedstep.steps.rule import StepRule
from fedstep.steps.search import LineSearch

DEFAULTS = {
    "condition": "Armijo",
    "reset": "Grow",
    "reference": "Current",
    "failure": "Settle",
    "proposal": "Bisect",
    "cadence": "Always",
}
PARTS = {
    "condition": Armijo(),
    "reset": Grow(),
    "reference": Current(),
    "failure": Settle(),
    "proposal": Secant(),
    "cadence": Always(),
}


@pytest.mark.parametrize("slot", DEFAULTS)
@pytest.mark.parametrize("value", [3, "Armijo", ()])
def test_a_search_refuses_a_value_that_is_no_part(slot, value):
    with pytest.raises(InputError) as caught:
        LineSearch(**{slot: value})
    text = f"LineSearch({slot}={value!r}): give a part such as {DEFAULTS[slot]}()"
    assert str(caught.value) == text


@pytest.mark.parametrize("slot", PARTS)
def test_a_search_refuses_a_class_in_place_of_its_instance(slot):
    part = type(PARTS[slot])
    with pytest.raises(InputError) as caught:
        LineSearch(**{slot: part})
    name = part.__name__
    assert str(caught.value) == f"LineSearch({slot}={name}): {name} is a class; write {name}()"


@pytest.mark.parametrize("slot", PARTS)
def test_a_search_refuses_the_part_of_another_slot(slot):
    stranger = Keep() if slot != "reset" else LastTrial()
    with pytest.raises(InputError, match="give a part such as"):
        LineSearch(**{slot: stranger})


@pytest.mark.parametrize("slot", PARTS)
def test_none_is_refused_except_where_the_slot_is_empty_by_default(slot):
    if slot == "proposal":
        LineSearch(proposal=None)
        return
    with pytest.raises(InputError, match=f"{slot}=None"):
        LineSearch(**{slot: None})


@pytest.mark.parametrize("part", PARTS.values(), ids=lambda part: type(part).__name__)
def test_a_search_takes_every_part_that_fits(part):
    slot = next(name for name, known in PARTS.items() if known is part)
    assert getattr(LineSearch(**{slot: part}), slot) is part


def test_parts_inside_other_rules_are_checked_too():
    with pytest.raises(InputError, match=r"Polyak\(reset=Grow\): Grow is a class; write Grow\(\)"):
        Polyak(reset=Grow)
    with pytest.raises(InputError, match=r"LipschitzSearch\(grid=3\): give a part such as LineSea"):
        LipschitzSearch(grid=3)


@pytest.mark.parametrize(
    "base", [Condition, Reset, Reference, Failure, Proposal, Cadence, StepRule]
)
def test_a_part_that_leaves_out_what_its_slot_asks_for_cannot_be_made(base):
    class Unfinished(base):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Unfinished()


def test_a_slot_without_default_and_parts_names_its_kind():
    class Kind:
        pass

    @dataclass(frozen=True)
    class Owner:
        part: Kind

    with pytest.raises(InputError, match=r"Owner\(part=3\): give a Kind"):
        check_slots(Owner(3), part=Kind)
