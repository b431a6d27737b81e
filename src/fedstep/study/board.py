"""What is shown of many runs at once: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from rich.progress import TaskID

from fedstep.core.printable import printable
from fedstep.execute.children import is_stopped
from fedstep.run.folder import JOURNAL
from fedstep.run.journal import Journal
from fedstep.run.progress import progress_bar, summary
from fedstep.run.record import RoundReport
from fedstep.run.terminal import console
from fedstep.study.plan import Job

LINES = 4  # a run, where there is no terminal: a study has many


class RunsBoard:
    """Rounds done over all jobs, and the running jobs' last rows."""

    def __init__(self, total: int) -> None:
        self.console = console(stderr=True)
        self.bar = progress_bar(
            self.console,
            width=24,
            disable=not self.console.is_terminal,
        )
        self.total = self.bar.add_task("all runs", total=total, summary="")
        self.tasks: dict[str, TaskID] = {}  # by the digest of the job, as the rounds below
        self.rounds_shown: dict[str, int] = {}  # the bar of all runs is moved by differences
        self.stopped: set[int | None] = set()  # processes that were named

    def __enter__(self) -> RunsBoard:
        self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()

    def say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)

    def name_stopped(self, processes: Sequence[BaseProcess]) -> None:
        """Say once of each worker that is stopped that it is being waited for."""
        for process in processes:
            pid = process.pid
            if pid not in self.stopped and is_stopped(pid):
                self.stopped.add(pid)
                self.say(f"worker process {pid} is stopped, waiting for it (kill -CONT {pid})")

    def watcher(self, job: Job, label: str) -> Callable[[RoundReport], None]:
        """What a run in this process calls after every round."""

        def watch(row: RoundReport) -> None:
            self._show(job, label, row)

        return watch

    def look(
        self,
        job: Job,
        label: str,
        folder: Path,
    ) -> None:
        """Read a worker's journal: files are the truth."""
        rows = Journal(folder / JOURNAL).rows()
        if not rows:
            return
        last = rows[-1]
        # it is looked at every second, and a round may take minutes
        if last["round"] != self.rounds_shown.get(job.digest):
            row = RoundReport.from_dict(last)
            self._show(job, label, row)

    def done(self, job: Job, label: str) -> None:
        """The run is finished."""
        # the last rounds may have come between two looks
        before = self.rounds_shown.pop(job.digest, 0)
        self.bar.advance(self.total, job.setting.rounds - before)
        if job.digest in self.tasks:
            self.bar.remove_task(self.tasks.pop(job.digest))
        if not self.console.is_terminal:
            self.say(f"{label}, seed {job.seed}: finished")

    def _show(
        self,
        job: Job,
        label: str,
        row: RoundReport,
    ) -> None:
        before = self.rounds_shown.get(job.digest, 0)
        self.rounds_shown[job.digest] = row.round
        self.bar.advance(self.total, row.round - before)
        if self.console.is_terminal:
            self._show_bar(job, label, row)
        else:
            self._show_line(job, label, row, before)

    def _show_bar(
        self,
        job: Job,
        label: str,
        row: RoundReport,
    ) -> None:
        if job.digest not in self.tasks:
            name = printable(f"{label}, seed {job.seed}")
            task = self.bar.add_task(name, total=job.setting.rounds, summary="")
            self.tasks[job.digest] = task
        self.bar.update(
            self.tasks[job.digest],
            completed=row.round,
            summary=summary(row),
        )

    def _show_line(
        self,
        job: Job,
        label: str,
        row: RoundReport,
        before: int,
    ) -> None:
        rounds = job.setting.rounds
        # a line when a quarter is passed, also where several rounds came at once
        quarter_before = before * LINES // rounds
        quarter = row.round * LINES // rounds
        if quarter > quarter_before:
            progress = f"{row.round}/{rounds}"
            self.say(f"{label}, seed {job.seed}  {progress}  {summary(row)}")
