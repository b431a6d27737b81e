"""Trials on Ray: a head and a second node on this machine, one CPU each, which all trials share.

`ray-node`: the second node is killed in the middle of a run, and another one joins afterwards.
`driver`: the process that runs `fit` is killed, and started again with the same folder.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path[:0] = [str(TESTS / "cluster"), str(TESTS / "remote")]

import torch  # noqa: E402
from clusters import two_nodes  # noqa: E402
from fakes import clients, model  # noqa: E402

from fedstep import fit  # noqa: E402
from fedstep.data.federation import Federation  # noqa: E402
from fedstep.data.plan import Plan  # noqa: E402
from fedstep.execute import Sequential, Store, Task  # noqa: E402
from fedstep.execute.base import Executor  # noqa: E402
from fedstep.execute.ray import Ray  # noqa: E402
from fedstep.run.simulate import Simulation  # noqa: E402
from fedstep.spec import build  # noqa: E402

ROUNDS = 8
STEPS = 60  # local ones: long enough to be in the middle of something
SETTINGS = dict(per_round=6, batch=2, local_steps=STEPS, seed=5)
TRIES = 10  # to start a node
LIMIT = 300.0  # seconds for a run


def say(text: str) -> None:
    """One line of what has happened."""
    print(f"kills: {text}", flush=True)


def simulation(executor: Executor) -> Simulation:
    """The run of which a node is killed."""
    task = Task(build("scaffold"), model(), Federation.of(clients()), Plan(2, STEPS), 5)
    return Simulation(task, 6, executor=executor)


def rows_and_model(run: Simulation, seen: list[float]) -> tuple[list[dict], torch.Tensor]:
    """All rounds; `seen` has the moment of the end of each."""
    rows = []
    for server, row in run.run(run.begin(ROUNDS), Store(), ROUNDS):
        seen.append(time.monotonic())
        values = row.to_dict()
        values.pop("seconds")
        rows.append(values)
        x = server.x
    return rows, x


def node_trials(folder: Path, moments: Random, first: int) -> Iterator[dict]:
    """Trials without end; the first run is undisturbed, and says how long one takes."""
    torch.set_num_threads(1)  # as the workers have it
    expected_rows, expected = rows_and_model(simulation(Sequential()), [])
    with two_nodes(folder) as cluster:
        run = simulation(Ray(Sequential(), workers=2, address=cluster.address))
        with run.executor:
            rows_and_model(run, [])  # hires
            begun = time.monotonic()
            rows_and_model(run, [])
            length = time.monotonic() - begun
            say(f"a run takes {length:.1f} s")
            number = first
            while True:
                moment = moments.uniform(0.0, length)
                killed: list[float] = []
                timer = threading.Timer(moment, kill_node, (cluster, killed))
                ends: list[float] = []
                timer.start()
                rows, x = rows_and_model(run, ends)
                if not killed:
                    timer.join(LIMIT)  # it was a moment too late: the next run begins without it
                add_node(cluster)
                if not killed or killed[0] > ends[-1]:
                    continue
                same = rows == expected_rows and torch.equal(x, expected)
                yield {
                    "trial": number,
                    "moment": round(moment, 2),
                    "after_round": sum(end < killed[0] for end in ends),
                    "seconds": round(ends[-1] - killed[0], 1),
                    "same": same,
                }
                number += 1


def kill_node(cluster, killed: list[float]) -> None:
    """SIGKILL to all processes of the second node."""
    killed.append(time.monotonic())
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)


def add_node(cluster) -> None:
    """Another node; Ray gives it 30 seconds to start, which a busy machine may not manage."""
    for attempt in range(TRIES):
        try:
            cluster.add_node(num_cpus=1)
            return
        except Exception as error:
            say(f"a node did not start (attempt {attempt + 1}): {str(error)[:80]}")
    sys.exit(f"kills: no node started in {TRIES} attempts")


def drive(out: Path, address: str) -> None:
    """What is killed: `fit` with a folder, which goes on where it was."""
    torch.set_num_threads(1)
    trained(Ray(Sequential(), workers=2, address=address), out)


def trained(executor: Executor, out: Path | None) -> tuple[list[dict], torch.Tensor]:
    """Rows and model of `fit`."""
    net = model().module
    result = fit(net, clients(), "scaffold", ROUNDS, out=out, executor=executor, **SETTINGS)
    rows = []
    for row in result.rows:
        values = row.to_dict()
        values.pop("seconds")
        rows.append(values)
    return rows, result.x


def driver_trials(folder: Path, moments: Random, first: int) -> Iterator[dict]:
    """Trials without end; the first run is undisturbed, and says how long one takes."""
    expected_rows, expected = trained(Sequential(), None)
    with two_nodes(folder) as cluster:
        program = [sys.executable, __file__, cluster.address]
        begun = time.monotonic()
        subprocess.run([*program, str(folder / "undisturbed")], check=True, timeout=LIMIT)
        length = time.monotonic() - begun
        say(f"a run takes {length:.1f} s")
        number = first
        draws = 0
        while True:
            draws += 1
            out = folder / f"trial-{draws}"
            moment = moments.uniform(0.0, length)
            driver = subprocess.Popen([*program, str(out)])
            try:
                driver.wait(moment)
                continue  # it was over before the moment came
            except subprocess.TimeoutExpired:
                killed = time.monotonic()
                driver.send_signal(signal.SIGKILL)
                driver.wait()
            where = rounds_done(out)
            subprocess.run([*program, str(out)], check=True, timeout=LIMIT)
            seconds = time.monotonic() - killed
            # a finished run is read back from its folder, not made again
            rows, x = trained(Sequential(), out)
            yield {
                "trial": number,
                "moment": round(moment, 2),
                "after_round": where,
                "seconds": round(seconds, 1),
                "same": rows == expected_rows and torch.equal(x, expected),
            }
            number += 1


def rounds_done(out: Path) -> int:
    """Rounds whose row is written."""
    path = out / "rounds.jsonl"
    if not path.exists():
        return 0
    return path.read_bytes().count(b"\n")


if __name__ == "__main__":
    drive(Path(sys.argv[2]), sys.argv[1])
