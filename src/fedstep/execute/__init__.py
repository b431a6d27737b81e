"""Who runs `client`, and where."""

from fedstep.execute.cohort import Cohort
from fedstep.execute.sequential import Sequential
from fedstep.execute.task import Executor, Store, Task

__all__ = ["Cohort", "Executor", "Sequential", "Store", "Task"]
