"""What a Flower user sees: his own evaluation, his arrays, a grid in this process, own clients."""

from __future__ import annotations

import pytest
import torch
from apps import make, strategy
from fakes import SIZES, clients, model, same, simulated
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

from fedstep.core.errors import InputError
from fedstep.flower import LocalGrid, ServerOnly, client, client_app


def test_the_apps_own_evaluation_is_asked_for_and_averaged():
    app = client_app(make)

    @app.evaluate()
    def evaluate(message, context):
        state = message.content["arrays"].to_torch_state_dict()
        metrics = {"size": float(sum(v.numel() for v in state.values())), "num-examples": 2}
        return Message(RecordDict({"m": MetricRecord(metrics)}), reply_to=message)

    run = strategy("fedexpsls", fraction_evaluate=1.0)
    here = []
    result = run.start(
        LocalGrid(app, len(SIZES)),
        num_rounds=2,
        evaluate_fn=lambda round, arrays: here.append(round),
    )
    assert dict(result.evaluate_metrics_clientapp[2]) == {"size": 57.0}
    assert here == [0, 1, 2]
    assert result.train_metrics_clientapp[1]["clients"] == 4


def test_clients_without_evaluation_are_asked_once_and_no_more():
    run = strategy("fedexpsls", fraction_evaluate=1.0)
    result = run.start(LocalGrid(client_app(make), len(SIZES)), num_rounds=2)
    assert run.evaluation.given_up
    assert not result.evaluate_metrics_clientapp


def test_training_begins_at_the_given_arrays():
    state = {name: value + 1 for name, value in model().module.state_dict().items()}
    run = strategy("fedavg(step=0)")
    arrays = ArrayRecord(state)
    result = run.start(LocalGrid(client_app(make), len(SIZES)), arrays, num_rounds=1)
    for name, value in result.arrays.to_torch_state_dict().items():
        assert torch.equal(value, state[name])
    with pytest.raises(InputError, match="initial_arrays do not fit the model"):
        run.start(LocalGrid(client_app(make), len(SIZES)), ArrayRecord({"a": torch.ones(1)}))


@pytest.mark.parametrize("method", ["scaffold", "fedlin"])
def test_a_server_killed_between_rounds_goes_on_to_the_same_bits(method, tmp_path):
    class KilledError(Exception):
        pass

    def stop(round, arrays):
        if round == 2:
            raise KilledError

    server, _ = simulated(method)
    app = client_app(make, memory=tmp_path / "nodes")
    first = strategy(method, out=tmp_path / "run")
    with pytest.raises(KilledError):
        first.start(LocalGrid(app, len(SIZES)), num_rounds=3, evaluate_fn=stop)
    second = strategy(method, out=tmp_path / "run")
    second.start(LocalGrid(app, len(SIZES)), num_rounds=3)
    assert same(second.server, server)
    assert [row.round for row in second.rows] == [1, 2, 3]
    # the page offers what makes the run again, which is not `fit`
    page = (tmp_path / "run" / "report.html").read_text()
    assert ".start(grid, num_rounds=3)" in page


def own_app():
    """Client code as in Flower's own examples."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        net = model().module
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        x, y = clients()[int(context.node_config["partition-id"])]
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        state = net.state_dict()
        if context.node_config.get("bad"):
            state = {name: value * float("nan") for name, value in state.items()}
        content = RecordDict(
            {
                "arrays": ArrayRecord(state),
                "metrics": MetricRecord({"num-examples": len(y)}),
            }
        )
        return Message(content, reply_to=message)

    return app


def start(run, nodes=len(SIZES), rounds=2):
    arrays = ArrayRecord(model().module.state_dict())
    result = run.start(LocalGrid(own_app(), nodes), arrays, num_rounds=rounds)
    return result.arrays.to_torch_state_dict()


def test_local_grid_runs_any_flower_app_and_server_only_is_its_fedavg():
    settings = {"fraction_evaluate": 0.0}
    flower = start(FedAvg(**settings))
    ours = start(ServerOnly("fedavg(weighting=BySamples())", model().module, **settings))
    for name, value in flower.items():
        assert torch.allclose(ours[name], value.float(), atol=1e-6)


def test_server_only_takes_the_servers_step_and_refuses_what_is_not_finite():
    method = "fedavg(server=Step(step=2))"
    nodes = [{"partition-id": k} for k in range(5)]
    good = ServerOnly(method, model().module, fraction_evaluate=0.0)
    start(good, nodes)
    assert float(good.server.eta_g) == 2
    bad = ServerOnly(method, model().module, fraction_evaluate=0.0)
    start(bad, [*nodes, {"partition-id": 5, "bad": 1}])
    assert bad.rejected == {1: 1, 2: 1}
    assert torch.equal(bad.server.x, good.server.x)


def test_server_only_does_not_wait_for_nodes_without_end():
    # Flower's own strategy would look for a second node for ever
    run = ServerOnly("fedexp", model().module, patience=0.0)
    with pytest.raises(InputError, match="1 nodes after 0 s, more are needed"):
        start(run, nodes=1)


@pytest.mark.parametrize("method", ["scaffold", "fedlin", "fedcams"])
def test_server_only_refuses_methods_whose_clients_do_more(method):
    with pytest.raises(InputError, match="use FedStep and client_app"):
        ServerOnly(method, model().module)


def test_a_local_grid_leaves_the_name_of_the_task_that_it_is_made_in(monkeypatch):
    monkeypatch.setattr(TaskIdentity, "_run_id", 77)
    monkeypatch.setattr(TaskIdentity, "_node_id", None)
    grid = LocalGrid(client_app(make), len(SIZES))
    assert (TaskIdentity.run_id, TaskIdentity.node_id) == (77, 1)
    run = strategy("fedavg")
    run.start(grid, num_rounds=1)
    assert run.rows[0].clients > 0


@pytest.mark.parametrize(("limit", "builds"), [(10**9, len(SIZES)), (1, 3 * len(SIZES))])
def test_nodes_are_kept_between_messages_as_far_as_memory_allows(limit, builds, monkeypatch):
    monkeypatch.setattr(client, "KEPT_BYTES", limit)
    built = []

    def counted(context):
        built.append(context.node_config["partition-id"])
        return make(context)

    run = strategy("fedavg(step=0.1)", per_round=len(SIZES))
    # asked who they are, and for two rounds
    run.start(LocalGrid(client_app(counted), len(SIZES)), num_rounds=2)
    assert len(built) == builds
    assert len(client._NODES) >= 1
