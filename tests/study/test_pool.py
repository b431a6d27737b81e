"""The processes of a pool of runs."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import wait

import pytest

from fedstep.study import board as module
from fedstep.study.board import RunsBoard
from fedstep.study.pool import close_pool


@pytest.fixture
def pool():
    pool = ProcessPoolExecutor(2, get_context("fork"))
    pool.submit(os.getpid).result()
    return pool


def ended(processes) -> bool:
    """By their sentinels: the pool's own thread may be the one that has waited for a process."""
    sentinels = [process.sentinel for process in processes]
    return sorted(wait(sentinels, timeout=0)) == sorted(sentinels)


def test_a_worker_that_never_ends_does_not_keep_its_pool_from_closing(pool):
    processes = list(pool._processes.values())
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)
    close_pool(pool, grace=0.1)
    assert processes
    assert ended(processes)


def test_a_worker_that_was_killed_does_not_keep_its_pool_from_closing(pool):
    processes = list(pool._processes.values())
    processes[0].kill()
    close_pool(pool)
    assert ended(processes)


def test_the_thread_of_a_closed_pool_has_ended(pool):
    # at the end of the interpreter it would close a pipe that is being written to
    thread = pool._executor_manager_thread
    plain = thread.join_executor_internals

    def slowly():
        time.sleep(0.3)
        plain()

    thread.join_executor_internals = slowly
    close_pool(pool)
    assert not thread.is_alive()


def test_a_stopped_worker_is_named_once(pool, capsys, monkeypatch):
    processes = list(pool._processes.values())
    monkeypatch.setattr(module, "is_stopped", lambda pid: pid == processes[0].pid)
    board = RunsBoard(1)
    board.name_stopped(processes)
    board.name_stopped(processes)
    close_pool(pool)
    assert capsys.readouterr().err.count(f"process {processes[0].pid} is stopped") == 1
