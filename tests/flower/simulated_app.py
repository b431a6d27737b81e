"""Several methods, one after another, in one simulation of Flower: `simulated_app.py FOLDER`.

A program of its own: Flower's simulation starts Ray, which reads its settings when it is imported.
"""

from __future__ import annotations

import sys
from pathlib import Path

import safetensors.torch
from apps import make_several, strategy
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

from fedstep.flower import client_app

# a line search, memories on the nodes, two exchanges a round, a codec
METHODS = ("fedexpsls", "scaffold", "fedlin", "fedcams", "fedpace")
NODES = 3  # of two clients each
ROUNDS = 3


def main(folder):
    app = ServerApp()

    @app.main()
    def run(grid, context):
        for method in METHODS:
            made = strategy(method, patience=60.0)
            made.start(grid, num_rounds=ROUNDS)
            rows = [{**row.to_dict(), "seconds": 0.0} for row in made.rows]
            (folder / f"{method}.txt").write_text(str(rows))
            # copies: most methods read out the last iterate, and one tensor is not saved twice
            state = {"x": made.server.x.clone(), "readout": made.server.readout.clone()}
            safetensors.torch.save_file(state, folder / f"{method}.safetensors")

    config = {
        "init_args": {"num_cpus": 2, "include_dashboard": False},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    run_simulation(app, client_app(make_several), NODES, backend_config=config)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
