"""Commands that are killed, stopped or out of space, and the same command once more.

    python tests/faults/crashes.py points fit 200 FOLDER        killed before a file operation
    python tests/faults/crashes.py moments study 60 FOLDER      kill -9 at a random moment
    python tests/faults/crashes.py full study 100 FOLDER        a file operation finds the disk full
    python tests/faults/crashes.py stops workers 26 FOLDER      a worker is stopped, then woken or killed
    python tests/faults/crashes.py closing study 26 FOLDER      a worker is killed while its pool closes

Whatever happens, all processes end, and the same command leaves the files of a calm run, to the
last bit. Prints how many trials there were and what was wrong. Each command is a fork of this
process, which has imported everything: a trial takes no longer than its work.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from commands import Command, left_in, warm_up
from operations import Accident, installed_by_parent

from fedstep.execute import processes as crews
from fedstep.execute.children import is_stopped
from fedstep.study import pool as pools

# a process that a pool has started anew imports this file too, and is watched from here on
installed_by_parent()

PATIENCE = 0.2  # seconds, in the place of a minute, until a line says who is waited for


@dataclass
class Trials:
    """One subject, damaged again and again; `wrong` has a line for all that must not be."""

    subject: str
    place: Path
    draw: random.Random = field(default_factory=lambda: random.Random(0))
    wrong: list[str] = field(default_factory=list)
    harmed: int = 0  # commands that the accident has ended or held up

    def calm(self) -> None:
        """What an undisturbed command leaves, how long it takes, how many operations it needs."""
        counter = self.place / "calm.count"
        home = self.place / "calm" / "home"
        command = Command(self.subject, home, Accident(str(home), str(counter)))
        assert command.wait() == 0, command.said()
        self.seconds = time.monotonic() - command.begun
        self.operations = counter.stat().st_size
        self.right = left_in(home)

    def finish(self, command: Command, name: str) -> None:
        """No process is left; the same command goes on and comes to the right files."""
        if command.orphans():
            self.wrong.append(f"{name}: processes outlive the command")
        again = Command(self.subject, command.home)
        if again.wait() != 0:
            self.wrong.append(f"{name}: the next command fails: {again.said()[-500:]}")
        elif again.orphans():
            self.wrong.append(f"{name}: processes outlive the next command")
        else:
            self._compare(command.home, name)
        shutil.rmtree(command.home.parent)

    def _compare(self, home: Path, name: str) -> None:
        left = left_in(home)
        for file in sorted(left.keys() | self.right.keys()):
            if left.get(file) != self.right.get(file):
                self.wrong.append(f"{name}: {file} is not that of a calm run")

    def home(self, number: int) -> Path:
        return self.place / f"trial {number}" / "home"

    def accident(self, number: int, at: int, kind: str) -> Command:
        """The command with an accident before operation `at`."""
        home = self.home(number)
        counter = home.parent / "count"
        return Command(self.subject, home, Accident(str(home), str(counter), at, kind))

    def one_line(self, command: Command, code: int | None, name: str) -> None:
        """It has ended by itself, with one line and without a traceback."""
        said = command.said()
        if code is None:
            self.wrong.append(f"{name}: it does not end: {said[-500:]}")
        elif "Traceback" in said:
            self.wrong.append(f"{name}: {said[-800:]}")
        elif code not in (0, 2):
            self.wrong.append(f"{name}: exit code {code}: {said[-500:]}")


def points(trials: Trials, number: int, count: int) -> None:
    """Killed before a file operation: each of them, or `count` that are evenly spread."""
    at = 1 + number * trials.operations // count
    # in turn the process alone, whose parent or children go on, and all as by a power cut
    command = trials.accident(number, at, ("die", "all die")[number % 2])
    code = command.wait()
    trials.harmed += code != 0
    if code not in (0, -signal.SIGKILL):
        trials.one_line(command, code, f"operation {at}")
    trials.finish(command, f"operation {at}")


def moments(trials: Trials, number: int, count: int) -> None:
    """kill -9 at a random moment."""
    while True:
        after = trials.draw.uniform(0, trials.seconds)
        command = Command(trials.subject, trials.home(number))
        while time.monotonic() - command.begun < after and command.ended() is None:
            time.sleep(0.0005)
        if command.ended() is None:
            break
        shutil.rmtree(command.home.parent)  # it was through before: another moment
    os.kill(command.pid, signal.SIGKILL)
    command.wait()
    trials.harmed += 1
    trials.finish(command, f"after {after:.4f} s")


def full(trials: Trials, number: int, count: int) -> None:
    """From a file operation on the disk is full: one line that names a file."""
    at = 1 + number * trials.operations // count
    command = trials.accident(number, at, "full")
    code = command.wait()
    name = f"operation {at}"
    trials.harmed += code != 0
    trials.one_line(command, code, name)
    lines = [line for line in command.said().splitlines() if "No space left" in line]
    if code == 2 and (len(lines) != 1 or str(command.home) not in lines[0]):
        trials.wrong.append(f"{name}: no line that names the file: {command.said()[-500:]}")
    trials.finish(command, name)


def stops(trials: Trials, number: int, count: int) -> None:
    """A worker is stopped at a random moment; after a line that says so it is woken, or killed."""
    command = Command(trials.subject, trials.home(number), prepare=_impatient)
    after = trials.draw.uniform(0, trials.seconds)
    while command.ended() is None and time.monotonic() - command.begun < after:
        time.sleep(0.001)
    workers = _workers(command)
    while not workers and command.ended() is None:
        workers = _workers(command)
    if not workers:
        trials.finish(command, f"stop {number}")
        return
    pid = trials.draw.choice(workers)
    os.kill(pid, signal.SIGSTOP)
    command.within(lambda: command.ended() is not None or "is stopped" in command.said())
    if "is stopped" in command.said():
        trials.harmed += 1
    elif command.ended() is None:
        trials.wrong.append(f"stop {number}: nothing says that {pid} is stopped")
    if is_stopped(pid):
        os.kill(pid, (signal.SIGCONT, signal.SIGKILL)[number % 2])
    code = command.wait()
    trials.one_line(command, code, f"stop {number}")
    trials.finish(command, f"stop {number}")


def _impatient() -> None:
    plain = crews.ProcessCrew.__init__

    def init(self, *args, **options):
        plain(self, *args, **options)
        self.patience = PATIENCE

    crews.ProcessCrew.__init__ = init


def _workers(command: Command) -> list[int]:
    """Its children that work: not the one that multiprocessing keeps for its own books."""
    found = []
    for pid in command.family():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            continue
        if pid != command.pid and "resource_tracker" not in words:
            found.append(pid)
    return found


def closing(trials: Trials, number: int, count: int) -> None:
    """A worker is killed while its pool closes, at once or up to 50 ms later."""
    delay = trials.draw.uniform(0, 0.05) * (number % 3 > 0)
    prepare = partial(_killed_at_the_end, delay, number)
    command = Command(trials.subject, trials.home(number), prepare=prepare)
    code = command.wait()
    trials.harmed += "closing" in command.said()
    trials.one_line(command, code, f"closing {number}")
    trials.finish(command, f"closing {number}")


def _killed_at_the_end(delay: float, number: int) -> None:
    def kill(processes):
        time.sleep(delay)
        print("closing", flush=True)
        for process in processes[number % 2 :: 2]:
            process.kill()

    def before(close, processes_of):
        def closes(owner, *args, **options):
            killer = threading.Thread(target=kill, args=(processes_of(owner),))
            killer.start()
            try:
                return close(owner, *args, **options)
            finally:
                killer.join()

        return closes

    pools.close_pool = before(pools.close_pool, pools._processes)
    crew = crews.ProcessCrew
    crew.close = before(crew.close, lambda it: [worker.process for worker in it.hired])


KINDS = {kind.__name__: kind for kind in (points, moments, full, stops, closing)}


def main(kind: str, subject: str, count: int, place: Path) -> None:
    torch.set_num_threads(1)
    trials = Trials(subject, place)
    warm_up(subject, place / "warm")
    trials.calm()
    # no more points than there are operations; 0 means each of them
    if kind in ("points", "full"):
        count = min(count or trials.operations, trials.operations)
    for number in range(count):
        KINDS[kind](trials, number, count)
    print(json.dumps({
        "kind": kind, "subject": subject, "operations": trials.operations, "trials": count,
        "harmed": trials.harmed, "bad": trials.wrong,
    }))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
