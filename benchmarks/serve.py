"""The competitor's side of the protocol: one process a competitor, JSON lines on stdin and stdout.

    -> {"ready": true, "versions": {...}}                 when everything is loaded
    <- {"rounds": 3}                                      run three rounds
    -> {"wall": s, "cpu": s, "memory": bytes, ...}        seconds a round; CPU and memory are of the whole process tree
    <- {"end": true}

A competitor is a module of `competitors` with a function `compete(work, rounds, **options)` that loops over `rounds`:

    for done in rounds:     # waits until the driver asks
        ...                 # one round
        done(batches=..., loss=...)
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from work import load

TICK = os.sysconf("SC_CLK_TCK")


def rounds(
    requests: TextIO, replies: TextIO, hello: dict[str, Any]
) -> Iterator[Callable[..., None]]:
    """Yield once for every round asked for; the clock runs while the consumer works."""

    def say(**message: Any) -> None:
        print(json.dumps(message), file=replies, flush=True)

    say(ready=True, **hello)
    first = True
    for line in requests:
        request = json.loads(line)
        if "end" in request:
            return
        facts: list[dict[str, Any]] = []
        others, own, clock = living(), spent(), time.perf_counter()
        for _ in range(request["rounds"]):
            yield partial(_noted, facts)
        wall, cpu = time.perf_counter() - clock, spent() - own
        cpu += living() - others
        if len(facts) != request["rounds"]:
            raise RuntimeError(f"{len(facts)} of {request['rounds']} rounds were reported done")
        fact, used = facts[-1], memory()
        if callable(
            fact.get("after")
        ):  # a loss that is computed off the clock, the first time only
            fact |= {"after": fact["after"]() if first else None}
        first = False
        say(wall=wall / len(facts), cpu=cpu / len(facts), memory=used, **fact)


def _noted(facts: list[dict[str, Any]], **fact: Any) -> None:
    facts.append(fact)


def spent() -> float:
    """CPU seconds of this process and of the children it has waited for."""
    gone = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + gone.ru_utime + gone.ru_stime


def living() -> float:
    """CPU seconds of all living descendants."""
    return (
        sum(sum(map(int, fields[11:15])) for pid, fields in tree().items() if pid != os.getpid())
        / TICK
    )


def memory() -> int:
    """Peak memory of the tree in bytes: what each process has now, shared pages divided among their users (PSS), and how far
    it has been above that (RSS)."""
    total = 0
    for pid in tree():
        try:
            pss = _kilobytes(f"/proc/{pid}/smaps_rollup")["Pss"]
            status = _kilobytes(f"/proc/{pid}/status")
        except (OSError, KeyError):  # it has ended meanwhile
            continue
        total += pss + status["VmHWM"] - status["VmRSS"]
    return 1024 * total


def tree() -> dict[int, list[str]]:
    """This process and all its descendants, with the fields of /proc/PID/stat that follow the name."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
    found, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, fields in stats.items() if int(fields[1]) in found} - found
        found, grown = found | more, bool(more)
    return {pid: stats[pid] for pid in found}


def _kilobytes(path: str) -> dict[str, int]:
    lines = (line.split() for line in Path(path).read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in lines if words[-1] == "kB"}


def main() -> None:
    competitor, workload, scale, options = sys.argv[1:]
    # libraries print to stdout: keep the channel for ourselves and send what they say to stderr
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module = import_module(f"competitors.{competitor}")
    hello = {"versions": {name: version(name) for name in module.PACKAGES}}
    module.compete(load(workload, scale), rounds(sys.stdin, channel, hello), **json.loads(options))


if __name__ == "__main__":
    main()
