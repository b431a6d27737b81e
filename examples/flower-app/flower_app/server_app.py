"""The server: Flower's own loop is replaced by FedStep's, everything else stays."""

from __future__ import annotations

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedstep.flower import FedStep
from flower_app.task import net

app = ServerApp()


def strategy(config) -> FedStep:
    """From the settings of pyproject.toml, or of `flwr run -c`."""
    return FedStep(
        str(config["method"]),
        net(),
        clients=int(config["clients"]),
        batch=50,
        local_steps=5,
        timeout=float(config["timeout"]),
        quorum=float(config["quorum"]),
        patience=float(config["patience"]),
        out=str(config["out"]) or None,
        fraction_evaluate=0.0,
    )


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One run; started again with the same `out` it goes on where it was."""
    run = strategy(context.run_config)
    run.start(grid, num_rounds=int(context.run_config["rounds"]))
    for row in run.rows:
        print(f"round {row.round}: clients {row.clients}, refused {row.rejected}", flush=True)
