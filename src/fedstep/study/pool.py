"""Many runs: one after another, or several processes at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedstep.core.errors import InputError
from fedstep.execute.children import GRACE, end_processes, end_with_parent, is_stopped
from fedstep.run.journal import Journal
from fedstep.run.progress import summary
from fedstep.run.record import RoundReport
from fedstep.study.plan import Job
from fedstep.study.work import finished, folder_of, work


def run_all(
    jobs: Sequence[Job],
    labels: Sequence[str],
    home: Path,
    data: Path | None,
    workers: int = 1,
    profile: bool = False,
) -> None:
    """Finish every job that is not; a job listed twice is done once. The results do not depend on the number of workers."""
    if workers < 1:
        raise InputError(f"--workers {workers}: give at least 1")
    todo = {
        job.digest: (job, label)
        for job, label in zip(jobs, labels, strict=True)
        if not finished(job, home)
    }
    with Board(sum(job.setting.rounds for job, _ in todo.values())) as board:
        if workers == 1 or len(todo) < 2:  # a single run has the workers within its rounds
            for job, label in todo.values():
                for line in work(job, home, data, board.watcher(job, label), workers, profile):
                    board.say(line)
                board.done(job, label)
            return
        _parallel(list(todo.values()), home, data, workers, board, profile)


def _parallel(
    todo: list[tuple[Job, str]],
    home: Path,
    data: Path | None,
    workers: int,
    board: Board,
    profile: bool,
) -> None:
    inside = max(1, workers // len(todo))
    pool = ProcessPoolExecutor(
        max_workers=min(workers, len(todo)),
        mp_context=get_context("spawn"),
        initializer=end_with_parent,
    )
    waiting: dict[Future[list[str]], tuple[Job, str]] = {}
    for job, label in todo:
        future = pool.submit(work, job, home, data, None, inside, profile)
        waiting[future] = (job, label)
    try:
        while waiting:
            done, _ = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
            board.name_stopped(_processes(pool))
            for job, label in waiting.values():
                board.look(job, label, folder_of(job, home))
            for future in done:
                job, label = waiting.pop(future)
                for line in future.result():
                    board.say(line)
                board.done(job, label)
    except BrokenProcessPool:
        raise InputError(
            "a worker process died (out of memory?): run the command again, it continues from the checkpoints"
        ) from None
    except BaseException:
        for process in _processes(pool):
            process.terminate()  # checkpoints hold what they have done
        raise
    finally:
        close_pool(pool)


def _processes(pool: ProcessPoolExecutor) -> list[BaseProcess]:
    return list((pool._processes or {}).values())


def close_pool(pool: ProcessPoolExecutor, grace: float = GRACE) -> None:
    """End the processes of a pool that has nothing left to do.

    The pool's own way out waits without limit. A worker that was killed while it held the lock of their queue would
    leave the others, and then this process, waiting for ever.
    """
    processes = _processes(pool)
    pool.shutdown(wait=False, cancel_futures=True)
    end_processes(processes, grace)


class Board:
    """Rounds done over all jobs; the running jobs' last rows. Plain lines where there is no terminal."""

    def __init__(self, total: int) -> None:
        self.console = Console(stderr=True)
        say = TextColumn("{task.fields[say]}")
        self.bar = Progress(TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeRemainingColumn(), say,
                            console=self.console, disable=not self.console.is_terminal)  # fmt: skip
        self.total = self.bar.add_task("all runs", total=total, say="")
        self.tasks: dict[str, Any] = {}
        self.seen: dict[str, int] = {}
        self.stopped: set[int | None] = set()

    def __enter__(self) -> Board:
        self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()

    def say(self, line: str) -> None:
        self.console.print(line, highlight=False, soft_wrap=True)

    def name_stopped(self, processes: Sequence[BaseProcess]) -> None:
        """Say once of each worker that is stopped that it is being waited for."""
        for process in processes:
            if process.pid not in self.stopped and is_stopped(process.pid):
                self.stopped.add(process.pid)
                self.say(
                    f"worker process {process.pid} is stopped, waiting for it (kill -CONT {process.pid})"
                )

    def watcher(self, job: Job, label: str) -> Any:
        return lambda row: self._show(job, label, row)

    def look(self, job: Job, label: str, folder: Path) -> None:
        """Read a worker's journal: files are the truth."""
        rows = Journal(folder / "rounds.jsonl").rows()
        if rows and rows[-1]["round"] != self.seen.get(job.digest):
            self._show(job, label, RoundReport.from_dict(rows[-1]))

    def done(self, job: Job, label: str) -> None:
        before = self.seen.pop(job.digest, 0)
        self.bar.advance(self.total, job.setting.rounds - before)
        if job.digest in self.tasks:
            self.bar.remove_task(self.tasks.pop(job.digest))
        if not self.console.is_terminal:
            self.say(f"{label}, seed {job.seed}: finished")

    def _show(self, job: Job, label: str, row: RoundReport) -> None:
        before, rounds = self.seen.get(job.digest, 0), job.setting.rounds
        self.seen[job.digest] = row.round
        self.bar.advance(self.total, row.round - before)
        if job.digest not in self.tasks and self.console.is_terminal:
            self.tasks[job.digest] = self.bar.add_task(
                f"{label}, seed {job.seed}", total=rounds, say=""
            )
        if self.console.is_terminal:
            self.bar.update(self.tasks[job.digest], completed=row.round, say=summary(row))
        elif row.round * 4 // rounds > before * 4 // rounds:
            self.say(f"{label}, seed {job.seed}  {row.round}/{rounds}  {summary(row)}")
