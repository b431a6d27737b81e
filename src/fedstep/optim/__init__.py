"""Step rules alone, as torch optimisers: docs/optim.md."""

from fedstep.optim.armijo import Armijo
from fedstep.optim.lean import lean_search
from fedstep.optim.searching import Searching

__all__ = ["Armijo", "Searching", "lean_search"]
