"""FedSLS, FedExpSLS and their baselines as the published programs compute them."""

from __future__ import annotations

import pytest
import torch
from programs import close, program

from fedstep import authors
from fedstep.execute import Cohort, Sequential, Store
from fedstep.steps.resets import Keep, Restart

PAINLESS = {
    "fedavg": (authors.fedavg(), 50),
    "fedexp": (authors.fedexp(), 50),
    "fedprox": (authors.fedprox(mu=0.0), 50),
    "fedprox(exp)": (authors.fedprox_exp(mu=0.0), 50),
    "fedsls/defaults": (authors.fedsls(), 50),
    "fedsls/minibatch4_inorder": (authors.fedsls(), 4),
    "fedsls/c0.1_reset0": (authors.fedsls(reset=Keep()), 50),
    "fedexpsls/defaults": (authors.fedexpsls(), 50),
    "fedexpsls/c0.5_reset2_init10": (authors.fedexpsls(c=0.5, start=10.0, reset=Restart()), 50),
}
FEDEXP = {
    "fedavg": authors.fedavg(0.1, decay=0.998),
    "fedexp": authors.fedexp(0.1, eps=0.1, decay=0.998),
    "fedprox": authors.fedprox(0.1, mu=0.001),
    "fedprox(exp)": authors.fedprox_exp(0.1, mu=0.001, eps=0.1),
    "fedadagrad": authors.fedadagrad(),
    "fedadam": authors.fedadam(),
    "fedavgm": authors.fedavgm(),
    "fedavg/override": authors.fedavg(0.5, decay=0.998),
    "fedexp/override": authors.fedexp(0.5, eps=1e-4, decay=0.998),
    "fedprox/override": authors.fedprox(0.5, mu=0.001),
    "fedprox(exp)/override": authors.fedprox_exp(0.5, mu=0.001, eps=1e-4),
    "fedadagrad/override": authors.fedadagrad(0.5),
    "fedadam/override": authors.fedadam(0.5),
    "fedavgm/override": authors.fedavgm(0.5),
}


def follow(simulation, rounds):
    """Run along the recorded rounds; returns the clients' traces in order."""
    traces = []
    server, store = simulation.begin(len(rounds)), Store()
    for row in rounds:
        sent = simulation.task.algorithm.broadcast(server)
        for update in simulation.executor(simulation.task, sent, row["ind"], store):
            traces.append(update.trace)
        server, _ = next(simulation.run(server, Store(), server.round + 1))
        close(server.x, row["w"])
        close(server.readout, row["w_eval"])
        close(server.eta_g, row["eta_g"])
    return traces


@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
@pytest.mark.parametrize("name", PAINLESS)
def test_painless_program_is_reproduced_with_equal_trials(oracle, name, executor):
    data = oracle("fedsls_fedexpsls_server")
    if name not in data["runs"]:
        pytest.skip("not in the extract")
    algorithm, batch = PAINLESS[name]
    run = data["runs"][name]
    traces = follow(program(data, algorithm, batch, executor), run["rounds"])
    if "clients" in run:
        sizes = torch.cat([t.sizes.reshape(-1, 5) for t in traces])
        trials = torch.cat([t.trials.reshape(-1, 5) for t in traces])
        close(sizes, [c["steps"] for c in run["clients"]])
        assert trials.tolist() == [c["trials"] for c in run["clients"]]


@pytest.mark.parametrize("name", FEDEXP)
def test_fedexp_program_is_reproduced(oracle, name):
    data = oracle("fedexp_main_server")
    if name not in data["runs"]:
        pytest.skip("not in these files")
    follow(program(data, FEDEXP[name]), data["runs"][name])
