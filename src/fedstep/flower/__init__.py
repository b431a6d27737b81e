"""Flower carries the rounds: a Strategy, a ClientApp, and a grid in this process (extra `flower`).

    from fedstep.flower import FedStep, client_app

An existing Flower app changes three lines: this import, `FedAvg(...)` to
`FedStep("fedexpsls", Net())`, and `ClientApp()` with its train function to `client_app(make)`.
"""

from fedstep.flower.client import client_app
from fedstep.flower.grid import LocalGrid
from fedstep.flower.server_only import ServerOnly
from fedstep.flower.strategy import FedStep

__all__ = ["FedStep", "LocalGrid", "ServerOnly", "client_app"]
