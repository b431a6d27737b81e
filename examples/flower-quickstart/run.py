"""Run an app of this folder with four clients: `python run.py after`, or `before`.

In this process, on a `LocalGrid`; with `--simulation` in Flower's simulation, on Ray.
"""

from __future__ import annotations

import sys
from importlib import import_module

from flwr.app import Context, RecordDict

from fedstep.flower import LocalGrid

CLIENTS = 4


def main(name: str, simulation: bool) -> None:
    """One run; the app prints what it comes to."""
    app = import_module(name)
    if simulation:
        # here: it needs Ray, which Flower brings along on request alone
        from flwr.simulation import run_simulation

        run_simulation(app.server, app.client, CLIENTS)
        return
    context = Context(1, 1, node_config={}, state=RecordDict(), run_config={})
    app.server(LocalGrid(app.client, CLIENTS), context)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--simulation"]
    if arguments not in (["before"], ["after"]):
        sys.exit("python run.py before|after [--simulation]")
    main(arguments[0], "--simulation" in sys.argv)
