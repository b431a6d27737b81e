"""Small commands, each in a process of its own that may be killed, and the files that they leave."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context, util
from pathlib import Path

import damage
from operations import Accident

from fedstep.cli import main as fedstep
from fedstep.core.errors import InputError
from fedstep.run.files import read_sealed
from fedstep.run.folder import DONE, JOURNAL
from fedstep.run.journal import Journal
from fedstep.study import pool as pools

LONGEST = 300.0  # seconds that a command may take, on a busy machine
REFUSED = 2
TRACEBACK = 70
CLOCKS = ("seconds", "checkpoint_seconds")


def fit(home: Path, workers: int = 1) -> int:
    damage.fit(home, workers=workers)
    return 0


def spawned_study(home: Path) -> int:
    """Two workers, each a new interpreter."""
    given = home.parent / "study-given.toml"
    given.write_text(damage.STUDY)
    return fedstep(["run", str(given), "--out", str(home), "--workers", "2"])


def study(home: Path) -> int:
    """Two workers, forked: to import torch takes ten times as long as their work."""
    pools.get_context = lambda _: get_context("fork")
    return spawned_study(home)


SUBJECTS: dict[str, Callable[[Path], int]] = {
    "fit": fit,
    "workers": partial(fit, workers=2),
    "study": study,
    "spawned study": spawned_study,
}


def warm_up(subject: str, place: Path) -> None:
    """Import here what the first command would import: its forks then need not."""
    home = place / "home"
    home.parent.mkdir(parents=True)
    damage.fit(home)
    if "study" in subject:
        shutil.rmtree(place)
        damage.done_again(home)
    shutil.rmtree(place)


@dataclass
class Command:
    """A subject at work in a process of its own, with a session of its own."""

    subject: str
    home: Path
    accident: Accident | None = None
    prepare: Callable[[], object] = lambda: None
    begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.home.parent.mkdir(parents=True, exist_ok=True)
        self.log = self.home.parent / "said.txt"
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            text = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(text, 1)
            os.dup2(text, 2)
            try:
                self.prepare()
                if self.accident is not None:
                    self.accident.install()
                code = SUBJECTS[self.subject](self.home)
            except InputError as error:
                code = _refusal(error)
            except BaseException:
                code = TRACEBACK
                traceback.print_exc()
            _leave(code)

    def ended(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return self.code
        if pid == 0:
            return None
        self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def wait(self) -> int | None:
        """Its exit code, when nothing of it is left; None where it hangs, and is killed."""
        if not self.within(lambda: self.ended() is not None):
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            return None
        return self.code

    def orphans(self) -> list[int]:
        """What outlives it by more than it takes to die; killed then."""
        self.within(lambda: not self.family())
        left = self.family()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return left

    def family(self) -> list[int]:
        """Every process of its session that is alive."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state, _, _, session = (folder / "stat").read_text().rpartition(") ")[2].split()[:4]
            except OSError:
                continue  # it has just ended
            if int(session) == self.pid and state != "Z":
                found.append(int(folder.name))
        return found

    def said(self) -> str:
        return self.log.read_text()

    def within(self, holds: Callable[[], bool]) -> bool:
        """Wait until something holds; not for ever."""
        end = time.monotonic() + LONGEST
        while not holds():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True


def _refusal(error: InputError) -> int:
    """As the command line says it; of `fit` the caller is told."""
    print(error, file=sys.stderr, flush=True)
    return REFUSED


def _leave(code: int) -> None:
    """End as an interpreter does, where a pool that is not closed would wait.

    Without taking torch apart, which takes ten times as long as the work.
    """
    threading._shutdown()
    util._exit_function()
    os._exit(code)


def left_in(home: Path) -> dict[str, object]:
    """Every file, less the clock."""
    found: dict[str, object] = {}
    for path in sorted(home.rglob("*")):
        if not path.is_file():
            continue
        name = str(path.relative_to(home))
        if path.name == JOURNAL:
            rows = Journal(path).rows()
            found[name] = [{k: v for k, v in row.items() if k not in CLOCKS} for row in rows]
        elif path.name == DONE:
            mark = read_sealed(path)
            hashes = {k: v for k, v in mark["sha256"].items() if k != JOURNAL}
            found[name] = mark["rounds"], hashes
        elif path.name in ("report.html", "SHA256SUMS"):
            found[name] = "there"  # seconds are in the one, hashes of journals in the other
        else:
            found[name] = path.read_bytes()
    return found
