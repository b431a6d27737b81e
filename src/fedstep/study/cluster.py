"""The runs of a study on a Ray cluster: one task a run, results in a shared folder (extra `ray`).

A single run would leave all but one worker idle: there the clients of its rounds are the work.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from fedstep.core.errors import InputError
from fedstep.execute.ray import Ray
from fedstep.execute.ray_session import RaySession, ray
from fedstep.study.board import RunsBoard
from fedstep.study.kept import folder_of
from fedstep.study.plan import Job
from fedstep.study.pool import PendingRun, PendingRuns, show_finished
from fedstep.study.work import work

LOOK = 1.0  # seconds between two looks at how far the runs are
# seconds that a retried run waits for the lock of the one before it, which may still be dying
DYING = 60.0
START = 300.0  # seconds without a single run under way after which the study stops


def finish_on_ray(
    pending: PendingRuns,
    board: RunsBoard,
    address: str | None,
    cpus: float = 1.0,
) -> None:
    """Every run is a task; a node that dies gives its runs to the others, from their checkpoints.

    address: of a running cluster; None starts one on this machine.
    """
    session = RaySession.open(address)
    try:
        # a profile says where the time of one process goes: such a run stays in one
        if len(pending.runs) == 1 and not pending.profile:
            _finish_rounds(pending, board, cpus)
            return
        home = pending.home.resolve()
        _check_shared(home, cpus)
        _await_runs(_submitted(pending, home, cpus), home, board, cpus)
    finally:
        session.close()


def _finish_rounds(pending: PendingRuns, board: RunsBoard, cpus: float) -> None:
    """One run: its driver is here, and the clients of every round are on the cluster."""
    (run,) = pending.runs
    notes = work(
        run.job,
        pending.home,
        pending.data,
        watch=board.watcher(run.job, run.label),
        spread=partial(Ray, cpus=cpus),
    )
    show_finished(board, run, notes)


def _check_shared(home: Path, cpus: float) -> None:
    """Refuse a results folder that only this machine sees: its results would be lost there."""
    home.mkdir(parents=True, exist_ok=True)
    note = home / f"shared-{uuid4().hex}.txt"
    note.write_text(note.name)
    try:
        seen = ray.remote(_reads).options(num_cpus=cpus).remote(note, note.name)
        ready, _ = ray.wait([seen], timeout=START)
        if not ready:
            total = ray.cluster_resources().get("CPU", 0.0)
            raise InputError(
                f"Ray: nothing was run for {START:g} s; a run asks for {cpus:g} CPUs, "
                f"the cluster has {total:g}: start nodes"
            )
        if not ray.get(ready[0], timeout=START):
            raise InputError(
                f"{home}: the cluster's nodes do not see it; give --out a shared folder"
            )
    finally:
        note.unlink(missing_ok=True)


def _reads(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def _submitted(pending: PendingRuns, home: Path, cpus: float) -> dict[Any, PendingRun]:
    # retried by Ray when its worker or node dies; what a run raises is not retried
    task = ray.remote(_work).options(num_cpus=cpus, max_retries=3)
    # workers have a working directory of their own: a path must say all of itself
    data = pending.data
    if data is not None:
        data = data.resolve()
    submitted = {}
    for run in pending.runs:
        reference = task.remote(run.job, home, data, pending.profile)
        submitted[reference] = run
    return submitted


def _work(job: Job, home: Path, data: Path | None, profile: bool) -> list[str]:
    return work(job, home, data, profile=profile, patience=DYING)


def _await_runs(
    waiting: dict[Any, PendingRun],
    home: Path,
    board: RunsBoard,
    cpus: float,
) -> None:
    able_at = monotonic()  # when the cluster could last have run one
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=LOOK)
        # a run may take days; a cluster on which none can be run is not waited for
        total = ray.cluster_resources().get("CPU", 0.0)
        if total >= cpus:
            able_at = monotonic()
        if monotonic() - able_at > START:
            raise InputError(
                f"Ray: for {START:g} s the cluster had {total:g} CPUs, and a run asks for "
                f"{cpus:g}: start nodes, and run the command again, it continues"
            )
        for run in waiting.values():
            board.look(run.job, run.label, folder_of(run.job, home))
        for reference in ready:
            run = waiting.pop(reference)
            show_finished(board, run, _notes(reference, run))


def _notes(reference: Any, run: PendingRun) -> list[str]:
    try:
        notes: list[str] = ray.get(reference, timeout=DYING)
        return notes
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception):
            raise cause from None
        first_line = str(error).strip().splitlines()[0]
        raise InputError(
            f"{run.label}: its worker died again and again ({first_line[:200]}); "
            "run the command again, it continues from the checkpoints"
        ) from None
