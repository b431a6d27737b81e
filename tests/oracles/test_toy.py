"""Figure 1: the authors' scripts and the algorithm as printed."""

from __future__ import annotations

import pytest
from programs import close

from fedstep import zoo
from fedstep.paper import toy
from fedstep.steps.resets import Grow, Keep, Restart

NAMES = {"fedavg": "FedAvg", "fedexp": "FedExP", "fedsls": "FedSLS", "fedexpsls": "FedExpSLS"}


@pytest.mark.parametrize("name", NAMES)
def test_authors_scripts_are_reproduced(oracle, name):
    run = oracle("toy_fig1_authors")["runs"][name]
    walk = toy.walk(name, toy.authors()[NAMES[name]], len(run["w"]))
    close(walk.points[1:], run["w"], 1e-12)
    close(walk.values[1:], run["F"], 1e-12)
    for client in (0, 1):
        recorded = run[f"steps{client + 1}"]
        if recorded:
            close([s for r in walk.sizes for s in r[client]], recorded)
    if run["eta_g"]:
        close(walk.eta_g, run["eta_g"])


def literal(name, s):
    reset = (Keep(), Restart(), Grow(s["delta"], per=1 / s["ratio"]))[s["opt"]]
    search = {"c": s["c"], "shrink": s["beta"], "max_step": s["emax"], "reset": reset}
    if name.startswith("fedsls"):
        return zoo.fedsls(**search, server_step=s["eta_g"])
    return zoo.fedexpsls(**search, eps=s["eps"], max_server_step=s.get("eta_g_max", float("inf")))


def test_printed_algorithm_is_reproduced_with_equal_trials(oracle):
    for name, run in oracle("toy_paper_literal_derived")["runs"].items():
        assert run["settings"]["K"] == toy.LOCAL_STEPS
        walk = toy.walk(name, literal(name, run["settings"]), len(run["rounds"]))
        for t, row in enumerate(run["rounds"]):
            close(walk.points[t + 1], row["w"])
            close(walk.values[t + 1], row["F"])
            assert walk.eta_g[t] == pytest.approx(row["eta_g"], rel=1e-9)
            assert walk.trials[t] == row["trials"]
            for client in (
                0,
                1,
            ):  # a step without trials is one that was not taken: the client was at its minimum
                taken = [k for k in range(10) if row["trials"][client][k]]
                close(
                    [walk.sizes[t][client][k] for k in taken],
                    [row["steps"][client][k] for k in taken],
                )


@pytest.mark.parametrize("mode", [toy.authors, toy.literal])
def test_ranking_of_figure_one_holds_against_the_step_it_was_drawn_with(mode):
    final = {name: toy.walk(name, alg).values[-1] for name, alg in mode().items()}
    assert final["FedExpSLS"] < final["FedExP"] < final["FedSLS"] < final["FedAvg"]


def test_ranking_of_figure_one_does_not_hold_against_a_tuned_step():
    final = {name: toy.walk(name, alg).values[-1] for name, alg in toy.baselines().items()}
    sls = {name: toy.walk(name, alg).values[-1] for name, alg in toy.literal().items()}
    assert final["FedAvg, step 0.1"] < sls["FedSLS"]
    assert final["FedExP, step 0.1"] < sls["FedExpSLS"]
