"""Methods as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedstep import InputError, authors, build, zoo
from fedstep.server.readouts import Tail
from fedstep.server.weighting import BySamples
from fedstep.spec import methods
from fedstep.steps.overshoot import Overshoot
from fedstep.steps.pace import Pace
from fedstep.steps.resets import Grow, Restart


def test_a_name_alone_is_the_method_with_its_defaults():
    for name, constructor in methods().items():
        assert build(name) == constructor()


def test_arguments_and_parts_arrive():
    assert build("fedsls(c=0.5, reset=Restart())") == zoo.fedsls(c=0.5, reset=Restart())
    assert build("authors.fedsls(start=3.0, reset=Grow(factor=2.0, per=10))") == authors.fedsls(
        start=3.0, reset=Grow(2.0, 10)
    )
    assert build("fedexpsls(max_server_step=inf)") == zoo.fedexpsls()


def test_a_kind_of_which_there_is_one_has_a_name_too():
    step = build("fedpace(step=CommonStep(pace=Pace(gain=0.1), overshoot=Overshoot(every=2)))")
    assert step.local.step == replace(
        build("fedpace").local.step, pace=Pace(gain=0.1), overshoot=Overshoot(every=2)
    )


def test_every_method_takes_a_readout_and_a_weighting():
    for name in methods():
        made = build(f"{name}(readout=Tail(fraction=0.5), weighting=BySamples())")
        assert made.readout == Tail(0.5)
        assert made.weighting == BySamples()
        assert made.local == build(name).local


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fedsls(c='x')", "fedsls"),
        ("fedsls(readout=3)", "give a part such as Last"),
        ("fedsls(readout=Tial())", "did you mean Tail"),
        ("__import__('os').system('true')", "name every argument|unknown method"),
        ("fedsls(c=__import__('os'))", "name every argument"),
        ("fedsls(c=os.system(command='true'))", "unknown part"),
        ("(1).__class__", "unknown method"),
        ("", "not a method"),
    ],
)
def test_nothing_else_is_run(text, message):
    with pytest.raises(InputError, match=message):
        build(text)
