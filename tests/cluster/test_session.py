"""A cluster that is started here listens on this machine alone, whoever imported Ray first."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import ray

from fedstep.core.errors import InputError
from fedstep.execute.ray_session import RaySession

PROGRAM = """
import ray  # first, as a user's program may
import json, os, socket, sys
from pathlib import Path
from fedstep.execute.ray_session import RaySession

def descendants(pid):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            child = int(path.parent.name)
            found += [child, *descendants(child)]
    return found

def sockets(pids):
    held = set()
    for pid in pids:
        for path in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                held.add(os.readlink(path))
            except OSError:
                continue
    return held

def listening(held):
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            # 0A: the state of a socket that listens
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in held:
                found.append(fields[1].partition(":")[0])
    return found

session = RaySession.open(None)
held = sockets([os.getpid(), *descendants(os.getpid())])
addresses = listening(held)
session.close()
print(json.dumps({"listening": addresses, "environment": sorted(os.environ)}))
"""
# as the kernel writes them: 127.0.0.1, the same inside IPv6, and ::1
LOOPBACK = {
    "0100007F",
    "0000000000000000FFFF00000100007F",
    "00000000000000000000000001000000",
}


def test_nothing_listens_beyond_loopback_where_ray_was_imported_first():
    name = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
    environment = {key: value for key, value in os.environ.items() if key != name}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["listening"], "nothing was found to listen: the test looks in the wrong place"
    assert set(seen["listening"]) <= LOOPBACK
    # what was set for the cluster is gone with it
    assert not {name, "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"} & set(seen["environment"])


def test_a_cluster_that_does_not_start_is_one_line(monkeypatch):
    def late(**settings):
        raise Exception("The current node timed out during startup.\nmore")

    monkeypatch.setattr(ray, "init", late)
    with pytest.raises(InputError, match=r"^Ray at local: The current node timed out during start"):
        RaySession.open(None)
    # nothing stays of the attempt
    assert not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"} & set(os.environ)


def test_a_cluster_that_cannot_be_joined_is_one_line_with_a_remedy(monkeypatch):
    def refused(**settings):
        raise ConnectionError("Failed to connect to Ray cluster at 10.0.0.5:6379\nmore")

    monkeypatch.setattr(ray, "init", refused)
    with pytest.raises(InputError, match=r"6379; see that it runs, and that RAY_AUTH_TOKEN_PATH"):
        RaySession.open("10.0.0.5:6379")
