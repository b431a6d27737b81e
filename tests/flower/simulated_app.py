"""Several methods, one after another, in one simulation of Flower: `simulated_app.py FOLDER`.

With `secure` as a second argument: secure sums, and a node that leaves in every round. A program of
its own: Flower's simulation starts Ray, which reads its settings when it is imported.
"""

from __future__ import annotations

import sys
from pathlib import Path

import safetensors.torch
from apps import make, make_several, strategy
from fakes import SIZES
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

from fedstep.flower import client_app
from fedstep.server import UserPrivacy

# a line search, memories on the nodes, two exchanges a round, a codec
METHODS = ("fedexpsls", "scaffold", "fedlin", "fedcams", "fedpace")
NODES = 3  # of two clients each
ROUNDS = 3


# what only secure sums need to be tried with
SECURE_METHODS = ("fedavg(step=0.1)", "fedsls", "fedexpsls", "fedpace")
SECURE_SETTINGS = dict(guard=False, per_round=len(SIZES))
PRIVATE_SETTINGS = dict(guard=UserPrivacy(noise=0.5, seed=987654321), trace=False)
LEAVES = 3  # the client whose node fails at every order


def leaves(message, context, call_next):
    """A node that is gone when its sum is asked for; its keys are shared by then."""
    if message.metadata.message_type == "train" and context.node_config["partition-id"] == LEAVES:
        raise RuntimeError("gone")
    return call_next(message, context)


def finish(made, grid, folder, name):
    made.start(grid, num_rounds=ROUNDS)
    rows = [{**row.to_dict(), "seconds": 0.0} for row in made.rows]
    (folder / f"{name}.txt").write_text(str(rows))
    # copies: most methods read out the last iterate, and one tensor is not saved twice
    state = {"x": made.server.x.clone(), "readout": made.server.readout.clone()}
    safetensors.torch.save_file(state, folder / f"{name}.safetensors")


def main(folder, secure):
    app = ServerApp()

    @app.main()
    def run(grid, context):
        if not secure:
            for method in METHODS:
                finish(strategy(method, patience=60.0), grid, folder, method)
            out = folder / "private"
            private = strategy("fedexpsls", patience=60.0, out=out, **PRIVATE_SETTINGS)
            finish(private, grid, folder, "private-fedexpsls")
            return
        for method in SECURE_METHODS:
            made = strategy(method, secure=True, patience=60.0, **SECURE_SETTINGS)
            finish(made, grid, folder, f"secure-{method}")

    config = {
        "init_args": {"num_cpus": 2, "include_dashboard": False},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    clients = client_app(make_several)
    nodes = NODES
    if secure:
        clients = client_app(make, mods=[leaves], secure=True)
        nodes = len(SIZES)
    run_simulation(app, clients, nodes, backend_config=config)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] == ["secure"])
