"""Secure sums in a deployment: a SuperLink and three SuperNodes of two clients each on loopback."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch
from apps import make_several, strategy
from fakes import SIZES

from fedstep.flower import LocalGrid, client_app

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "flower-app"
NODES = 3
ROUNDS = 2
LIMIT = 1200.0  # seconds for all of it: every stage of a round starts a process on every node
SETTINGS = dict(guard=False, secure=True, per_round=len(SIZES), patience=300.0, timeout=240.0)
PROJECT = """
[project]
name = "secure-app"
version = "0.1.0"
description = "Secure sums"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "fedstep"

[tool.flwr.app.components]
serverapp = "secure_app:server"
clientapp = "secure_app:client"

[tool.flwr.app.config]
out = ""
"""
APP = f"""
from apps import make_several, strategy
from flwr.serverapp import ServerApp

from fedstep.flower import client_app

client = client_app(make_several, secure=True)
server = ServerApp()


@server.main()
def main(grid, context):
    run = strategy("fedexpsls", out=context.run_config["out"], **{SETTINGS!r})
    run.start(grid, num_rounds={ROUNDS})
"""


def start_all(children, deploy, app, out):
    port = deploy.free_port()
    home = Path(children.environment["FLWR_HOME"])
    home.mkdir()
    address = f'address = "127.0.0.1:{port}"\ninsecure = true\n'
    (home / "config.toml").write_text(f"[superlink.link]\n{address}")
    children.start(
        "superlink", "flower-superlink", "--host", "127.0.0.1", "--port", str(port), "--insecure",
        "--disable-runtime-dependency-installation", "--database", ":flwr-in-memory:",
    )  # fmt: skip
    children.until("the SuperLink", lambda: deploy.answers(port))
    for node in range(NODES):
        children.start(
            f"node-{node}", "flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}",
            "--host", "127.0.0.1", "--port", str(deploy.free_port()),
            "--node-config", f"partition-id={node} num-partitions={NODES}",
        )  # fmt: skip
    children.start("run", "flwr", "run", str(app), "link", "--stream", "-c", f'out="{out}"')


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_secure_sums_of_a_deployment_are_those_of_one_process(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import deploy

    app = tmp_path / "app"
    app.mkdir()
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "secure_app.py").write_text(APP)
    out = tmp_path / "run"
    environment = deploy.environment(tmp_path / "flwr")
    places = [ROOT / "src", ROOT / "tests" / "flower", ROOT / "tests" / "remote"]
    environment["PYTHONPATH"] = os.pathsep.join(map(str, places))
    children = deploy.Children(tmp_path, environment)
    children.end = time.monotonic() + LIMIT
    try:
        start_all(children, deploy, app, out)
        children.until("the end", lambda: (out / "done.json").exists())
    finally:
        children.close()
        sys.modules.pop("deploy")
    here = strategy("fedexpsls", **SETTINGS)
    here.start(LocalGrid(client_app(make_several, secure=True), NODES), num_rounds=ROUNDS)
    there = safetensors.torch.load_file(out / "model.safetensors")
    expected = here.model.load(here.server.readout).state_dict()
    assert set(there) == set(expected)
    assert all(torch.equal(there[name], value) for name, value in expected.items())
    rows = (out / "rounds.jsonl").read_text().splitlines()
    assert len(rows) == ROUNDS
