"""One hostile client of ten costs at most two points: benchmarks/attacks.py makes the table of docs/trust.md."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from attacks import ATTACKS, MESSAGES, METHODS, TABLES, accuracy, finished, table

GUARD = "NormLimit()"
POINTS = 2.0


def test_a_delta_a_million_times_too_long_is_harmless():
    honest = accuracy("fedavg(step=0.5)", "Open()", "none", seed=0, rounds=10)
    taken = accuracy("fedavg(step=0.5)", "Open()", "x 1e6", seed=0, rounds=10)
    guarded = accuracy("fedavg(step=0.5)", GUARD, "x 1e6", seed=0, rounds=10)
    assert taken < honest - 10
    assert guarded > honest - POINTS


def test_the_tables_of_the_documents_are_those_of_the_results(capsys):
    scores = finished(fresh=False)
    for methods, attacks, guards in TABLES:
        table(methods, attacks, guards, scores)
    text = (Path(__file__).parents[2] / "docs" / "trust.md").read_text()
    for line in capsys.readouterr().out.splitlines():
        assert line in text


@pytest.mark.slow
@pytest.mark.parametrize("attack", [attack for attack in MESSAGES if attack != "none"])
def test_one_message_of_ten_costs_at_most_two_points(attack):
    honest = accuracy("fedpace", "Open()", "none", seed=0, rounds=30)
    assert accuracy("fedpace", GUARD, attack, seed=0, rounds=30) > honest - POINTS


@pytest.mark.slow
@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if attack != "none"])
@pytest.mark.parametrize("method", METHODS)
def test_one_attacker_of_ten_costs_at_most_two_points(method, attack):
    honest = accuracy(method, "Open()", "none", seed=0, rounds=30)
    assert accuracy(method, GUARD, attack, seed=0, rounds=30) > honest - POINTS
