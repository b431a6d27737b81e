"""What happens to a run and its workers when the driver or the head of the cluster goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from clusters import two_nodes
from driver import train

from fedstep.execute import Sequential

PROGRAM = Path(__file__).parent / "driver.py"
LIMIT = 240  # seconds: on an idle machine a cluster is there in ten
ROUNDS = 12  # seconds of work: whoever is killed after the first is in the middle of it


@pytest.fixture(scope="module")
def expected():
    """The model of one process."""
    return train(Sequential(), ROUNDS)


def listen():
    # whoever ignores the signal has children that do, too: not inherited
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def started():
    """Processes of a test, ended by their own ids whatever has happened to it."""
    processes = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()


def begun(started, folder, address="local"):
    """The program, after its first round."""
    log = (folder / "log.txt").open("a")
    command = [sys.executable, str(PROGRAM), str(folder / "run"), address, str(ROUNDS)]
    process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=listen)
    started.append(process)
    rows = folder / "run" / "rounds.jsonl"
    wait(lambda: rows.exists() and rows.read_bytes().count(b"\n") >= 1, process, folder)
    return process


def wait(done, process, folder):
    end = time.monotonic() + LIMIT
    while not done():
        if process is not None and process.poll() is not None:
            pytest.fail(f"it ended: {(folder / 'log.txt').read_text()[-2000:]}")
        if time.monotonic() > end:
            pytest.fail(f"waited {LIMIT} s: {(folder / 'log.txt').read_text()[-2000:]}")
        time.sleep(0.1)


def descendants(pid):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            child = int(path.parent.name)
            found += [child, *descendants(child)]
    return found


def alive(pids):
    there = []
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            there.append(pid)
    return there


def assert_goes_on(folder, expected):
    """In another place, from the checkpoint, to the same bits."""
    rows = (folder / "run" / "rounds.jsonl").read_bytes().count(b"\n")
    assert rows < ROUNDS
    assert torch.equal(train(Sequential(), ROUNDS, folder / "run"), expected)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["SIGINT", "SIGKILL"])
def test_a_driver_that_goes_takes_its_cluster_along_and_the_run_goes_on(
    tmp_path, how, expected, started
):
    process = begun(started, tmp_path)
    cluster = descendants(process.pid)
    assert cluster
    process.send_signal(how)
    process.wait(LIMIT)
    assert process.returncode != 0
    # by their own ids: others may run a cluster too
    wait(lambda: not alive(cluster), None, tmp_path)
    assert_goes_on(tmp_path, expected)


def test_the_head_that_dies_ends_the_run_and_what_was_done_is_kept(tmp_path, expected, started):
    with two_nodes(tmp_path) as cluster:
        process = begun(started, tmp_path, cluster.address)
        for processes in list(cluster.head_node.all_processes.values()):
            for each in processes:
                os.kill(each.process.pid, signal.SIGKILL)
        process.wait(LIMIT)
    assert process.returncode != 0
    assert_goes_on(tmp_path, expected)
