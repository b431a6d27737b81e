"""kill -9 at random moments of a deployment: `python kills.py node 20` or `python kills.py server 20`.

A SuperLink and two SuperNodes on loopback run SCAFFOLD. After every round, at a random moment of
the next one, a SuperNode or the ServerApp is killed and started again. The run must end with the
bits of the same app in one process.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import deploy
import safetensors.torch
import torch
from deploy import Children, answers, descendants, end, free_port, rounds_done

CLIENTS = 2
TIMEOUT = 240.0  # seconds a node has for a round: its process may take a minute to start
PATIENCE = 600.0
LONGEST = 20.0  # seconds after the end of a round within which the next death comes
LIMIT = 7200.0  # seconds for all of it


def say(text: str) -> None:
    """One line of what has happened."""
    print(f"kills: {text}", flush=True)


class Federation:
    """A link, its nodes and the command that runs the app."""

    def __init__(self, children: Children, rounds: int) -> None:
        self.children = children
        self.rounds = rounds
        self.port = free_port()
        self.out = children.folder / "run"
        self.nodes = {}
        self.command = None
        self.starts = 0

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
        self.start_run()

    def start_node(self, client: int) -> None:
        self.nodes[client] = self.children.start(
            f"node-{client}", "flower-supernode", "--insecure",
            "--superlink", f"127.0.0.1:{self.port}",
            "--host", "127.0.0.1", "--port", str(free_port()),
            "--node-config", f"partition-id={client} num-partitions={CLIENTS}",
            NODE_MEMORY=str(self.children.folder / f"memory-{client}"),
        )  # fmt: skip

    def start_run(self) -> None:
        self.starts += 1
        settings = (
            f'rounds={self.rounds} clients={CLIENTS} quorum=1.0 out="{self.out}" '
            f"timeout={TIMEOUT} patience={PATIENCE}"
        )
        name = f"run-{self.starts}"
        command = ("flwr", "run", str(deploy.HERE), "link", "--stream", "-c", settings)
        self.command = self.children.start(name, *command)

    def has_gone_on(self, seen: int) -> bool:
        """Whether there is another round, or all; a run that gave up is started again."""
        if (self.out / "done.json").exists():
            return True
        if self.command.poll() is not None:
            say(f"run {self.starts} ended by itself after round {rounds_done(self.out)}")
            self.start_run()
        for client, node in self.nodes.items():
            # as any supervisor of services does: a node gives up where the link is too slow
            if node.poll() is not None:
                say(f"the node of client {client} ended by itself ({node.returncode})")
                self.start_node(client)
        return rounds_done(self.out) > seen

    def kill_node(self, client: int) -> None:
        pid = self.nodes[client].pid
        for each in [pid, *descendants(pid)]:
            end(each, signal.SIGKILL)
        self.start_node(client)

    def kill_server(self) -> bool:
        if not deploy.kill_server_app(self.children):
            return False
        end(self.command.pid, signal.SIGTERM)  # it would wait for a run that nobody ends
        self.start_run()
        return True


def story(federation: Federation, what: str, count: int, random: Random) -> None:
    """The deaths, one a round."""
    begun = time.monotonic()
    federation.start()
    killed = 0
    while killed < count:
        seen = rounds_done(federation.out)
        federation.children.until("a round", lambda seen=seen: federation.has_gone_on(seen))
        pause = random.uniform(0.0, LONGEST)
        time.sleep(pause)
        where = rounds_done(federation.out)
        if what == "node":
            federation.kill_node(random.randrange(CLIENTS))
        elif not federation.kill_server():
            continue  # between two starts: there is nobody to kill
        killed += 1
        seconds = time.monotonic() - begun
        say(f"death {killed} of {count}: {what}, after round {where}, at {seconds:.0f} s")
    federation.children.until("the end", lambda: federation.has_gone_on(federation.rounds))


def reference(folder: Path, rounds: int) -> dict[str, torch.Tensor]:
    """The same app in this process."""
    os.environ["NODE_MEMORY"] = str(folder / "reference-memory")
    sys.path.insert(0, str(deploy.HERE))
    from flower_app.client_app import app
    from flower_app.server_app import strategy

    from fedstep.flower import LocalGrid

    settings = {"method": "scaffold", "clients": CLIENTS, "timeout": 60.0, "quorum": 1.0}
    run = strategy({**settings, "patience": 1.0, "out": ""})
    result = run.start(LocalGrid(app, CLIENTS), num_rounds=rounds)
    return dict(result.arrays.to_torch_state_dict())


def main(what: str, count: int) -> None:
    """Exit code 0 only if the bits are the same."""
    folder = Path(tempfile.mkdtemp(prefix="fedstep-kills-"))
    rounds = count + 3
    children = Children(folder, deploy.environment(folder / "flwr"))
    children.end = time.monotonic() + LIMIT
    federation = Federation(children, rounds)
    begun = time.monotonic()
    # whoever ends this program ends what it has started too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("kills: ended"))
    try:
        story(federation, what, count, Random(0))
        there = safetensors.torch.load_file(federation.out / "model.safetensors")
        for name, value in reference(folder, rounds).items():
            if not torch.equal(there[name], value):
                sys.exit(f"kills: {name} differs from the run in one process; see {folder}")
        seconds = time.monotonic() - begun
        say(f"{count} deaths of a {what} in {rounds} rounds, {seconds:.0f} s: the same bits")
    finally:
        children.close()


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("node", "server"):
        sys.exit("kills.py node|server COUNT")
    main(sys.argv[1], int(sys.argv[2]))
