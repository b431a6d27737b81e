"""Many runs: one after another, or several processes at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread

from fedstep.core.errors import InputError
from fedstep.execute.children import GRACE, end_processes, end_with_parent
from fedstep.run.driver import remove_leftovers
from fedstep.study.board import RunsBoard
from fedstep.study.kept import KeptRuns, finished, folder_of
from fedstep.study.plan import Job
from fedstep.study.work import work


@dataclass(frozen=True)
class PendingRun:
    """A run that is not finished, and what it is called on the board."""

    job: Job
    label: str  # of its method


@dataclass(frozen=True)
class PendingRuns:
    """All that a crew needs in order to finish them, on this machine or on a cluster."""

    runs: tuple[PendingRun, ...]
    home: Path  # the study's results
    data: Path | None  # None: the usual data directory
    profile: bool  # measure where the time goes

    @property
    def rounds(self) -> int:
        return sum(run.job.setting.rounds for run in self.runs)


def run_all(
    jobs: Sequence[Job],
    labels: Sequence[str],
    home: Path,
    data: Path | None,
    workers: int = 1,
    profile: bool = False,
    ray: str | None = None,
) -> None:
    """Finish every job that is not; a job listed twice is done once.

    The results do not depend on the number of workers. ray: the address of a cluster that is to do
    the runs, or the rounds of a single one; "local" starts one on this machine.
    """
    if workers < 1:
        raise InputError(f"--workers {workers}: give at least 1")
    if ray is not None and workers > 1:
        raise InputError(
            f"--workers {workers} --ray: the cluster's CPUs are the workers; leave --workers out"
        )
    pending = PendingRuns(
        _unfinished(jobs, labels, home),
        home,
        data,
        profile,
    )
    with RunsBoard(pending.rounds) as board:
        if ray is not None and pending.runs:
            _finish_on_cluster(pending, board, ray)
        # a single run has the workers within its rounds
        elif workers == 1 or len(pending.runs) < 2:
            finish_in_turn(pending, board, workers)
        else:
            finish_in_processes(pending, board, workers)


def _finish_on_cluster(pending: PendingRuns, board: RunsBoard, address: str) -> None:
    # here and not above: Ray is an extra
    try:
        from fedstep.study.cluster import finish_on_ray
    except ImportError:
        raise InputError("--ray: Ray is not installed; pip install 'fedstep[ray]'") from None
    own = address == "local"
    finish_on_ray(pending, board, None if own else address)


def _unfinished(
    jobs: Sequence[Job],
    labels: Sequence[str],
    home: Path,
) -> tuple[PendingRun, ...]:
    kept = KeptRuns.of(home)
    pending: dict[str, PendingRun] = {}
    for job, label in zip(jobs, labels, strict=True):
        if finished(job, home):
            # a crash may have come between the finished mark and the end of the run
            remove_leftovers(folder_of(job, home))
        # by digest: two methods may come to the same spec after tuning
        elif job.digest not in pending and job.digest not in kept.packed:
            pending[job.digest] = PendingRun(job, label)
    return tuple(pending.values())


def finish_in_turn(
    pending: PendingRuns,
    board: RunsBoard,
    workers: int,
) -> None:
    """One run after another in this process, each with its workers within the rounds."""
    for run in pending.runs:
        notes = work(
            run.job,
            pending.home,
            pending.data,
            watch=board.watcher(run.job, run.label),
            workers=workers,
            profile=pending.profile,
        )
        show_finished(board, run, notes)


def finish_in_processes(
    pending: PendingRuns,
    board: RunsBoard,
    workers: int,
) -> None:
    """Several runs at a time, each in a process of its own."""
    pool = ProcessPoolExecutor(
        max_workers=min(workers, len(pending.runs)),
        # fork would inherit the threads of torch in an unknown state
        mp_context=get_context("spawn"),
        initializer=end_with_parent,
    )
    try:
        waiting = _submitted(pool, pending, workers)
        _await(pool, waiting, pending.home, board)
    except BrokenProcessPool:
        # the pool cannot say which of them died, and takes no more work
        raise InputError(
            "a worker process died (out of memory?): "
            "run the command again, it continues from the checkpoints"
        ) from None
    except BaseException:
        for process in _processes(pool):
            process.terminate()  # checkpoints hold what they have done
        raise
    finally:
        close_pool(pool)


def close_pool(pool: ProcessPoolExecutor, grace: float = GRACE) -> None:
    """End the processes of a pool that has nothing left to do.

    The pool's own way out waits without limit. A worker that was killed while it held the lock of
    their queue would leave the others, and then this process, waiting for ever.
    """
    processes = _processes(pool)
    # private too, and None after the shutdown
    thread: object = pool._executor_manager_thread
    pool.shutdown(wait=False, cancel_futures=True)
    end_processes(processes, grace)
    # the thread closes a pipe that the interpreter's end writes to: if both come at once, a
    # traceback follows the last line
    if isinstance(thread, Thread):
        thread.join(grace)


def _processes(pool: ProcessPoolExecutor) -> list[BaseProcess]:
    # private, but the only way to them; None after a shutdown
    by_pid = pool._processes or {}
    return list(by_pid.values())


def _submitted(
    pool: ProcessPoolExecutor,
    pending: PendingRuns,
    workers: int,
) -> dict[Future[list[str]], PendingRun]:
    # more workers than runs: the rest work within the rounds
    workers_a_run = max(1, workers // len(pending.runs))
    submitted = {}
    for run in pending.runs:
        future = pool.submit(
            work,
            run.job,
            pending.home,
            pending.data,
            workers=workers_a_run,
            profile=pending.profile,
        )
        submitted[future] = run
    return submitted


def _await(
    pool: ProcessPoolExecutor,
    waiting: dict[Future[list[str]], PendingRun],
    home: Path,
    board: RunsBoard,
) -> None:
    """Show how far the runs are until all have ended."""
    while waiting:
        ready, _ = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
        board.name_stopped(_processes(pool))
        for run in waiting.values():
            folder = folder_of(run.job, home)
            board.look(run.job, run.label, folder)
        for future in ready:
            run = waiting.pop(future)
            # `result` raises here what the run has raised there
            notes = future.result()
            show_finished(board, run, notes)


def show_finished(
    board: RunsBoard,
    run: PendingRun,
    notes: list[str],
) -> None:
    """Say what there is to say about a run that has ended."""
    for note in notes:
        board.say(note)
    board.done(run.job, run.label)
