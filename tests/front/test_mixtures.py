"""Mixtures as text: every method takes every slot."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from fedstep import InputError, build, zoo
from fedstep.cli import main
from fedstep.cli.show import differences
from fedstep.cli.study import SHIPPED
from fedstep.local.directions import Chain, Clip, Decay
from fedstep.local.terms import L2, Proximal
from fedstep.server.codecs import Plain
from fedstep.server.moments import Adaptive, Average
from fedstep.server.rules import Extrapolate
from fedstep.server.weighting import BySamples
from fedstep.spec import HOMES, _is_part, _modules, filled, methods, mix, parts, shown
from fedstep.study.study_file import read_study


def test_an_adam_server_over_line_search_clients():
    made = build("fedsls(server=Adaptive(moment=Average(beta=0.9), step=0.03))")
    assert made == replace(zoo.fedsls(), server=Adaptive(Average(0.9), 0.03))


def test_fedprox_with_a_line_search():
    made = build("fedsls(terms=(Proximal(mu=0.1),))")
    assert (
        made
        == build("fedsls(terms=Proximal(mu=0.1))")
        == build("fedprox(mu=0.1, step=LineSearch())")
    )
    assert made.local.terms == (Proximal(0.1),)
    assert made.local.step == zoo.fedsls().local.step


def test_terms_are_added_to_those_of_the_method():
    assert build("fedprox(mu=0.5, terms=L2(weight=0.1))").local.terms == (Proximal(0.5), L2(0.1))


def test_a_step_is_a_number_where_the_method_asks_for_one_and_a_rule_in_any_case():
    assert build("fedavg(step=0.3)") == zoo.fedavg(0.3)
    assert build("fedavg(step=Constant(step=0.3))") == zoo.fedavg(0.3)
    assert build("fedavg(step=LineSearch(condition=Armijo(c=0.3)))") == zoo.fedsls(c=0.3)


def test_every_method_takes_every_slot():
    given = "direction=Chain(parts=(Clip(norm=1.0), Decay())), codec=Plain(), server=Extrapolate(), weighting=BySamples()"
    for name in methods():
        made = build(f"{name}({given})")
        assert made.local.direction == Chain((Clip(1.0), Decay()))
        assert (made.codec, made.server, made.weighting) == (Plain(), Extrapolate(), BySamples())
        assert made.local.step == build(name).local.step


def test_another_solver_can_take_the_place_of_the_clients():
    made = build(
        "fedadam(local=LocalSolver(step=LineSearch(), terms=L2()), direction=Clip(norm=1.0))"
    )
    assert made == build("fedadam(step=LineSearch(), terms=L2(), direction=Clip(norm=1.0))")


@pytest.mark.parametrize("name", methods())
def test_what_list_slots_prints_behind_fedavg_is_the_method(name):
    made = build(name)
    keywords = ", ".join(f"{slot}={part}" for slot, part in differences(made).items())
    assert build(f"fedavg({keywords})") == made


def test_mix_with_its_own_fillers_changes_nothing():
    for name in methods():
        made = build(name)
        assert (
            mix(made, **{slot: filled(made, slot) for slot in shown(made) if slot != "terms"})
            == made
        )


def test_parts_of_a_module_that_spec_has_never_heard_of_can_be_written(tmp_path, monkeypatch):
    from fedstep import steps
    from fedstep.spec import _language

    (tmp_path / "halves.py").write_text(
        "from dataclasses import dataclass\nfrom fedstep.steps.fixed import Constant\n"
        "@dataclass(frozen=True)\nclass Halves(Constant):\n    factor: float = 0.5\n"
    )
    monkeypatch.setattr(steps, "__path__", [*steps.__path__, str(tmp_path)])
    for cached in (parts, _language):
        cached.cache_clear()
    try:
        assert build("fedavg(step=Halves(factor=0.25))").local.step.factor == 0.25
    finally:
        sys.modules.pop("fedstep.steps.halves", None)
        vars(steps).pop("halves", None)
        for cached in (parts, _language):
            cached.cache_clear()


def test_no_two_parts_share_a_name():
    names = [
        n
        for home in HOMES
        for m in _modules(home)
        for n, p in vars(m).items()
        if _is_part(p, m.__name__)
    ]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "fedsls(server=Armijo())",
            r"fedsls\(server=Armijo\(c=0.1\)\): give a part such as Step\(\) \(.*Extrapolate",
        ),
        ("fedsls(server=Extrapolat())", "unknown part 'Extrapolat': did you mean Extrapolate"),
        ("fedsls(step=0.1)", r"give a part such as Constant\(\)"),
        ("fedavg(step='x')", "give a number, or a part such as"),
        ("fedsls(terms=(3,))", r"give a part such as .*Proximal"),
        ("fedsls(terms=Step())", r"give a part such as .*Proximal"),
        ("fedsls(reset=Step())", "give a part such as Grow"),
        ("fedsls(weighting=LastTwo())", "give a part such as Equal"),
        (
            "fedsls(server=Adaptive())",
            r"Adaptive\(\): moment is missing; give a part such as Sum\(\)",
        ),
        ("fedsls(server=Adaptive(moment=Average(), step=-1.0))", "must be positive"),
        ("fedsls(step=LineSearch(trials=1.5))", r"LineSearch\(trials=1.5\): give a whole number"),
        ("fedsls(codecs=Plain())", "did you mean codec"),
        ("fedsls(correction=Trace())", "unknown part"),
    ],
)
def test_a_wrong_filler_is_one_clear_line(text, message):
    with pytest.raises(InputError, match=message) as caught:
        build(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda p: p.stem)
def test_every_method_of_a_shipped_study_can_be_built(path):
    assert read_study(path).methods


def test_list_slots_fits_into_a_hundred_columns():
    done = subprocess.run(
        [sys.executable, "-m", "fedstep.cli", "list", "--slots"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.split() == ["fedprox", "terms=Proximal()"] for line in lines)
    assert {line.split()[0] for line in lines if line[:1].strip()} >= set(methods())


def test_explain_shows_a_mixture(capsys):
    assert main(["explain", "fedexpsls(server=Adaptive(moment=Signed()), terms=L2())"]) == 0
    text = capsys.readouterr().out
    for word in (
        "data loss + L2(weight=0.0001)",
        "Adaptive(moment=Signed(beta=0.99)",
        "codec",
        "Plain",
    ):
        assert word in text
