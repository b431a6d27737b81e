"""The paper's program after May 2025: clipped FedSLS, FedAdam with extrapolation, SCAFFOLD's searches, SEG and acceleration."""

from __future__ import annotations

import copy
import json
from math import inf

import pytest
import torch
from programs import HERE, close, program

from fedstep import InputError, authors
from fedstep.execute import Cohort, Sequential, Store
from fedstep.local.moves import Inertia, Nesterov
from fedstep.steps.resets import Keep, Restart

RULES = {
    "scaffoldsls-new": {"rule": "original"},
    "scaffoldsls-grad": {"rule": "grad_control"},
    "scaffoldsls-noh": {"rule": "no_control_reward"},
    "scaffoldsls-rule3": {"rule": "drift_slack", "slack": 0.5},
    "scaffoldsls-rule3-eta2": {"rule": "quadratic_drift_slack", "slack": 0.5},
    "scaffoldsls-surrogate": {"rule": "surrogate_armijo"},
    "scaffoldsls-rule3/capped": {"rule": "drift_slack", "slack": 0.25, "alpha": 0.3, "cap": 0.5},
    "scaffoldsls-rule3-eta2/keep": {
        "rule": "quadratic_drift_slack",
        "slack": 0.1,
        "alpha": 0.4,
        "reset": Keep(),
    },
    "scaffoldsls-new/restart": {"rule": "original", "reset": Restart()},
    "scaffoldsls-surrogate/restart": {"rule": "surrogate_armijo", "reset": Restart()},
}
RUNS = {
    "fedsls-regularized": authors.fedsls_regularized(),
    "fedsls-regularized/scaled": authors.fedsls_regularized(),
    "fedsls-regularized/wd0.1": authors.fedsls_regularized(weight_decay=0.1),
    "fedexpsls-regularized": authors.fedexpsls_regularized(),
    "fedexpsls-regularized/scaled": authors.fedexpsls_regularized(),
    "fedadamsls": authors.fedadamsls_regularized(),
    "fedadamexpsls": authors.fedadamexpsls_regularized(clip=inf, weight_decay=0.0),
    "fedadamexpsls-regularized": authors.fedadamexpsls_regularized(),
    "fedadamexpsls-scaled-regularized": authors.fedadamexpsls_regularized(server_step=0.1),
    "fedadamexpsls-capped15-regularized": authors.fedadamexpsls_regularized(cap=1.5),
    **{name: authors.scaffold_sls(**settings) for name, settings in RULES.items()},
    "sls_eg": authors.sls_eg(),
    "sls_eg/keep": authors.sls_eg(c=0.5, reset=Keep()),
    "sls_eg/restart": authors.sls_eg(reset=Restart()),
    "sls_acc/polyak": authors.sls_acc(),
    "sls_acc/polyak_restart": authors.sls_acc(c=0.5, move=Inertia(0.9), reset=Restart()),
    "sls_acc/nesterov": authors.sls_acc(move=Nesterov()),
}
RECORDED = json.loads((HERE / "extracts" / "painless_later_program.json").read_text())


def simulation(run, algorithm, executor):
    data = copy.deepcopy(RECORDED)
    for client in data["data"]["clients"]:
        scaled = run["settings"]["scale"] * torch.tensor(client["X"], dtype=torch.float64)
        client["X"] = scaled.tolist()
    return program(data, algorithm, run["settings"]["batch_size"], executor)


def test_every_recorded_run_is_reproduced():
    assert set(RUNS) == set(RECORDED["runs"])


@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
@pytest.mark.parametrize("name", RUNS)
def test_the_later_program_is_reproduced_with_equal_trials(name, executor):
    run = RECORDED["runs"][name]
    sim = simulation(run, RUNS[name], executor)
    server, store, sizes, trials = sim.begin(5), Store(), [], []
    for row in run["rounds"]:
        # the clients' steps are read from another run of the round: the store must not keep it
        sent, aside = sim.task.algorithm.broadcast(server), copy.deepcopy(store)
        for update in sim.executor(sim.task, sent, row["ind"], aside):
            sizes += update.trace.sizes.reshape(-1, 5).tolist()
            trials += update.trace.trials.reshape(-1, 5).tolist()
        server, _ = next(sim.run(server, store, server.round + 1))
        close(server.x, row["w"])
        close(server.readout, row.get("w_eval", row["w"]))
        close(server.eta_g, row["eta_g"])
    assert trials == [client["trials"] for client in run["clients"]]
    # where the program stays it keeps its step, and here none is taken
    wanted = torch.tensor([client["steps"] for client in run["clients"]], dtype=torch.float64)
    close(sizes, torch.where(torch.tensor(trials) > 0, wanted, 0.0))


def test_clipping_and_weight_decay_were_at_work():
    steps = {name: run["rounds"][-1]["w"] for name, run in RECORDED["runs"].items()}
    plain = simulation(
        RECORDED["runs"]["fedsls-regularized/scaled"], authors.fedsls(), Sequential()
    )
    *_, (server, _) = plain.run(plain.begin(5), Store(), 5)
    assert max(abs(server.x - torch.tensor(steps["fedsls-regularized/scaled"]))) > 0.1
    decayed = torch.tensor(steps["fedsls-regularized/wd0.1"])
    assert max(abs(decayed - torch.tensor(steps["fedsls-regularized/scaled"]))) > 0.01


@pytest.mark.parametrize("settings", [{"rule": "orignal"}, {"rule": "drift_slack"}, {"sigma": 0.5}])
def test_an_acceptance_rule_that_the_program_refuses_is_refused(settings):
    with pytest.raises(InputError, match="scaffold_sls"):
        authors.scaffold_sls(**settings)
