"""kill -9 at random moments of a run on Ray: `python tests/cluster/kills.py node|driver COUNT`.

A cluster of two nodes on this machine, SCAFFOLD. `node`: the second node is killed, and another
one joins, while rounds go on. `driver`: the process that runs `fit` is killed and started again
with the same folder. Either must end with the bits of one process.
"""

# ruff: noqa: E402  Ray reads its settings when it is imported

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from random import Random

# before Ray is imported, which reads it then: nothing listens beyond loopback
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "remote")]

import torch
from clusters import two_nodes
from fakes import clients, model

from fedstep import fit
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Sequential, Store, Task
from fedstep.execute.ray import Ray
from fedstep.run.simulate import Simulation
from fedstep.spec import build

MOST_ROUNDS = 100_000
TRIES = 10  # to start a node
LIMIT = 5400.0  # seconds for all of it
SETTINGS = dict(per_round=6, batch=2, local_steps=60, seed=5)


def say(text):
    print(f"kills: {text}", flush=True)


def simulation(executor):
    plan = Plan(batch=2, steps=60)  # long enough to be in the middle of something
    task = Task(build("scaffold"), model(), Federation.of(clients()), plan, 5)
    return Simulation(task, 6, executor=executor)


def after(rounds):
    """The model of one process."""
    alone = simulation(Sequential())
    for server, _ in alone.run(alone.begin(MOST_ROUNDS), Store(), rounds):
        last = server
    return last.x


def kill_nodes(folder, count):
    random = Random(0)
    progress = {"rounds": 0, "deaths": 0}
    with two_nodes(folder) as cluster:
        killer = threading.Thread(target=_kill_nodes, args=(cluster, count, random, progress))
        there = simulation(Ray(Sequential(), workers=2, address=cluster.address))
        with there.executor:
            for server, _ in there.run(there.begin(MOST_ROUNDS), Store(), MOST_ROUNDS):
                progress["rounds"] += 1
                x = server.x
                if progress["rounds"] == 1:
                    killer.start()
                if progress["rounds"] > 1 and not killer.is_alive():
                    break
                if not cluster.worker_nodes:
                    add_node(cluster)  # here: Ray starts nodes in the main thread alone
    if progress["deaths"] < count:
        sys.exit(f"kills: {progress['deaths']} deaths of {count} after {LIMIT:g} s")
    return x, progress["rounds"]


def add_node(cluster):
    """Another node; Ray gives it 30 seconds to start, which a busy machine may not manage."""
    for attempt in range(TRIES):
        try:
            cluster.add_node(num_cpus=1)
            return
        except Exception as error:
            say(f"a node did not start (attempt {attempt + 1}): {str(error)[:80]}")
    sys.exit(f"kills: no node started in {TRIES} attempts")


def _kill_nodes(cluster, count, random, progress):
    end = time.monotonic() + LIMIT
    while progress["deaths"] < count and time.monotonic() < end:
        seen = progress["rounds"]
        while time.monotonic() < end:
            if cluster.worker_nodes and progress["rounds"] > seen:
                break
            time.sleep(0.01)
        time.sleep(random.uniform(0.0, 2.0))
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        progress["deaths"] += 1
        say(f"death {progress['deaths']} of {count}: node, after round {progress['rounds']}")


def run_driver(folder, address, rounds):
    """What is killed: `fit` with a folder, which goes on where it was."""
    executor = Ray(Sequential(), workers=2, address=address)
    fit(model().module, clients(), "scaffold", rounds, out=folder, executor=executor, **SETTINGS)


def rounds_done(folder):
    path = folder / "rounds.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_drivers(folder, count):
    random = Random(0)
    out = folder / "run"
    rounds = 40 * count
    begun = time.monotonic()
    with two_nodes(folder) as cluster:
        command = [sys.executable, __file__, "driven", str(out), cluster.address, str(rounds)]
        for death in range(1, count + 1):
            driver = subprocess.Popen(command)
            seen = rounds_done(out)
            while rounds_done(out) == seen and driver.poll() is None:
                if time.monotonic() - begun > LIMIT:
                    driver.kill()
                    sys.exit(f"kills: {death - 1} deaths of {count} after {LIMIT:g} s")
                time.sleep(0.01)
            time.sleep(random.uniform(0.0, 1.0))
            if driver.poll() is not None:
                sys.exit(f"kills: the driver ended by itself ({driver.returncode}), not killed")
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            say(f"death {death} of {count}: driver, after round {rounds_done(out)} of {rounds}")
        subprocess.run(command, check=True, timeout=LIMIT)
    executor = Sequential()
    here = fit(model().module, clients(), "scaffold", rounds, executor=executor, **SETTINGS)
    there = fit(
        model().module, clients(), "scaffold", rounds, out=out, executor=executor, **SETTINGS
    )
    return torch.equal(here.x, there.x), rounds


def main(what, count):
    folder = Path(tempfile.mkdtemp(prefix="fedstep-kills-"))
    begun = time.monotonic()
    # whoever ends this program ends what it has started too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("kills: ended"))
    if what == "node":
        x, rounds = kill_nodes(folder, count)
        same = torch.equal(x, after(rounds))
    else:
        same, rounds = kill_drivers(folder, count)
    if not same:
        sys.exit(f"kills: other bits than in one process after {rounds} rounds")
    seconds = time.monotonic() - begun
    say(f"{count} deaths of a {what} in {rounds} rounds, {seconds:.0f} s: the same bits")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) == 5 and sys.argv[1] == "driven":
        run_driver(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    elif len(sys.argv) == 3 and sys.argv[1] in ("node", "driver"):
        main(sys.argv[1], int(sys.argv[2]))
    else:
        sys.exit("kills.py node|driver COUNT")
