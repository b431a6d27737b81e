"""Deaths over Flower: a SuperLink and two SuperNodes on loopback, and runs one after the other.

In every round of a run, at a random moment, a process is killed and started again. `server`: the
process of the ServerApp; the same run is started again, and sometimes killed once more while it
starts. `node`: a SuperNode and all that it started; the run itself must go on. A run that is done
must have the model and the rows of one process: its deaths are handed out then, and the next run
begins, on the same link and nodes.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import safetensors.torch
import torch

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "flower-app"
APP = HERE / "app"
sys.path[:0] = [str(EXAMPLE), str(APP)]

import deploy  # noqa: E402
from deploy import Children, answers, command_of, descendants, end, free_port, rounds_done  # noqa: E402

from fedstep.run.journal import Journal  # noqa: E402

CLIENTS = 2
ROUNDS = 4  # of a run
TIMEOUT = 150.0  # seconds a node has for a round: on a busy machine its process takes long to start
PATIENCE = 300.0
LIMIT = 1800.0  # seconds for a run with its deaths
AGAIN = 0.3  # how often a ServerApp that has just been started is killed too

Results = tuple[dict[str, torch.Tensor], list[dict]]


def say(text: str) -> None:
    """One line of what has happened."""
    print(f"kills: {text}", flush=True)


class Federation:
    """A link, its nodes, and the run under way."""

    def __init__(self, folder: Path) -> None:
        environment = deploy.environment(folder / "flwr")
        # the source of this checkout, wherever an older one may be installed
        places = [EXAMPLE, APP, HERE.parents[1] / "src"]
        environment["PYTHONPATH"] = os.pathsep.join(map(str, places))
        # to look for work twenty times a second takes time from those who do it
        environment["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"] = "0.3"
        self.children = Children(folder, environment)
        self.port = free_port()
        self.nodes = {}
        self.command = None
        self.out = folder
        self.given_up = 0  # what ended by itself and was started again

    def start(self) -> None:
        home = Path(self.children.environment["FLWR_HOME"])
        home.mkdir()
        text = f'[superlink.link]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        (home / "config.toml").write_text(text)
        self.children.start(
            "superlink", "flower-superlink", "--host", "127.0.0.1", "--port", str(self.port),
            "--insecure", "--disable-runtime-dependency-installation",
            # in memory: nobody kills the link here, and on a busy machine its file is locked
            "--database", ":flwr-in-memory:",
        )  # fmt: skip
        self.children.until("the SuperLink", lambda: answers(self.port))
        for client in range(CLIENTS):
            self.start_node(client)

    def start_node(self, client: int) -> None:
        self.nodes[client] = self.children.start(
            f"node-{client}", "flower-supernode", "--insecure",
            "--superlink", f"127.0.0.1:{self.port}",
            "--host", "127.0.0.1", "--port", str(free_port()),
            "--node-config", f"partition-id={client} num-partitions={CLIENTS}",
            NODE_MEMORY=str(self.children.folder / f"memory-{client}"),
        )  # fmt: skip

    def start_run(self) -> None:
        settings = (
            f'rounds={ROUNDS} clients={CLIENTS} quorum=1.0 out="{self.out}" '
            f"timeout={TIMEOUT} patience={PATIENCE}"
        )
        command = ("flwr", "run", str(APP), "link", "--stream", "-c", settings)
        self.command = self.children.start(self.out.name, *command)

    def server_app(self) -> int | None:
        """The process of the ServerApp: there is one at most, for runs follow each other."""
        for process in self.children.processes:
            for pid in descendants(process.pid):
                if "flwr-serverapp" in command_of(pid):
                    return pid
        return None

    def kill_server(self) -> bool:
        """Whether there was one to kill."""
        pid = self.server_app()
        if pid is None:
            return False
        end(pid, signal.SIGKILL)
        self.end_command()
        self.start_run()
        return True

    def kill_node(self, client: int) -> None:
        pid = self.nodes[client].pid
        for each in [pid, *descendants(pid)]:
            end(each, signal.SIGKILL)
        self.start_node(client)

    def end_command(self) -> None:
        """`flwr run --stream` would wait for a run that nobody ends."""
        end(self.command.pid, signal.SIGTERM)
        self.children.wait("flwr run", self.command)
        # those that have ended are forgotten: many runs leave many
        running = [process for process in self.children.processes if process.poll() is None]
        self.children.processes = running

    def is_done(self) -> bool:
        """Whether the run is finished, to its last file, and nobody works on it."""
        return (self.out / "report.html").exists() and self.server_app() is None

    def until(self, what: str, done: Callable[[], bool]) -> None:
        """Wait; whatever gave up by itself is started again, as any supervisor does, and said."""

        def look() -> bool:
            if done():
                return True
            self._supervise()
            return False

        self.children.until(what, look)

    def _supervise(self) -> None:
        finished = (self.out / "report.html").exists()
        if self.command.poll() is not None and not finished:
            say(f"{self.out.name} ended by itself after round {rounds_done(self.out)}")
            self.given_up += 1
            self.start_run()
        for client, node in self.nodes.items():
            if node.poll() is not None:
                say(f"the node of client {client} ended by itself ({node.returncode})")
                self.given_up += 1
                self.start_node(client)


def deployment_trials(victim: str, folder: Path, moments: Random, first: int) -> Iterator[dict]:
    """Deaths without end."""
    expected = reference(folder)
    federation = Federation(folder)
    number = first
    run = 0
    try:
        federation.start()
        while True:
            run += 1
            federation.out = folder / f"run-{run}"
            federation.given_up = 0
            deaths = deadly_run(federation, victim, moments)
            same = same_as(expected, federation.out)
            for death in deaths:
                yield {"trial": number, **death, "given_up": federation.given_up, "same": same}
                number += 1
    finally:
        federation.children.close()


def deadly_run(federation: Federation, victim: str, moments: Random) -> list[dict]:
    """A run to its end, with at least one death in every round."""
    federation.children.end = time.monotonic() + LIMIT
    federation.start_run()
    begun = time.monotonic()
    deaths = []
    length = 0.0  # of the last step of the run: a round, or the start with the first round
    while True:
        before = rounds_done(federation.out)
        if before < ROUNDS:
            started = time.monotonic()
            federation.until("the ServerApp", lambda: federation.server_app() is not None)
            # the first step is of unknown length: some of it, then
            moment = moments.uniform(0.0, length or 20.0)
            wait_or_end(federation, moment)
        if federation.is_done():
            break
        where = rounds_done(federation.out)
        if kill(federation, victim, moments):
            seconds = round(time.monotonic() - begun, 1)
            deaths.append({"moment": seconds, "after_round": where})
            say(f"{federation.out.name}: {victim} killed after round {where}, at {seconds} s")
            if victim == "server" and moments.random() < AGAIN:
                deaths += killed_while_starting(federation, moments, begun)
        federation.until(
            "a round",
            lambda where=where: rounds_done(federation.out) > where or federation.is_done(),
        )
        length = min(60.0, time.monotonic() - started)
    federation.end_command()
    for death in deaths:
        death["seconds"] = round(time.monotonic() - begun - death["moment"], 1)
    return deaths


def wait_or_end(federation: Federation, seconds: float) -> None:
    """So long, or until the run is done."""
    end_of_wait = time.monotonic() + seconds
    federation.until("the moment", lambda: time.monotonic() >= end_of_wait or federation.is_done())


def kill(federation: Federation, victim: str, moments: Random) -> bool:
    """Whether somebody was there to be killed."""
    if victim == "server":
        return federation.kill_server()
    federation.kill_node(moments.randrange(CLIENTS))
    return True


def killed_while_starting(federation: Federation, moments: Random, begun: float) -> list[dict]:
    """The ServerApp that was just started again: before its first round, most likely."""
    federation.until("the ServerApp", lambda: federation.server_app() is not None)
    wait_or_end(federation, moments.uniform(0.0, 10.0))
    where = rounds_done(federation.out)
    if not federation.kill_server():
        return []
    seconds = round(time.monotonic() - begun, 1)
    say(f"{federation.out.name}: server killed as it started, at {seconds} s")
    return [{"moment": seconds, "after_round": where}]


def reference(folder: Path) -> Results:
    """Model and rows of the same app in this process."""
    os.environ["NODE_MEMORY"] = str(folder / "reference-memory")
    from flower_app.server_app import strategy
    from synthetic import app

    from fedstep.flower import LocalGrid

    settings = {"method": "scaffold", "clients": CLIENTS, "timeout": 60.0, "quorum": 1.0}
    out = folder / "reference"
    run = strategy({**settings, "patience": 1.0, "out": str(out)})
    run.start(LocalGrid(app, CLIENTS), num_rounds=ROUNDS)
    return results_of(out)


def results_of(out: Path) -> Results:
    """What a run has left: its model, and its rows without the time that they took."""
    model = safetensors.torch.load_file(out / "model.safetensors")
    rows = Journal(out / "rounds.jsonl").rows()
    for row in rows:
        row.pop("seconds")
    return model, rows


def same_as(expected: Results, out: Path) -> bool:
    """Whether a finished run has the bits and rows of one process."""
    model, rows = results_of(out)
    if rows != expected[1] or set(model) != set(expected[0]):
        return False
    return all(torch.equal(model[name], value) for name, value in expected[0].items())
