"""Flower's own simulation, on Ray: the bits and rows of `Sequential` in one process."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import pytest
import safetensors.torch
import torch
from apps import make, make_several, strategy
from fakes import SIZES, simulated
from simulated_app import (
    METHODS,
    NODES,
    PRIVATE_SETTINGS,
    ROUNDS,
    SECURE_METHODS,
    SECURE_SETTINGS,
    leaves,
)

from fedstep.flower import LocalGrid, client_app

HERE = Path(__file__).parent
LIMIT = 280  # seconds: half a minute on an idle machine


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the methods came to, all in one simulation: it takes seconds to start."""
    return simulate(tmp_path_factory.mktemp("simulation"))


@pytest.fixture(scope="module")
def secure_folder(tmp_path_factory):
    """The same with secure sums, and a node that leaves."""
    return simulate(tmp_path_factory.mktemp("secure"), "secure")


def simulate(made, *arguments):
    if find_spec("ray") is None:
        pytest.skip("Flower's simulation needs Ray: pip install 'flwr[simulation]'")
    token = made / "token"
    token.write_text(uuid4().hex * 2)
    environment = {
        **os.environ,
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent / "remote")]),
        "FLWR_HOME": str(made / "flwr"),
        "RAY_ADDRESS": "local",  # Flower would join any cluster that this machine has
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # listens on loopback alone
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_worker_niceness": "0",
    }
    log = made / "log.txt"
    program = [sys.executable, str(HERE / "simulated_app.py"), str(made), *arguments]
    with log.open("w") as file:
        try:
            subprocess.run(program, env=environment, stdout=file, stderr=file, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            # Flower's simulation does not end by itself where its Ray has failed
            pytest.fail(f"not done after {LIMIT} s: {log.read_text()[-3000:]}")
    return made


@pytest.mark.parametrize("method", METHODS)
def test_the_bits_and_rows_are_those_of_one_process(method, folder):
    server, rows = simulated(method, ROUNDS)
    there = safetensors.torch.load_file(folder / f"{method}.safetensors")
    assert torch.equal(there["x"], server.x)
    assert torch.equal(there["readout"], server.readout)
    assert (folder / f"{method}.txt").read_text() == rows


def test_a_private_run_has_the_noise_of_one_process_and_says_its_epsilon(folder):
    here = strategy("fedexpsls", **PRIVATE_SETTINGS)
    here.start(LocalGrid(client_app(make_several), NODES), num_rounds=ROUNDS)
    there = safetensors.torch.load_file(folder / "private-fedexpsls.safetensors")
    assert torch.equal(there["x"], here.server.x)
    page = (folder / "private" / "report.html").read_text()
    # the sentence needs an accountant, which is an extra
    if find_spec("dp_accounting") is not None:
        assert "user-level differential privacy of the model after 3 rounds" in page


@pytest.mark.parametrize("method", SECURE_METHODS)
def test_secure_sums_are_those_of_who_stayed(method, secure_folder):
    # in this process, with masks too: whole numbers are summed, so all bits are the same
    here = strategy(method, secure=True, **SECURE_SETTINGS)
    app = client_app(make, mods=[leaves], secure=True)
    here.start(LocalGrid(app, len(SIZES)), num_rounds=ROUNDS)
    there = safetensors.torch.load_file(secure_folder / f"secure-{method}.safetensors")
    assert torch.equal(there["x"], here.server.x)
    assert [(row.clients, row.missing) for row in here.rows] == [(5, 1)] * ROUNDS
    rows = (secure_folder / f"secure-{method}.txt").read_text()
    assert rows.count("'clients': 5") == rows.count("'missing': 1") == ROUNDS
