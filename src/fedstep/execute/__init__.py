"""Who runs `client`, and where."""

from fedstep.execute.cohort import Cohort
from fedstep.execute.processes import Processes
from fedstep.execute.sequential import Sequential
from fedstep.execute.store import DiskStore, Store
from fedstep.execute.task import Executor, Task

__all__ = ["Cohort", "DiskStore", "Executor", "Processes", "Sequential", "Store", "Task"]
