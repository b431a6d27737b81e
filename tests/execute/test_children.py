"""Child processes end with their parent, and nobody waits for them for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from multiprocessing import get_context

import pytest

from fedstep.execute.children import end_processes, is_stopped

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's death signal")

# A child whose parent is killed before the child can ask for the death signal, as while it imports.
ORPHAN = """
import os, signal, sys, time
from multiprocessing import get_context
from fedstep.execute.children import end_with_parent

def late(pipe, parent):
    os.write(pipe, b"started ")
    while os.getppid() == parent:
        time.sleep(0.01)
    end_with_parent()
    os.write(pipe, b"survived")

pipe = int(sys.argv[1])
child = get_context("fork").Process(target=late, args=(pipe, os.getpid()))
child.start()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_whose_parent_died_while_it_was_starting_ends():
    ours, theirs = os.pipe()
    parent = subprocess.Popen([sys.executable, "-c", ORPHAN, str(theirs)], pass_fds=[theirs])
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        written = pipe.read()  # to the end, which is when the last of them has ended
    assert parent.wait() == -signal.SIGKILL
    assert written == b"started "


WATCHED = ORPHAN.replace(
    "    while os.getppid() == parent:\n        time.sleep(0.01)\n    end_with_parent()\n",
    "    end_with_parent()\n    os.kill(parent, signal.SIGKILL)\n    signal.pause()\n",
).replace("os.kill(os.getpid(), signal.SIGKILL)\n", "child.join()\n")


def test_a_child_ends_when_its_parent_is_killed():
    ours, theirs = os.pipe()
    parent = subprocess.Popen([sys.executable, "-c", WATCHED, str(theirs)], pass_fds=[theirs])
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        assert pipe.read() == b"started "
    assert parent.wait() == -signal.SIGKILL


@pytest.fixture
def sleeper():
    process = get_context("fork").Process(target=signal.pause, daemon=True)
    process.start()
    yield process
    process.kill()
    process.join()


def test_a_stopped_process_is_told_from_a_running_one(sleeper):
    assert not is_stopped(sleeper.pid)
    os.kill(sleeper.pid, signal.SIGSTOP)
    os.waitpid(sleeper.pid, os.WUNTRACED)
    assert is_stopped(sleeper.pid)
    os.kill(sleeper.pid, signal.SIGCONT)
    os.waitpid(sleeper.pid, os.WCONTINUED)
    assert not is_stopped(sleeper.pid)
    assert not is_stopped(None)


def test_a_process_that_does_not_end_is_killed(sleeper):
    os.kill(sleeper.pid, signal.SIGSTOP)
    end_processes([sleeper], grace=0.1)
    assert sleeper.exitcode == -signal.SIGKILL


def test_a_process_that_ends_by_itself_is_left_to_it():
    process = get_context("fork").Process(target=int)
    process.start()
    end_processes([process], grace=60.0)
    assert process.exitcode == 0
