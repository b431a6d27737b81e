"""How far a run is, on a terminal as a live line, elsewhere as plain lines."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from fedstep.callbacks.base import Callback, RoundEnd, RunStart, hidden
from fedstep.core.printable import printable
from fedstep.run.progress import progress_bar, summary
from fedstep.run.terminal import console

LINES = 20  # of a run without a terminal: a log of a thousand lines is read by nobody


@dataclass
class Progress(Callback):
    """What `fit(progress=True)` shows: the notes of the run, then its rounds."""

    _run: RunStart | None = hidden()
    _terminal: Any = hidden()
    _bar: Any = hidden()
    _job: Any = hidden()
    _open: ExitStack | None = hidden()

    def start(self, run: RunStart) -> None:
        self._run = run
        # stderr: what a script prints to stdout may be read by another
        self._terminal = console(stderr=True)
        for note in run.notes:
            self._terminal.print(f"{run.name}: {note}", soft_wrap=True)
        self._bar = None
        # in a file a live line would be thousands of lines
        if self._terminal.is_terminal:
            self._open = ExitStack()
            self._bar = self._open.enter_context(progress_bar(self._terminal, width=40))
            self._job = self._bar.add_task(printable(run.name), total=run.rounds, summary="")

    def round(self, moment: RoundEnd) -> None:
        assert self._run is not None
        row = moment.report
        if self._bar is not None:
            self._bar.update(self._job, completed=row.round, summary=summary(row))
            return
        interval = max(1, self._run.rounds // LINES)
        if row.round % interval == 0 or moment.last:
            progress = f"{row.round}/{self._run.rounds}"
            self._terminal.print(f"{self._run.name} {progress}  {summary(row)}", soft_wrap=True)

    def end(self, result: Any) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was found, also where the run was interrupted."""
        if self._open is not None:
            self._open.close()
        self._open = None
        self._bar = None
