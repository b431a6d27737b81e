"""A deployment on loopback, with what goes wrong in real ones: `make deploy-demo`.

A SuperLink with TLS, four SuperNodes with registered keys and one stranger. The stranger is
refused, one node sends garbage, one node is killed and started again, the ServerApp is killed and
the run resumed. It must end with the bits of the same app in this process.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import safetensors.torch
import torch
from certificates import write_certificates, write_node_key

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
CLIENTS = 4
GARBAGE = 3  # the client whose node sends nonsense
KILLED = 1  # the client whose node is killed
ROUNDS = 4
TIMEOUT = 240.0  # seconds a node has: on a busy machine its process takes a minute to start
PATIENCE = 900.0
LIMIT = 1500.0  # seconds for all of it: every wait below ends with it


class Children:
    """Processes that were started here, ended by their own ids."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.processes: list[subprocess.Popen] = []
        self.end = time.monotonic() + LIMIT

    def start(self, name: str, *command: str, **more: str) -> subprocess.Popen:
        log = (self.folder / f"{name}.log").open("a")
        program = str(BIN / command[0])
        environment = {**self.environment, **more}
        process = subprocess.Popen(
            [program, *command[1:]], stdout=log, stderr=log, env=environment, cwd=self.folder
        )
        self.processes.append(process)
        return process

    def run(self, name: str, *command: str) -> int:
        """A command that ends by itself."""
        return self.wait(name, self.start(name, *command))

    def wait(self, name: str, process: subprocess.Popen) -> int:
        try:
            return process.wait(max(1.0, self.end - time.monotonic()))
        except subprocess.TimeoutExpired:
            sys.exit(f"{name}: not done after {LIMIT:g} s; see {self.folder}/{name}.log")

    def until(self, what: str, done) -> None:
        """Look every half second until it is so."""
        while not done():
            if time.monotonic() > self.end:
                sys.exit(f"waited {LIMIT:g} s for {what}; the logs are in {self.folder}")
            time.sleep(0.5)

    def close(self) -> None:
        everyone = []
        for process in self.processes:
            everyone += [process.pid, *descendants(process.pid)]
        for pid in everyone:
            end(pid, signal.SIGTERM)
        deadline = time.monotonic() + 10
        for process in self.processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        for pid in everyone:
            end(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()


def end(pid: int, how: signal.Signals) -> None:
    """Send a signal to one process, if it is still there."""
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return


def descendants(pid: int) -> list[int]:
    """Children of a process, their children and so on."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(path.parent.name)
            found += [child, *descendants(child)]
    return found


def command_of(pid: int) -> str:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def free_port() -> int:
    """A port of loopback that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port: int) -> bool:
    """Whether somebody listens on this port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def rounds_done(out: Path) -> int:
    """Rounds whose row is written."""
    path = out / "rounds.jsonl"
    if not path.exists():
        return 0
    return path.read_bytes().count(b"\n")


def say(text: str) -> None:
    """One line of what has happened."""
    print(f"deploy-demo: {text}", flush=True)


def environment(home: Path) -> dict[str, str]:
    """No proxy (it would be asked for loopback), no telemetry, a home of its own."""
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return {
        **kept,
        "PATH": f"{BIN}{os.pathsep}{kept.get('PATH', '')}",  # Flower starts its own programs
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(HERE),
    }


def start_link(children: Children, port: int, tls: Path) -> None:
    """The SuperLink, with TLS and nodes that must be registered."""
    children.start(
        "superlink", "flower-superlink", "--host", "127.0.0.1", "--port", str(port),
        "--ssl-ca-certfile", str(tls / "ca.crt"), "--ssl-certfile", str(tls / "server.pem"),
        "--ssl-keyfile", str(tls / "server.key"), "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
        "--database", str(children.folder / "link.db"),
    )  # fmt: skip
    children.until("the SuperLink", lambda: answers(port))


def start_node(children: Children, name: str, client: int, port: int, tls: Path):
    """A SuperNode with its key; its memories are in a folder of its own."""
    config = f"partition-id={client} num-partitions={CLIENTS}"
    if client == GARBAGE:
        config += " garbage=1"
    return children.start(
        name, "flower-supernode", "--root-certificates", str(tls / "ca.crt"),
        "--superlink", f"127.0.0.1:{port}",
        "--auth-supernode-private-key", str(tls / name),
        "--host", "127.0.0.1", "--port", str(free_port()), "--node-config", config,
        NODE_MEMORY=str(children.folder / f"memory-{client}"),
    )  # fmt: skip


def start_run(children: Children, name: str, out: Path):
    """`flwr run`, which sends the app to the link and shows what it says."""
    settings = f'rounds={ROUNDS} out="{out}" timeout={TIMEOUT} patience={PATIENCE}'
    return children.start(name, "flwr", "run", str(HERE), "link", "--stream", "-c", settings)


def kill_server_app(children: Children) -> bool:
    """SIGKILL to the process of the ServerApp, by its id."""
    for process in children.processes:
        for pid in descendants(process.pid):
            if "flwr-serverapp" in command_of(pid):
                end(pid, signal.SIGKILL)
                return True
    return False


def reference(folder: Path) -> dict[str, torch.Tensor]:
    """The same app in this process, the garbage included."""
    os.environ["NODE_MEMORY"] = str(folder / "reference-memory")
    sys.path.insert(0, str(HERE))
    from flower_app.client_app import app
    from flower_app.server_app import strategy

    from fedstep.flower import LocalGrid

    nodes = []
    for client in range(CLIENTS):
        config = {"partition-id": client, "num-partitions": CLIENTS}
        if client == GARBAGE:
            config["garbage"] = 1
        nodes.append(config)
    settings = {"method": "scaffold", "clients": CLIENTS, "timeout": 60.0, "quorum": 0.75}
    run = strategy({**settings, "patience": 1.0, "out": ""})
    result = run.start(LocalGrid(app, nodes), num_rounds=ROUNDS)
    return dict(result.arrays.to_torch_state_dict())


def main() -> None:
    """The whole story; exit code 0 only if it ends with the same bits."""
    folder = Path(tempfile.mkdtemp(prefix="fedstep-deploy-"))
    tls = folder / "tls"
    home = folder / "flwr"
    home.mkdir()
    out = folder / "run"
    port = free_port()
    address = f'address = "127.0.0.1:{port}"\nroot-certificates = "{tls / "ca.crt"}"\n'
    (home / "config.toml").write_text(f"[superlink.link]\n{address}")
    write_certificates(tls)
    names = [f"node-{client}" for client in range(CLIENTS)]
    for name in [*names, "stranger"]:
        write_node_key(tls / name)
    children = Children(folder, environment(home))
    try:
        story(children, names, port, tls, out)
        same = safetensors.torch.load_file(out / "model.safetensors")
        expected = reference(folder)
        for name, value in expected.items():
            if not torch.equal(same[name], value):
                sys.exit(f"deploy-demo: {name} differs from the run in one process")
        say(f"same bits as in one process; report: {out / 'report.html'}")
    finally:
        children.close()


def story(children: Children, names: list[str], port: int, tls: Path, out: Path) -> None:
    """What happens, in order."""
    start_link(children, port, tls)
    say(f"SuperLink with TLS on 127.0.0.1:{port}")
    for name in names:
        children.run("register", "flwr", "supernode", "register", f"{tls / name}.pub", "link")
    nodes = [start_node(children, name, k, port, tls) for k, name in enumerate(names)]
    stranger = start_node(children, "stranger", 0, port, tls)
    first = start_run(children, "run-1", out)
    code = children.wait("stranger", stranger)
    say(f"a node with an unknown key was refused (exit code {code})")
    if code == 0:
        sys.exit("deploy-demo: the stranger was not refused")
    children.until("round 1", lambda: rounds_done(out) >= 1)
    say("round 1 done; now a node is killed and started again")
    for pid in [nodes[KILLED].pid, *descendants(nodes[KILLED].pid)]:
        end(pid, signal.SIGKILL)
    supervised = [start_node(children, names[KILLED], KILLED, port, tls)]

    def round_2() -> bool:
        # refused while the link still believes in the one that was killed: started again, as any
        # supervisor of services does
        if supervised[-1].poll() is not None:
            time.sleep(5)
            supervised.append(start_node(children, names[KILLED], KILLED, port, tls))
        return rounds_done(out) >= 2

    children.until("round 2", round_2)
    say("round 2 done; now the ServerApp is killed")
    if not kill_server_app(children):
        sys.exit("deploy-demo: no process of the ServerApp was found")
    end(first.pid, signal.SIGTERM)  # it would wait for a run that nobody ends
    start_run(children, "run-2", out)
    children.until("the end", lambda: (out / "done.json").exists())
    children.until("the report", lambda: (out / "report.html").exists())
    say(f"all {ROUNDS} rounds are done")


if __name__ == "__main__":
    main()
