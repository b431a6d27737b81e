"""Who runs `client`, and where."""

from fedstep.execute.base import Executor, Local
from fedstep.execute.cohort import Cohort
from fedstep.execute.processes import Processes
from fedstep.execute.sequential import Sequential
from fedstep.execute.store import DiskStore, Store
from fedstep.execute.task import Task

__all__ = [
    "Cohort",
    "DiskStore",
    "Executor",
    "Local",
    "Processes",
    "Sequential",
    "Store",
    "Task",
]
